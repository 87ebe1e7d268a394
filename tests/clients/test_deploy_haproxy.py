"""Replicas behind HAProxy, with the configuration of deploy/: any of them goes on with any sequence."""

import json
import re
import socket
import subprocess
import time
from contextlib import contextmanager

import requests
from prometheus_client.parser import text_string_to_metric_families

from conftest import FIXTURES, ROOT, Server, free_ports
from test_deploy_proxy import APIS, LIMIT, TOTAL, Cluster, find, infer, posted


SOCKET = "/tmp/ovms-haproxy.sock"


def asked(folder, command):
    """The answer of the proxy's runtime socket."""
    with socket.socket(socket.AF_UNIX) as runtime:
        runtime.settimeout(LIMIT)
        runtime.connect(str(folder / "haproxy.sock"))
        runtime.sendall(f"{command}\n".encode())
        return b"".join(iter(lambda: runtime.recv(65536), b"")).decode()


@contextmanager
def launched(folder, name, *arguments):
    """A program of the system, until the block ends."""
    log = folder / f"{name}.log"
    with log.open("wb") as out:
        command = [find(name), *map(str, arguments)]
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        yield process, log
    finally:
        process.kill()
        process.wait()


def configured(folder, replicas):
    """The configuration as it is printed, but for ports, and the proxy's ports."""
    port, rest_port = free_ports(2)
    changes = {"bind :9000": f"bind 127.0.0.1:{port}", "bind :8000": f"bind 127.0.0.1:{rest_port}"}
    changes[SOCKET] = str(folder / "haproxy.sock")
    for index, replica in enumerate(replicas, 1):
        changes[f"127.0.0.1:900{index}"] = replica.grpc
        changes[f"127.0.0.1:800{index}"] = replica.rest
        changes[f"port 800{index}"] = f"port {replica.rest_port}"
    text = (ROOT / "deploy/haproxy.cfg").read_text()
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    path = folder / "haproxy.cfg"
    path.write_text(text)
    return path, Server(TOTAL, port, rest_port)


def wait(what, check):
    """Wait until a check is true."""
    end = time.monotonic() + LIMIT
    while True:
        try:
            if check():
                return
        except requests.ConnectionError:
            pass
        assert time.monotonic() < end, what
        time.sleep(0.02)


def answered(server):
    """How many inferences a replica has answered."""
    page = requests.get(server.url("/metrics"), timeout=LIMIT).text
    samples = (each for family in text_string_to_metric_families(page) for each in family.samples)
    methods = ("ModelInfer", "Predict")
    return sum(each.value for each in samples if each.labels.get("method") in methods)


def test_the_proxy_of_a_fleet_closes_the_same_paths():
    """What concerns one replica is listed in both configurations."""
    plain, fleet = ((ROOT / folder / "haproxy.cfg").read_text() for folder in ("deploy", "deploy/ray"))
    (closed,) = re.findall("http-request return status 404 .*", plain)
    assert closed in fleet


def test_sequences_go_on_with_whoever_is_there(running, tmp_path):
    """Every API, without a header; also after one of the two replicas has been stopped."""
    (port,) = free_ports(1)
    places = ["--port", port, "--bind", "127.0.0.1", "--dir", tmp_path]
    with launched(tmp_path, "redis-server", *places) as (_, log):
        wait("Redis", lambda: "Ready to accept connections" in log.read_text())
        flags = ["--model_name", TOTAL, "--model_path", str(FIXTURES / "models" / TOTAL), "--stateful"]
        flags += [f"--sequence_store=redis://127.0.0.1:{port}", "--sequence_durability=step"]
        replicas = [running.start("shared", *flags, "--metrics_enable") for _ in range(2)]
        path, proxy = configured(tmp_path, replicas)
        cluster = Cluster(proxy, replicas, running.processes[-2:])
        with launched(tmp_path, "haproxy", "-db", "-f", path):
            wait("HAProxy", lambda: requests.get(proxy.url("/v2/health/ready"), timeout=LIMIT).ok)
            children = [infer(cluster, api) for api in APIS for _ in range(2)]
            for number in (1, 2, 3, 4):
                if number == 3:
                    counts = [answered(replica) for replica in replicas]
                    assert sum(counts) == 2 * len(children) and all(counts), counts
                    cluster.stop(0)
                for child in children:
                    child.stdin.write("[1,1,1,1]\n")
                    child.stdin.flush()
                    line = child.stdout.readline()
                    assert line, child.stderr.read()
                    assert json.loads(line)["outputs"][0]["data"][3] == number
            for child in children:
                _, errors = child.communicate(timeout=LIMIT)
                assert child.returncode == 0, errors
            for closed in ("/metrics", "/", "/dashboard/state", "/v1/config/reload"):
                assert requests.get(proxy.url(closed), timeout=LIMIT).status_code == 404, closed
            for closed in ("/v1/config/reload", "//v1/config/reload"):
                assert posted(proxy, closed) == 404, closed
        cluster.stop(1)


def test_a_replica_is_drained_by_the_command_of_the_manual(running, tmp_path):
    """Requests go to the other one, and come back with the state `ready`; nobody else may write to the socket."""
    page = (ROOT / "docs/scaling.md").read_text()
    found = re.search(rf'echo "(set server .*)" \| socat stdio {SOCKET}', page)
    assert found, "docs/scaling.md has no command that drains"
    drain = found[1]
    flags = ["--model_name", TOTAL, "--model_path", str(FIXTURES / "models" / TOTAL), "--metrics_enable"]
    replicas = [running.start("drained", *flags) for _ in range(2)]
    path, proxy = configured(tmp_path, replicas)

    def counts(number):
        """How many more inferences each replica has answered after some through the proxy."""
        before = [answered(replica) for replica in replicas]
        for _ in range(number):
            body = {"instances": [[1, 1, 1, 1]]}
            answer = requests.post(proxy.url(f"/v1/models/{TOTAL}:predict"), json=body, timeout=LIMIT)
            assert answer.status_code == 200, answer.text
        return [answered(replica) - old for replica, old in zip(replicas, before)]

    with launched(tmp_path, "haproxy", "-db", "-f", path):
        wait("HAProxy", lambda: requests.get(proxy.url("/v2/health/ready"), timeout=LIMIT).ok)
        assert (tmp_path / "haproxy.sock").stat().st_mode & 0o777 == 0o600
        assert all(counts(4)), "both are there"
        assert asked(tmp_path, drain).strip() == ""
        assert counts(4) == [0, 4]
        assert "ovms_grpc/one" in asked(tmp_path, "show servers conn")
        assert asked(tmp_path, drain.replace("state drain", "state ready")).strip() == ""
        wait("the first replica", lambda: counts(2)[0] > 0)
