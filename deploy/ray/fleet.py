"""Replicas of ovms on the nodes of a Ray cluster, behind HAProxy.

    python fleet.py up --haproxy unix:/run/ovms-haproxy.sock -- --config-path /models/config.json
    python fleet.py status | down

Each replica is an actor that keeps one `ovms` process, on whichever node has room. Another actor, the fleet, asks
them for their health and their load, starts and drains replicas, and keeps the servers of HAProxy up to date.
Requests never pass through Ray: they go on while all of this is away.
"""

import argparse
import ctypes
import json
import math
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request
from collections import deque

try:
    import ray
    from ray.exceptions import ActorDiedError, RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ModuleNotFoundError:
    # The help needs none of it.
    ray = None

NAMESPACE = "ovms"
FLEET = "fleet"
PERIOD = 0.5  # seconds between looks
BACKENDS = {"ovms_grpc": "port", "ovms_rest": "rest_port"}
# So many looks have to agree that there is too little.
LOOKS = 3
# So many times in a row a process may not answer before another one takes its place.
DEAF = 10


def fetch(url):
    """The status and the text of an answer; none if there is no answer."""
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""
    except OSError:
        return None, ""


def total(page, family):
    """The sum of the samples of a family."""
    lines = (line.split() for line in page.splitlines())
    return sum(int(line[-1]) for line in lines if line and line[0].partition("{")[0] == family)


