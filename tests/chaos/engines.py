"""The engines of the chaos test: Redis, HAProxy, replicas of `ovms`, and what cuts a replica off from Redis."""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("OVMS", str(ROOT / "target/debug/ovms"))
MODEL = "vad_stateful"
# How long an engine may take to start, to end, or to finish what it has begun.
LIMIT = 40.0
# Servers that HAProxy has room for.
SLOTS = 8

HAPROXY = """
global
    stats socket {folder}/haproxy.sock level admin
    maxconn 4000
defaults
    mode http
    balance roundrobin
    # A connection that cannot be made is tried with another server; a request is never sent twice.
    retries 3
    option redispatch 1
    retry-on conn-failure
    timeout connect 2s
    timeout client 60s
    timeout server 60s
    option httpchk GET /v2/health/ready
    default-server inter 400ms fastinter 200ms fall 3 rise 1 on-marked-down shutdown-sessions
frontend rest_front
    bind 127.0.0.1:{rest}
    http-after-response set-header x-replica %[srv_name]
    default_backend rest
frontend grpc_front
    bind 127.0.0.1:{grpc} proto h2
    http-after-response set-header x-replica %[srv_name]
    default_backend grpc
backend rest
    server-template s 1-{slots} 127.0.0.1:1 check disabled
backend grpc
    # Checks go to the REST port; `check-proto` does not reach servers of a template.
    http-check connect default proto h1
    http-check send meth GET uri /v2/health/ready
    server-template s 1-{slots} 127.0.0.1:1 proto h2 check disabled
"""


def free_ports(count):
    """Ports that were free a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def find(name):
    """A program of the system, or what tests/tools/install.py has unpacked; `None` without."""
    paths = [os.environ["PATH"], str(ROOT / "target/tools/bin"), "/usr/sbin"]
    return shutil.which(name, path=os.pathsep.join(paths))


async def until(condition, what, limit=LIMIT):
    """Wait until a condition holds, which may be asked often."""
    end = time.monotonic() + limit
    while not await condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} within {limit} s")
        await asyncio.sleep(0.02)


async def talks(port, say=b"", answer=b""):
    """Whether something listens on a port, and answers so."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(say)
        got = await asyncio.wait_for(reader.read(200), 1.0) if say else b""
        writer.close()
        return answer in got
    except (OSError, asyncio.TimeoutError):
        return False


class Process:
    """A program that was started, and ends with the test."""

    all = []

    def __init__(self, name, folder, *command):
        # It ends also if the test is killed.
        guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        self.name, self.log = name, folder / f"{name}.log"
        with self.log.open("ab") as out:
            self.popen = subprocess.Popen([*guard, *command], stdout=out, stderr=out)
        self.paused = False
        Process.all.append(self)

    def signal(self, number):
        """Send a signal to this very process."""
        self.popen.send_signal(number)

    def kill(self):
        """End it in the midst of whatever it does."""
        self.popen.kill()
        self.popen.wait()

    async def stop(self):
        """End it in order."""
        self.popen.terminate()
        await until(self.ended, f"{self.name} has not ended")
        assert self.popen.returncode == 0, f"{self.name} ended with {self.popen.returncode}: {self.tail()}"

    async def ended(self):
        """Whether it has ended."""
        return self.popen.poll() is not None

    def tail(self):
        """The end of its log."""
        return self.log.read_text(errors="replace")[-2000:]


