"""The engines of the chaos test: Redis, HAProxy, replicas of `ovms`, and what cuts a replica off from Redis."""

import asyncio
import contextlib
import csv
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "clients"))
from conftest import PROGRAM, ROOT, free_ports  # noqa: E402
from conftest import program as find  # noqa: E402

MODEL = "vad_stateful"
# How long an engine may take to start, to end, or to finish what it has begun.
LIMIT = 40.0
SLOTS = [f"s{number}" for number in range(1, 9)]
HEALTH = b"GET /v2/health/ready HTTP/1.1\r\nhost: x\r\n\r\n"
# A connection that cannot be made is tried with another server; a request is never sent twice. Checks go to the REST
# port, and say HTTP/1 by themselves: `check-proto` does not reach the servers of a template.
HAPROXY = """
global
    stats socket {folder}/haproxy.sock level admin
defaults
    mode http
    balance roundrobin
    retries 3
    option redispatch 1
    retry-on conn-failure
    timeout connect 2s
    timeout client 60s
    timeout server 60s
    option httpchk
    http-check connect default proto h1
    http-check send meth GET uri /v2/health/ready
    default-server inter 400ms fastinter 200ms fall 3 rise 1
frontend rest_front
    bind 127.0.0.1:{rest}
    http-after-response set-header x-replica %[srv_name]
    default_backend rest
frontend grpc_front
    bind 127.0.0.1:{grpc} proto h2
    http-after-response set-header x-replica %[srv_name]
    default_backend grpc
backend rest
    server-template s 1-8 127.0.0.1:1 check disabled
backend grpc
    server-template s 1-8 127.0.0.1:1 proto h2 check disabled
"""


async def until(condition, what):
    """Wait until a condition holds, which may be asked often."""
    end = time.monotonic() + LIMIT
    while not await condition():
        assert time.monotonic() < end, f"{what} within {LIMIT} s"
        await asyncio.sleep(0.02)


async def ask(port, text):
    """What a server on a port says to a text; nothing if it is not there."""
    # Not `wait_for`, which takes an interrupt that comes at the moment of the answer for none.
    with contextlib.suppress(OSError, TimeoutError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(text)
        async with asyncio.timeout(5.0):
            answer = await reader.read(65536)
        writer.close()
        return answer.decode()
    return ""


class Process:
    """A program that was started, and ends with the test."""

    all = []

    def __init__(self, name, folder, *command):
        # It ends also if the test is killed.
        guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        self.name, self.log = name, folder / f"{name}.log"
        with self.log.open("ab") as out:
            # In a process group of its own: Ctrl-C reaches the test alone, which then ends it.
            self.popen = subprocess.Popen([*guard, *command], stdout=out, stderr=out, process_group=0)
        Process.all.append(self)

    async def serves(self, port, text, answer, what="does not serve"):
        """Wait until it says an answer to a text."""

        async def said():
            assert self.popen.poll() is None, f"{self.name} has ended: {self.tail()}"
            return answer in await ask(port, text)

        await until(said, f"{self.name} {what}")
        return self

    def kill(self):
        """End it in the midst of whatever it does."""
        self.popen.send_signal(signal.SIGCONT)
        self.popen.kill()
        self.popen.wait()

    async def stop(self):
        """End it in order."""
        self.popen.terminate()
        code = await asyncio.to_thread(self.popen.wait, LIMIT)
        assert code == 0, f"{self.name} ended with {code}: {self.tail()}"

    def tail(self):
        """The end of its log."""
        return self.log.read_text(errors="replace")[-2000:]


class Redis(Process):
    """A Redis server that has its data in a folder, and can be started there again."""

    def __init__(self, folder, port, primary=None, fsync="always"):
        data = folder / f"redis-{port}"
        data.mkdir(exist_ok=True)
        flags = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(data), "--save", ""]
        flags += ["--appendonly", "yes", "--appendfsync", fsync, "--repl-diskless-sync-delay", "0"]
        flags += ["--replicaof", "127.0.0.1", str(primary)] if primary else []
        super().__init__(f"redis-{port}", folder, find("redis-server"), *flags)
        self.port = port

    async def ready(self):
        """Wait until it answers."""
        return await self.serves(self.port, b"PING\r\n", "+PONG")


class Link:
    """A proxy before Redis, which can drop the connections, or hold the bytes back."""

    def __init__(self, target):
        (self.port,) = free_ports(1)
        self.target, self.writers, self.ways = target, set(), []
        # The two directions, and what an event has met: connections dropped and refused, or bytes held.
        self.out, self.back, self.met = asyncio.Event(), asyncio.Event(), 0
        self.heal()

    async def open(self):
        """Begin to listen."""
        self.server = await asyncio.start_server(self.connection, "127.0.0.1", self.port)
        return self

    async def connection(self, reader, writer):
        """Pass on the bytes of one connection, both ways, until a side ends."""
        try:
            if not self.whole:
                self.met += 1
                return
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
            pumps = self.pump(reader, far_writer, self.out), self.pump(far_reader, writer, self.back)
            ways = [asyncio.create_task(way) for way in pumps]
            # One that holds bytes back goes on by itself.
            self.ways += ways
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            far_writer.transport.abort()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    async def pump(self, reader, writer, flows):
        """Pass on the bytes of one direction."""
        self.writers.add(writer)
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                self.met += 0 if flows.is_set() else len(data)
                await flows.wait()
                writer.write(data)
        self.writers.discard(writer)

    def cut(self):
        """Drop all connections, and refuse new ones."""
        self.whole, self.met = False, len(self.writers)
        for each in self.writers:
            each.transport.abort()

    def hold(self, *directions):
        """Let no more bytes through, both ways if no direction is given; they stay."""
        self.met = 0
        for flows in directions or (self.out, self.back):
            flows.clear()

    def heal(self, target=None):
        """Let everything through, to another server if one is given."""
        self.target, self.whole = target or self.target, True
        self.out.set()
        self.back.set()