def free_ports(address, count):
    """Ports that were free a moment ago."""
    sockets = [socket.create_server((address, 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Replica:
    """Keeps one process of the server on its node."""

    def __init__(self, program, arguments, limit):
        self.program, self.arguments, self.limit = program, arguments, limit
        self.deaf = 0
        self.stopped = False
        self.start()

    def start(self):
        """Start the process; it gets SIGTERM, and hands its sequences over, if this one goes away."""
        self.address = ray.util.get_node_ip_address()
        self.port, self.rest_port = free_ports(self.address, 2)
        command = [self.program, "serve", *self.arguments, "--metrics-enable"]
        command += ["--port", str(self.port), "--grpc-bind-address", self.address]
        command += ["--rest-port", str(self.rest_port), "--rest-bind-address", self.address]
        set_option, on_parents_death = ctypes.CDLL(None).prctl, 1
        self.process = subprocess.Popen(command, preexec_fn=lambda: set_option(on_parents_death, signal.SIGTERM))

    def status(self):
        """Where the process is, and how it is; one that has ended is replaced."""
        if self.process.poll() is not None and not self.stopped:
            print(f"ovms ended with {self.process.returncode}; starting it again", flush=True)
            self.start()
        url = f"http://{self.address}:{self.rest_port}"
        code, _ = fetch(f"{url}/v2/health/ready")
        self.deaf = self.deaf + 1 if code is None else 0
        if self.deaf > DEAF and not self.stopped:
            print("ovms does not answer; starting it again", flush=True)
            self.process.kill()
            self.deaf = 0
        _, page = fetch(f"{url}/metrics") if code == 200 else (None, "")
        return {
            "address": self.address,
            "port": self.port,
            "rest_port": self.rest_port,
            "pid": self.process.pid,
            "ready": code == 200,
            "pending": total(page, "ovms_pending_requests"),
            "sequences": total(page, "ovms_sequences_active"),
            "stopped": self.stopped,
        }

    def stop(self):
        """Have the process answer what it has begun, hand its sequences over, and end."""
        self.stopped = True
        self.process.terminate()
        try:
            self.process.wait(timeout=self.limit)
        except subprocess.TimeoutExpired:
            self.process.kill()


class Proxy:
    """The runtime socket of an HAProxy: `unix:PATH` or `tcp:HOST:PORT`."""

    def __init__(self, address):
        kind, _, place = address.partition(":")
        host, _, port = place.rpartition(":")
        self.family = socket.AF_UNIX if kind == "unix" else socket.AF_INET
        self.place = place if kind == "unix" else (host, int(port))

    def ask(self, *commands):
        """Give commands, and return what it says."""
        with socket.socket(self.family) as connection:
            connection.settimeout(2)
            connection.connect(self.place)
            connection.sendall(f"{';'.join(commands)}\n".encode())
            parts = iter(lambda: connection.recv(65536), b"")
            return b"".join(parts).decode()

    def rows(self, command):
        """The rows of a table, by their columns' names, by backend and number of the slot."""
        lines = [line.lstrip("# ") for line in self.ask(command).splitlines()]
        comma = "," if command == "show stat" else None
        head, *rows = [line.split(comma) for line in lines if len(line.split(comma)) > 5]
        backend, server = ("pxname", "svname") if comma else ("be_name", "srv_name")
        for row in (dict(zip(head, row)) for row in rows):
            number = row[server].removeprefix("ovms")
            if row[backend] in BACKENDS and number.isdigit():
                yield (row[backend], int(number)), row

    def slots(self):
        """How many servers there may be."""
        return max((number for (_, number), _ in self.rows("show servers state")), default=0)

    def busy(self, slot):
        """Whether requests are in flight on a server."""
        return any(int(row["scur"]) for (_, number), row in self.rows("show stat") if number == slot)

    def apply(self, wanted):
        """Bring the servers to `(state, replica)`; those that are not named to maintenance. States are HAProxy's."""
        commands = []
        for (backend, slot), row in self.rows("show servers state"):
            # 1: maintenance by command, 4: by configuration, 8: drain.
            flags = int(row["srv_admin_state"])
            now = "maint" if flags & 5 else "drain" if flags & 8 else "ready"
            state, replica = wanted.get(slot, ("maint", None))
            name = f"set server {backend}/ovms{slot}"
            port = replica and str(replica[BACKENDS[backend]])
            if replica and (row["srv_addr"], row["srv_port"]) != (replica["address"], port):
                commands += [f"{name} state maint"] if now != "maint" else []
                commands += [f"{name} addr {replica['address']} port {port}"]
                commands += [f"{name} check-port {replica['rest_port']}"]
                now = "maint"
            if state != now:
                commands.append(f"{name} state {state}")
        # It takes lines of 16 KB.
        for start in range(0, len(commands), 50):
            self.ask(*commands[start : start + 50])


class Fleet:
    """Starts and drains replicas, and tells HAProxy."""

    def __init__(self, options):
        self.options = options
        self.proxies = [Proxy(address) for address in options["haproxy"]]
        self.replicas = {}  # by slot
        self.asked = {}  # answers that are to come, by slot
        self.known = {}  # the last answers, by slot
        self.draining = {}  # since when, by slot
        self.stopping = {}  # ends of processes, by slot
        self.looks = deque()  # when, and how many replicas were needed
        self.error = None
        self.ending = False
        # Those of a fleet that was here before.
        for each in ray.util.list_named_actors(all_namespaces=True):
            kind, _, slot = each["name"].partition("-")
            if each["namespace"] == NAMESPACE and kind == "replica":
                self.replicas[int(slot)] = ray.get_actor(each["name"], NAMESPACE)
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        """Look, again and again."""
        while True:
            began = time.monotonic()
            try:
                self.look()
                self.error = None
            except Exception as error:
                self.error = str(error)
                traceback.print_exc()
            time.sleep(max(0.0, began + PERIOD - time.monotonic()))

    def look(self):
        """Bring everything one step further."""
        self.ask()
        for slot in list(self.draining):
            self.drain(slot)
        up = sorted(set(self.replicas) - set(self.draining))
        wanted = self.wanted(len(up))
        for slot in list(self.draining):
            if wanted > len(up) and slot not in self.stopping:
                # Not as few as it seemed.
                del self.draining[slot]
                up.append(slot)
        slots = min(proxy.slots() for proxy in self.proxies)
        free = (slot for slot in range(1, slots + 1) if slot not in self.replicas)
        for slot in [slot for slot, _ in zip(free, range(wanted - len(up)))]:
            self.start(slot)
        if wanted < len(up) and not self.draining:
            self.draining[up[-1]] = time.monotonic()
        servers = {}
        for slot in self.replicas:
            known = self.known.get(slot)
            # One that does not answer stays as it is: HAProxy has checks of its own.
            if known and (known["ready"] or slot in self.draining):
                servers[slot] = ("drain" if slot in self.draining else "ready", known)
        for proxy in self.proxies:
            proxy.apply(servers)

    def start(self, slot):
        """Start a replica. Ray starts it again if its actor or its node dies."""
        options = self.options
        self.replicas[slot] = (
            ray.remote(Replica)
            .options(
                name=f"replica-{slot}",
                namespace=NAMESPACE,
                lifetime="detached",
                get_if_exists=True,
                max_restarts=-1,
                num_cpus=options["cpus"],
                scheduling_strategy="SPREAD",
                runtime_env={"env_vars": {"RAY_worker_niceness": "0"}},  # Ray's default is 15
            )
            .remote(options["program"], options["arguments"], options["stop_limit"])
        )

    def ask(self):
        """Take the answers that have come, and ask again."""
        for slot, replica in self.replicas.items():
            if slot not in self.stopping and slot not in self.asked:
                self.asked[slot] = replica.status.remote()
        if self.asked:
            ray.wait(list(self.asked.values()), num_returns=len(self.asked), timeout=1.0)
        for slot, answer in list(self.asked.items()):
            if not ray.wait([answer], timeout=0)[0]:
                continue
            del self.asked[slot]
            try:
                self.known[slot] = ray.get(answer)
                if self.known[slot]["stopped"] and slot not in self.stopping:
                    self.forget(slot)
            except ActorDiedError:
                self.forget(slot)
            except RayError as error:
                # Ray is about to start it again.
                print(f"replica {slot}: {error}", flush=True)

    def wanted(self, up):
        """How many replicas there are to be: more at once, fewer only after some time."""
        if self.ending:
            return 0
        options, now = self.options, time.monotonic()
        loads = ("pending", "sequences")
        load = [sum(known[name] for known in self.known.values()) / options[f"{name}_each"] for name in loads]
        self.looks.append((now, math.ceil(max(load))))
        while len(self.looks) > LOOKS and self.looks[1][0] < now - options["idle_seconds"]:
            self.looks.popleft()
        needs = [need for _, need in self.looks]
        more = min(needs[-LOOKS:])
        is_long = self.looks[0][0] < now - options["idle_seconds"]
        fewer = min(up, max(needs)) if is_long else up
        return min(max(more, fewer, options["min"]), options["max"])

    def drain(self, slot):
        """Take a replica further on its way out: no new requests, the last answer, the end, away."""
        known = self.known.get(slot, {"pending": 0})
        limit = self.draining[slot] + self.options["drain_seconds"]
        if slot not in self.stopping:
            busy = known["pending"] or any(proxy.busy(slot) for proxy in self.proxies)
            if busy and time.monotonic() < limit:
                return
            self.stopping[slot] = self.replicas[slot].stop.remote()
        elif ray.wait([self.stopping[slot]], timeout=0)[0]:
            self.forget(slot)

    def forget(self, slot):
        """Drop an actor whose process has ended, or which Ray has given up."""
        ray.kill(self.replicas.pop(slot))
        for table in (self.known, self.asked, self.draining, self.stopping):
            table.pop(slot, None)

    def status(self):
        """What there is, for people."""
        known = {slot: self.known.get(slot, {"ready": False}) for slot in sorted(self.replicas)}
        replicas = [{"slot": slot, "draining": slot in self.draining, **last} for slot, last in known.items()]
        return {"replicas": replicas, "error": self.error}

    def end(self):
        """Drain them all."""
        self.ending = True


def up(flags):
    """Start the fleet, and wait until HAProxy has as many replicas as are needed at least."""
    options = vars(flags) | {"arguments": [each for each in flags.arguments if each != "--"]}
    if any(each["name"] == FLEET for each in ray.util.list_named_actors(all_namespaces=True)):
        sys.exit("the fleet is up; to start it with other flags, end it first: fleet.py down")
    here = ray.get_runtime_context().get_node_id()
    # A socket of this machine is reached from here alone.
    is_local = any(address.startswith("unix:") for address in flags.haproxy)
    fleet = (
        ray.remote(Fleet)
        .options(
            name=FLEET,
            namespace=NAMESPACE,
            lifetime="detached",
            max_restarts=-1,
            num_cpus=0,
            max_concurrency=2,
            scheduling_strategy=NodeAffinitySchedulingStrategy(here, soft=not is_local),
        )
        .remote({name: value for name, value in options.items() if name != "run"})
    )
    end = time.monotonic() + flags.wait
    while True:
        status = ray.get(fleet.status.remote())
        if sum(each["ready"] for each in status["replicas"]) >= flags.min and not status["error"]:
            return
        if time.monotonic() > end:
            sys.exit(f"not all replicas are ready after {flags.wait} s: {json.dumps(status)}")
        time.sleep(0.1)


def show(_):
    """Print what there is."""
    print(json.dumps(ray.get(ray.get_actor(FLEET, NAMESPACE).status.remote())))


def down(_):
    """Drain all replicas, and end."""
    fleet = ray.get_actor(FLEET, NAMESPACE)
    ray.get(fleet.end.remote())
    while ray.get(fleet.status.remote())["replicas"]:
        time.sleep(0.1)
    ray.kill(fleet)


def main():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--address", default="auto", help="of the Ray cluster")
    commands = parser.add_subparsers(required=True)
    start = commands.add_parser("up", help="start the fleet")
    start.set_defaults(run=up)
    start.add_argument("--haproxy", action="append", required=True, help="unix:PATH or tcp:HOST:PORT")
    start.add_argument("--program", default="ovms", help="on each node")
    start.add_argument("--cpus", type=float, default=2, help="of a node, for a replica")
    start.add_argument("--min", type=int, default=2, help="replicas")
    start.add_argument("--max", type=int, default=8, help="replicas")
    start.add_argument("--pending-each", type=float, default=8, help="requests that wait or run, for a replica")
    start.add_argument("--sequences-each", type=float, default=200, help="live sequences, for a replica")
    start.add_argument("--idle-seconds", type=float, default=60, help="of too little load before a replica goes")
    start.add_argument("--drain-seconds", type=float, default=60, help="for the requests of one that goes")
    start.add_argument("--stop-limit", type=float, default=40, help="seconds from SIGTERM to the end")
    start.add_argument("--wait", type=float, default=600, help="seconds until it has to be up")
    start.add_argument("arguments", nargs=argparse.REMAINDER, help="behind --: flags of ovms serve")
    commands.add_parser("status", help="print what there is").set_defaults(run=show)
    commands.add_parser("down", help="drain all replicas, and end").set_defaults(run=down)
    flags = parser.parse_args()
    if ray is None:
        sys.exit("Ray is not installed for this Python; pip install -r requirements.txt (beside fleet.py) installs it")
    ray.init(address=flags.address, namespace=NAMESPACE, log_to_driver=False, logging_level="warning")
    flags.run(flags)


if __name__ == "__main__":
    main()
