"""deploy/ray: replicas on three raylets of this machine, behind HAProxy, while sequences go on.

The tests are one story, in the order in which they stand. `make fleet` has limits on times besides, FLEET_TIMES.
"""

import itertools
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
import requests
import tritonclient.grpc as triton_grpc
from tritonclient.utils import InferenceServerException

from conftest import FIXTURES, PROGRAM, ROOT, free_ports
from test_deploy_proxy import find

RAY = ROOT / "target/fleet-venv/bin"
IS_TIMED = "FLEET_TIMES" in os.environ
LIMIT = 60.0
# Ray takes 127.0.0.1 for a name of the machine, and asks its network.
HOST = "127.0.0.2"
TOTAL = "running_total"
ENVIRONMENT = {
    # Nodes wait for a head that is away, instead of ending after a minute.
    "RAY_gcs_rpc_server_reconnect_timeout_s": "3600",
    "RAY_health_check_period_ms": "1000",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def eventually(what, check, seconds=LIMIT):
    """Wait until a check gives something; within so many seconds, where times are measured."""
    began = time.monotonic()
    while not (found := check()):
        assert time.monotonic() - began < LIMIT, f"not within {LIMIT} s: {what}"
        time.sleep(0.05)
    took = time.monotonic() - began
    print(f"{what}: {took:.1f} s")
    assert took <= seconds or not IS_TIMED, f"{what}: {took:.1f} s"
    return found


def field(pid, name):
    """A line of /proc/PID/status; none if the process is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return next(line.split()[1] for line in lines if line.startswith(f"{name}:"))


def below(pid):
    """A process with all that it has started."""
    own = [each.name for each in Path("/proc").iterdir() if each.name.isdigit()]
    children = [int(each) for each in own if field(each, "PPid") == str(pid)]
    return [pid, *(each for child in children for each in below(child))]


class Node:
    """A raylet, with what it has started; the head has the control service as well, and no room for replicas."""

    def __init__(self, folder, address, *flags):
        command = [str(RAY / "ray"), "start", *flags, "--node-ip-address", HOST, "--block"]
        command += ["--object-store-memory", "80000000", "--min-worker-port=0", "--max-worker-port=0"]
        self.log = folder / f"node{address}"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, env=os.environ | ENVIRONMENT, stdout=log, stderr=subprocess.STDOUT
            )
        eventually("a node is there", lambda: "Ray runtime started" in self.log.read_text())

    def kill(self):
        """Kill the raylet and all that is beside it at once, as when the machine loses its power."""
        for pid in below(self.process.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()

    def kill_raylet(self):
        """Kill the raylet alone."""
        (raylet,) = [pid for pid in below(self.process.pid)[1:] if field(pid, "Name") == "raylet"]
        os.kill(raylet, signal.SIGKILL)


class Traffic:
    """Sequences whose steps go through the proxy all the time, over two APIs; every answer is checked."""

    def __init__(self, port, rest_port, log, threads=3, each=10):
        # HAProxy's, which says what it had taken out when it refused.
        self.log = log
        self.rest = f"http://127.0.0.1:{rest_port}/v2/models/{TOTAL}/infer"
        self.grpc = triton_grpc.InferenceServerClient(f"127.0.0.1:{port}")
        # How many steps were answered; failures that a retry made good; what is wrong.
        self.answered, self.retried, self.lost = 0, [], []
        self.over = threading.Event()
        ids = itertools.count(1)
        mine = [[next(ids) for _ in range(each)] for _ in range(threads)]
        self.threads = [threading.Thread(target=self.run, args=[own]) for own in mine]
        for thread in self.threads:
            thread.start()

    def run(self, ids):
        """Step after step, each sequence in turn."""
        session = requests.Session()
        for count in itertools.count(1):
            for sequence in ids:
                if self.over.is_set():
                    return
                send = self.over_grpc if (sequence + count) % 2 else self.over_rest
                try:
                    self.step(send, session, sequence, count)
                except (AssertionError, KeyError, ValueError) as error:
                    self.lost.append(f"sequence {sequence}, step {count}: {error}")
                    return

    def step(self, send, session, sequence, count):
        """One step; sent again with the same key if there is no answer."""
        for attempt in range(100):
            try:
                total = send(session, sequence, count)
                break
            except (requests.RequestException, InferenceServerException) as error:
                self.retried.append(f"{time.monotonic():.2f} {error}")
                assert attempt < 99 and not self.over.is_set(), error
                time.sleep(0.2)
        assert total == count, f"expected {count}, got {total}"
        self.answered += 1

    def over_rest(self, session, sequence, count):
        """With KServe's REST API."""
        body = {
            "parameters": {"sequence_id": sequence, "sequence_start": count == 1},
            "inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 1, 1, 1]}],
        }
        headers = {"ovms-idempotency-key": f"{sequence}-{count}"}
        answer = session.post(self.rest, json=body, headers=headers, timeout=20)
        if answer.status_code >= 500:
            raise requests.RequestException(answer.text)
        assert answer.status_code == 200, answer.text
        (total,) = [each for each in answer.json()["outputs"] if each["name"] == "total"]
        return total["data"][0]

    def over_grpc(self, _, sequence, count):
        """With KServe's gRPC API."""
        tensor = triton_grpc.InferInput("x", [1, 4], "FP32")
        tensor.set_data_from_numpy(np.ones((1, 4), np.float32))
        headers = {"ovms-idempotency-key": f"{sequence}-{count}"}
        try:
            answer = self.grpc.infer(
                TOTAL,
                [tensor],
                sequence_id=sequence,
                sequence_start=count == 1,
                headers=headers,
                client_timeout=20,
            )
        except InferenceServerException as error:
            assert error.status() == "StatusCode.UNAVAILABLE", error
            raise
        return answer.as_numpy("total")[0, 0]

    def goes_on(self, steps=60):
        """Wait until more steps are answered, on any thread, and nothing is lost."""
        end = self.answered + steps
        eventually(f"{steps} more steps", lambda: self.lost or self.answered >= end)
        assert not self.lost, self.lost

    def stop(self):
        """End all."""
        self.over.set()
        for thread in self.threads:
            thread.join()


@contextmanager
def undisturbed(traffic):
    """No request fails meanwhile, not even for a moment."""
    before = len(traffic.retried)
    yield
    traffic.goes_on()
    assert traffic.retried[before:] == [], traffic.log.read_text()


def busy(address, steps):
    """Send a request that takes a core for some time: 100,000 steps for a second."""
    inputs = [
        {"name": "steps", "shape": [1], "datatype": "INT64", "data": [steps]},
        {"name": "x", "shape": [64, 64], "datatype": "FP32", "data": [0.0] * 4096},
    ]
    url = f"http://{address}/v2/models/busy/infer"
    return requests.post(url, json={"inputs": inputs}, timeout=LIMIT)


class Fleet:
    """The cluster, Redis, the proxy, and the application that is tested."""

    def __init__(self, folder, short):
        self.folder, self.processes = folder, []
        self.port, self.rest_port, self.store, gcs = free_ports(4)
        self.address = f"{HOST}:{gcs}"
        self.socket = f"{short}/haproxy"
        self.launch("redis-server", "--port", self.store, "--dir", folder, "--appendonly", "yes")
        self.launch("haproxy", "-db", "-f", self.proxy())
        no_room = ["--num-cpus=0", "--include-dashboard=false", f"--temp-dir={short}/ray"]
        self.head = Node(folder, 0, "--head", f"--port={gcs}", *no_room)
        joins = [f"--address={self.address}", "--num-cpus=4"]
        self.nodes = [Node(folder, index, *joins) for index in (1, 2)]
        models = [
            {"name": TOTAL, "base_path": str(FIXTURES / "models" / TOTAL), "stateful": True},
            {"name": "busy", "base_path": str(FIXTURES / "models/busy"), "nireq": 1},
        ]
        models[1]["plugin_config"] = {"INFERENCE_NUM_THREADS": 1}
        self.config = folder / "config.json"
        text = json.dumps({"model_config_list": [{"config": model} for model in models]})
        self.config.write_text(text)

    def launch(self, name, *arguments):
        """Start a program of the system."""
        log = (self.folder / name).open("wb")
        command = [find(name), *map(str, arguments)]
        self.processes.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT))

    def proxy(self):
        """The proxy's configuration as it is printed, but for the places."""
        text = (ROOT / "deploy/ray/haproxy.cfg").read_text()
        changes = {
            "/run/ovms-haproxy.sock": self.socket,
            "bind :9000": f"bind 127.0.0.1:{self.port}",
            "bind :8000": f"bind 127.0.0.1:{self.rest_port}",
        }
        for old, new in changes.items():
            assert old in text, old
            text = text.replace(old, new)
        path = self.folder / "haproxy.cfg"
        path.write_text(text)
        return path

    def run(self, *arguments):
        """Run the application."""
        script = ROOT / "deploy/ray/fleet.py"
        command = [str(RAY / "python"), str(script), "--address", self.address, *arguments]
        done = subprocess.run(
            command, env=os.environ | ENVIRONMENT, capture_output=True, text=True, timeout=LIMIT
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def up(self):
        """Start it: two replicas up to four, three requests each."""
        flags = ["--program", PROGRAM, "--cpus=1", "--min=2", "--max=4", "--pending-each=3"]
        flags += ["--idle-seconds=3", f"--haproxy=unix:{self.socket}", f"--wait={LIMIT}"]
        served = ["--config_path", str(self.config), "--file_system_poll_wait_seconds=0"]
        served += [f"--sequence_store=redis://127.0.0.1:{self.store}", "--sequence_durability=step"]
        self.run("up", *flags, "--", *served)

    def replicas(self):
        """What there is, by slot."""
        # Ray may have something to say as well.
        (line,) = [each for each in self.run("status").splitlines() if each.startswith("{")]
        found = json.loads(line)["replicas"]
        return {each["slot"]: each for each in found}

    def ready(self, count):
        """The replicas, if so many are there, all of them are ready, and none is on its way out."""
        found = self.replicas()
        is_so = len(found) == count and all(each["ready"] and not each["draining"] for each in found.values())
        return found if is_so else None

    def end(self):
        """End everything, and wait for processes that replicas have left behind."""
        pids = [pid for node in [self.head, *self.nodes] for pid in below(node.process.pid)]
        for node in [*self.nodes, self.head]:
            node.kill()
        eventually("processes are gone", lambda: all(field(pid, "State") in (None, "Z") for pid in pids))
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """A cluster without replicas."""
    if not (RAY / "ray").exists():
        pytest.skip("no Ray here; `make test-tools` gets it")
    find("haproxy"), find("redis-server")
    # Ray's sockets have long names, of which 107 characters are allowed.
    with tempfile.TemporaryDirectory(prefix="fleet") as short:
        fleet = Fleet(tmp_path_factory.mktemp("fleet"), short)
        yield fleet
        fleet.end()


@pytest.fixture(scope="module")
def traffic(fleet):
    """Sequences that live through the whole story."""
    began = time.monotonic()
    fleet.up()
    took = time.monotonic() - began
    print(f"up: {took:.1f} s")
    assert took <= 15 or not IS_TIMED, took
    traffic = Traffic(fleet.port, fleet.rest_port, fleet.folder / "haproxy")
    traffic.goes_on()
    yield traffic
    traffic.stop()
    print(f"{traffic.answered} steps; failed once: {traffic.retried}")


def test_two_replicas_serve(fleet, traffic):
    """Both have something to do."""
    with undisturbed(traffic):
        replicas = fleet.ready(2)
        assert all(each["sequences"] for each in replicas.values()), replicas
        # Ray's own default is 15.
        assert {os.getpriority(os.PRIO_PROCESS, each["pid"]) for each in replicas.values()} == {0}


@contextmanager
def twelve_clients(fleet):
    """Clients that need four replicas, until it is left; none of them is refused."""
    over = threading.Event()
    codes = []

    def load():
        while not over.is_set():
            codes.append(busy(f"127.0.0.1:{fleet.rest_port}", 5_000).status_code)

    threads = [threading.Thread(target=load) for _ in range(12)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert set(codes) == {200}


def test_load_brings_more(fleet, traffic):
    """Twelve requests at once need four replicas."""
    with undisturbed(traffic), twelve_clients(fleet):
        eventually("from two to four", lambda: fleet.ready(4), 20)


@contextmanager
def never_idle(address):
    """Two clients of one replica, so that it always has a request that takes long; all of them are answered."""
    over = threading.Event()
    codes = []

    def load():
        while not over.is_set():
            codes.append(busy(address, 100_000).status_code)
            assert codes[-1] == 200

    with ThreadPoolExecutor(2) as threads:
        clients = [threads.submit(load) for _ in range(2)]
        try:
            yield codes
        finally:
            over.set()
    for client in clients:
        client.result()


def test_a_replica_is_drained_before_it_goes(fleet, traffic):
    """The last one has requests that take longer; they are answered, and only then the process ends."""
    with undisturbed(traffic):
        with ExitStack() as clients:
            # The requests come while the load still holds their replica.
            with twelve_clients(fleet):
                last = eventually("four are there", lambda: fleet.ready(4))[4]
                codes = clients.enter_context(never_idle(f"{last['address']}:{last['rest_port']}"))
            eventually("it is on its way out", lambda: fleet.replicas().get(4, {}).get("draining"))
            # Of several seconds together: the fleet has looked at it meanwhile, and waited.
            end = len(codes) + 4
            eventually("it answers nevertheless", lambda: len(codes) >= end)
        eventually("two are left", lambda: fleet.ready(2))
        assert field(last["pid"], "State") is None


def test_a_killed_actor_is_replaced(fleet, traffic):
    """Ray starts another one, and the process of the first ends by itself."""
    before = fleet.ready(2)[1]
    os.kill(int(field(before["pid"], "PPid")), signal.SIGKILL)

    def replaced():
        now = fleet.ready(2)
        return now and now[1]["pid"] != before["pid"]

    eventually("a killed actor is replaced", replaced, 10)
    eventually("its process is gone", lambda: field(before["pid"], "State") is None)
    traffic.goes_on()


def test_a_killed_process_is_replaced(fleet, traffic):
    """Its actor starts another one."""
    before = fleet.ready(2)[2]
    os.kill(before["pid"], signal.SIGKILL)

    def replaced():
        now = fleet.ready(2)
        return now and now[2]["pid"] != before["pid"]

    eventually("a killed process is replaced", replaced, 10)
    traffic.goes_on()


def test_a_killed_raylet_is_survived(fleet, traffic):
    """Its replicas move to the other node."""
    pid = fleet.ready(2)[1]["pid"]
    (node,) = [node for node in fleet.nodes if pid in below(node.process.pid)]
    lost = set(below(node.process.pid))
    node.kill_raylet()

    def moved():
        now = fleet.ready(2)
        return now and all(each["pid"] not in lost for each in now.values())

    eventually("the replicas of a killed raylet have moved", moved)
    traffic.goes_on()


def test_traffic_goes_on_without_the_head(fleet, traffic):
    """Ray is not on the way of requests."""
    pids = [each["pid"] for each in fleet.ready(2).values()]
    with undisturbed(traffic):
        fleet.head.kill()
        traffic.goes_on(500)
    assert all(field(pid, "State") not in (None, "Z") for pid in pids)