class Replica(Process):
    """One `ovms`, and its way to the store."""

    number = 0

    def __init__(self, folder, link=None, *flags):
        Replica.number += 1
        self.port, self.rest_port, self.link, self.slot = *free_ports(2), link, None
        command = [PROGRAM, "serve", "--model_name", MODEL, "--model_path", str(ROOT / "fixtures/models" / MODEL)]
        command += ["--stateful", "--max_sequence_number", "2000", "--grpc_bind_address", "127.0.0.1"]
        command += ["--port", str(self.port), "--rest_port", str(self.rest_port), "--rest_bind_address", "127.0.0.1"]
        command += ["--plugin_config", '{"INFERENCE_PRECISION_HINT":"f32"}']
        super().__init__(f"replica-{Replica.number}", folder, *command, *flags)

    async def ready(self):
        """Wait until it serves."""
        return await self.serves(self.rest_port, HEALTH, " 200 ")


class Fleet:
    """HAProxy, with replicas in its slots."""

    def __init__(self, folder, redis_port, durability, options=""):
        self.folder, self.redis_port, self.options = folder, redis_port, options
        self.durability, self.replicas, self.free = durability, [], list(SLOTS)
        self.rest_port, self.port = free_ports(2)

    async def open(self, count):
        """Start HAProxy and replicas."""
        config = self.folder / "haproxy.cfg"
        config.write_text(HAPROXY.format(folder=self.folder, rest=self.rest_port, grpc=self.port))
        haproxy = Process("haproxy", self.folder, find("haproxy"), "-db", "-f", str(config))
        await haproxy.serves(self.rest_port, HEALTH, " 503 ")
        await self.scale(count)
        return self

    async def launch(self):
        """Start a replica that nobody knows of yet."""
        link = await Link(self.redis_port).open()
        flags = ["--sequence_store", f"redis://127.0.0.1:{link.port}/{self.options}"]
        flags += ["--sequence_durability", self.durability]
        return await Replica(self.folder, link, *flags).ready()

    async def scale(self, count):
        """Start and stop replicas until there are so many."""
        for replica in await asyncio.gather(*(self.launch() for _ in range(count - len(self.replicas)))):
            await self.admit(replica)
        while len(self.replicas) > count:
            await self.retire(self.replicas[0])

    async def said(self, command):
        """The answer to a command on the runtime socket."""
        reader, writer = await asyncio.open_unix_connection(self.folder / "haproxy.sock")
        writer.write(command.encode() + b"\n")
        answer = (await reader.read()).decode()
        writer.close()
        return answer

    async def haproxy(self, command):
        """Have a change made, which must not be refused."""
        answer = await self.said(command)
        assert "No such" not in answer and "nvalid" not in answer, (command, answer)

    async def servers(self):
        """The counters of all servers of both backends, with what the last check of each came to, in words."""
        lines = (await self.said("show stat")).removeprefix("# ").splitlines()
        return [server for server in csv.DictReader(lines) if server["svname"] in SLOTS]

    async def flying(self, replica):
        """The number of requests that a replica has."""
        return sum(int(server["scur"]) for server in await self.servers() if server["svname"] == replica.slot)

    async def have(self, status):
        """The slots that have a status in both backends."""
        slots = Counter(server["svname"] for server in await self.servers() if server["status"].split()[0] == status)
        return {slot for slot, backends in slots.items() if backends == 2}

    async def unanswered(self):
        """How many requests were sent to each slot from which nothing came back."""
        counts = Counter()
        for server in await self.servers():
            answered = sum(int(server[f"hrsp_{kind}"]) for kind in ("1xx", "2xx", "3xx", "4xx", "5xx", "other"))
            # One whose connection cannot be made is sent to another slot.
            counts[server["svname"]] += int(server["stot"]) - int(server["wredis"]) - answered
        return +counts

    async def state(self, replica, state):
        """Tell both backends what to do with a slot."""
        for backend in ("rest", "grpc"):
            await self.haproxy(f"set server {backend}/{replica.slot} state {state}")

    async def admit(self, replica):
        """Give a replica a slot, and wait until HAProxy sees that it serves."""
        self.replicas.append(replica)
        replica.slot = self.free.pop(0)
        for backend, port in (("rest", replica.rest_port), ("grpc", replica.port)):
            await self.haproxy(f"set server {backend}/{replica.slot} check-port {replica.rest_port}")
            await self.haproxy(f"set server {backend}/{replica.slot} addr 127.0.0.1 port {port}")
        await self.state(replica, "ready")

        async def up():
            return replica.slot in await self.have("UP")

        await until(up, f"HAProxy does not see {replica.name}")

    async def retire(self, replica):
        """Take a replica out, let it finish, and stop it."""
        await self.state(replica, "drain")

        async def idle():
            return not await self.flying(replica)

        await until(idle, f"{replica.name} is not idle")
        await replica.stop()
        await self.forget(replica)

    async def forget(self, replica):
        """Free the slot of a replica that has ended."""
        self.replicas.remove(replica)
        replica.link.server.close()
        await self.state(replica, "maint")
        self.free.append(replica.slot)


@contextlib.contextmanager
def ended():
    """Ends all that was started, whatever happens."""
    try:
        yield
    except Exception:
        for process in Process.all:
            print(f"--- {process.name}: {process.popen.poll()}\n{process.tail()}")
        raise
    finally:
        for process in Process.all:
            if process.popen.poll() is None:
                process.kill()
        Process.all.clear()