class Redis(Process):
    """A Redis server that has its data in a folder, and can be started there again."""

    def __init__(self, folder, port, fsync="always", primary=None):
        data = folder / f"redis-{port}"
        data.mkdir(exist_ok=True)
        flags = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(data), "--save", ""]
        flags += ["--appendonly", "yes", "--appendfsync", fsync, "--repl-diskless-sync-delay", "0"]
        flags += ["--replicaof", "127.0.0.1", str(primary)] if primary else []
        super().__init__(f"redis-{port}", folder, find("redis-server"), *flags)
        self.port = port

    async def ready(self):
        """Wait until it answers."""
        await until(lambda: talks(self.port, b"PING\r\n", b"PONG"), f"{self.name} does not answer")
        return self

    async def command(self, text):
        """The answer to a command, of whatever type."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(text.encode() + b"\r\n")
        answer = await reader.read(65536)
        writer.close()
        return answer.decode()

    async def follows(self):
        """Whether it has all that its primary has."""
        return "master_link_status:up" in await self.command("INFO replication")


class Link:
    """A proxy between a replica and Redis, which can drop the connections, or hold the bytes back."""

    def __init__(self, target):
        (self.port,) = free_ports(1)
        self.target, self.whole, self.flows = target, True, asyncio.Event()
        self.flows.set()
        self.writers, self.server = set(), None

    async def open(self):
        """Begin to listen."""
        self.server = await asyncio.start_server(self.connection, "127.0.0.1", self.port)
        return self

    async def connection(self, reader, writer):
        """Pass on the bytes of one connection, both ways, until a side ends."""
        if not self.whole:
            return writer.transport.abort()
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            return writer.transport.abort()
        pair = {writer, far_writer}
        self.writers |= pair
        ways = [asyncio.create_task(self.pump(reader, far_writer)), asyncio.create_task(self.pump(far_reader, writer))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for each in pair:
            each.transport.abort()
        for each in ways:
            each.cancel()
        self.writers -= pair

    async def pump(self, reader, writer):
        """Pass on the bytes of one direction."""
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self.flows.wait()
                writer.write(data)

    def cut(self):
        """Drop all connections, and refuse new ones."""
        self.whole = False
        for each in self.writers:
            each.transport.abort()

    def hold(self):
        """Let no more bytes through; they stay."""
        self.flows.clear()

    def heal(self, target=None):
        """Let everything through, to another server if one is given."""
        self.target, self.whole = target or self.target, True
        self.flows.set()


class Replica(Process):
    """One `ovms`, and its way to the store."""

    number = 0

    def __init__(self, folder, link, *flags):
        Replica.number += 1
        self.port, self.rest_port, self.link, self.slot = *free_ports(2), link, None
        command = [PROGRAM, "serve", "--model_name", MODEL, "--model_path", str(ROOT / "fixtures/models" / MODEL)]
        command += ["--stateful", "--max_sequence_number", "2000", "--plugin_config", '{"INFERENCE_PRECISION_HINT":"f32"}']
        for name, port in (("", self.port), ("rest_", self.rest_port)):
            kind = name or "grpc_"
            command += [f"--{name}port", str(port), f"--{kind}bind_address", "127.0.0.1"]
        super().__init__(f"replica-{Replica.number}", folder, *command, *flags)

    async def ready(self):
        """Wait until it serves."""
        say = b"GET /v2/health/ready HTTP/1.1\r\nhost: x\r\n\r\n"

        async def serves():
            assert self.popen.poll() is None, self.tail()
            return await talks(self.rest_port, say, b" 200 ")

        await until(serves, f"{self.name} does not serve")
        return self


class Fleet:
    """HAProxy, with replicas in its slots."""

    def __init__(self, folder, durability="step", store="", proxied=True):
        self.folder, self.durability, self.store = folder, durability, store
        self.proxied, self.redis_port, self.replicas = proxied, None, []
        self.rest_port, self.port = free_ports(2)
        self.free = [f"s{number + 1}" for number in range(SLOTS)]
        self.known = {}

    async def open(self, redis_port, count):
        """Start HAProxy and replicas."""
        self.redis_port = redis_port
        if self.proxied:
            config = self.folder / "haproxy.cfg"
            config.write_text(HAPROXY.format(folder=self.folder, rest=self.rest_port, grpc=self.port, slots=SLOTS))
            Process("haproxy", self.folder, find("haproxy"), "-db", "-f", str(config))
            await until(lambda: talks(self.rest_port), "HAProxy does not listen")
        await self.scale(count)
        return self

    async def launch(self):
        """Start a replica that nobody knows of yet."""
        link, flags = None, []
        if self.redis_port:
            link = await Link(self.redis_port).open()
            flags = ["--sequence_store", f"redis://127.0.0.1:{link.port}/{self.store}"]
            flags += ["--sequence_durability", self.durability]
        return await Replica(self.folder, link, *flags).ready()

    async def scale(self, count):
        """Start and stop replicas until there are so many."""
        new = [self.launch() for _ in range(count - len(self.replicas))]
        for replica in await asyncio.gather(*new):
            await self.admit(replica)
        while len(self.replicas) > count:
            await self.retire(self.replicas[0])

    async def haproxy(self, *commands):
        """The answers to commands on the runtime socket."""
        reader, writer = await asyncio.open_unix_connection(self.folder / "haproxy.sock")
        writer.write("; ".join(commands).encode() + b"\n")
        answer = (await reader.read()).decode()
        writer.close()
        assert "No such" not in answer and "nvalid" not in answer, (commands, answer)
        return answer

    async def admit(self, replica):
        """Give a replica a slot, and wait until HAProxy sees that it serves."""
        self.replicas.append(replica)
        if not self.proxied:
            return
        replica.slot = self.free.pop(0)
        self.known[replica.slot] = replica.name
        for backend, port in (("rest", replica.rest_port), ("grpc", replica.port)):
            server = f"set server {backend}/{replica.slot}"
            await self.haproxy(
                f"{server} check-port {replica.rest_port}",
                f"{server} addr 127.0.0.1 port {port}",
                f"{server} state ready",
            )

        async def up():
            return [state for _, state in await self.slots(replica.slot)] == ["UP", "UP"]

        await until(up, f"HAProxy does not see {replica.name}")

    async def slots(self, slot):
        """Requests in flight and state of a slot in both backends."""
        lines = [line.split(",") for line in (await self.haproxy("show stat")).splitlines()]
        return [(int(line[4]), line[17]) for line in lines if len(line) > 17 and line[1] == slot]

    async def leave(self, replica, state):
        """Send a replica no more requests."""
        for backend in ("rest", "grpc"):
            await self.haproxy(f"set server {backend}/{replica.slot} state {state}")

    async def retire(self, replica):
        """Take a replica out, let it finish, and stop it."""
        self.replicas.remove(replica)
        if self.proxied:
            await self.leave(replica, "drain")

            async def idle():
                return not any(flying for flying, _ in await self.slots(replica.slot))

            await until(idle, f"{replica.name} is not idle")
        await replica.stop()
        await self.forget(replica)

    async def forget(self, replica):
        """Free the slot of a replica that has ended."""
        if replica in self.replicas:
            self.replicas.remove(replica)
        if replica.link:
            replica.link.server.close()
        if self.proxied:
            await self.leave(replica, "maint")
            self.free.append(replica.slot)

    def kill(self, replica):
        """End a replica in the midst of its steps."""
        self.replicas.remove(replica)
        replica.kill()


@contextlib.contextmanager
def ended():
    """Ends all that was started, whatever happens."""
    try:
        yield
    finally:
        for process in Process.all:
            if process.popen.poll() is None:
                process.signal(signal.SIGCONT)
                process.kill()
        Process.all.clear()
