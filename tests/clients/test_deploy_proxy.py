"""Replicas behind nginx, with the configuration of deploy/: sequences stay where their state is."""

import http.client
import json
import os
import queue
import re
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest
import requests
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from prometheus_client.parser import text_string_to_metric_families
from tritonclient.utils import InferenceServerException

from conftest import PROGRAM, ROOT, FIXTURES, Server, free_ports, program

TOTAL = "running_total"
ECHO = "passthrough_f32"
HEADER = "ovms-sequence-id"
LIMIT = 20.0
APIS = ["kserve-grpc", "kserve-rest", "tfs-grpc", "tfs-rest"]


def find(name):
    """A program that is here; the test is skipped without."""
    found = program(name)
    if found is None:
        pytest.skip(f"no {name} here; `make test-tools` gets it")
    return found


@dataclass
class Cluster:
    """Two replicas, and the proxy before them."""

    proxy: Server
    replicas: list
    processes: list

    def url(self, api):
        """The proxy's address for an API of `ovms infer`."""
        return self.proxy.grpc if api.endswith("grpc") else self.proxy.rest

    def started(self):
        """How many sequences each replica has begun."""
        return [figure(replica, "ovms_sequences_started") for replica in self.replicas]

    def stop(self, index):
        """End a replica."""
        self.processes[index].terminate()
        assert self.processes[index].wait(timeout=LIMIT) == 0


def posted(server, path):
    """The status of an empty POST of a path as it is written; `requests` takes slashes away."""
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=LIMIT)
    connection.request("POST", path)
    status = connection.getresponse().status
    connection.close()
    return status


def figure(server, name):
    """A figure of the model that remembers."""
    page = requests.get(server.url("/metrics"), timeout=LIMIT).text
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name in (name, f"{name}_total") and sample.labels["name"] == TOTAL:
                return sample.value
    raise AssertionError(f"no {name} in {page}")


@contextmanager
def nginx(folder, replicas):
    """The proxy with the configuration as it is printed, but for ports."""
    port, rest_port = free_ports(2)
    text = (ROOT / "deploy/nginx.conf").read_text()
    changes = {"listen 9000 ": f"listen 127.0.0.1:{port} ", "listen 8000;": f"listen 127.0.0.1:{rest_port};"}
    for index, replica in enumerate(replicas):
        changes[f"127.0.0.1:900{index + 1};"] = f"{replica.grpc};"
        changes[f"127.0.0.1:800{index + 1};"] = f"{replica.rest};"
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    (folder / "ovms.conf").write_text(text)
    # What a system's own nginx.conf says; two workers, so that what they must share is shared.
    temporary = "".join(
        f"{name}_temp_path {folder}/{name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(
        f"{user} worker_processes 2; daemon off; pid {folder}/pid; error_log stderr;\n"
        f"events {{ worker_connections 512; }}\n"
        f"http {{ access_log off; {temporary} include {folder}/ovms.conf; }}\n"
    )
    command = [find("nginx"), "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr"]
    log = (folder / "log").open("wb")
    process = subprocess.Popen(command, stdout=log, stderr=log)
    proxy = Server(TOTAL, port, rest_port)
    try:
        end = time.monotonic() + LIMIT
        while True:
            assert process.poll() is None and time.monotonic() < end, (folder / "log").read_text()
            try:
                if requests.get(proxy.url("/v2/health/ready"), timeout=LIMIT).ok:
                    break
            except requests.ConnectionError:
                time.sleep(0.02)
        yield proxy
    finally:
        process.terminate()
        process.wait(timeout=LIMIT)


@contextmanager
def behind_nginx(running, folder):
    """Two replicas and the proxy; they end with the block."""
    find("nginx")
    models = [
        {"config": {"name": TOTAL, "base_path": str(FIXTURES / "models" / TOTAL), "stateful": True}},
        {"config": {"name": ECHO, "base_path": str(FIXTURES / "models" / ECHO)}},
    ]
    config = folder / "config.json"
    config.write_text(json.dumps({"model_config_list": models}))
    replicas, processes = [], []
    for _ in range(2):
        flags = ["--config_path", str(config), "--metrics_enable"]
        replicas.append(running.start("replica", *flags))
        processes.append(running.processes[-1])
    with nginx(folder, replicas) as proxy:
        cluster = Cluster(proxy, replicas, processes)
        yield cluster
    for index in range(len(replicas)):
        cluster.stop(index)


@pytest.fixture(scope="module")
def cluster(running, tmp_path_factory):
    """What most tests share."""
    with behind_nginx(running, tmp_path_factory.mktemp("proxy")) as cluster:
        yield cluster


@pytest.fixture
def own_cluster(running, tmp_path):
    """For a test that ends replicas."""
    with behind_nginx(running, tmp_path) as cluster:
        yield cluster


def client_of(api, cluster):
    """A client of Triton, its module, and what makes it name a sequence."""
    if api == "grpc":
        return triton_grpc.InferenceServerClient(cluster.proxy.grpc), triton_grpc
    return triton_http.InferenceServerClient(cluster.proxy.rest), triton_http


def step(api, client, module, sequence, value, named=True, **more):
    """Send one step, and return the total."""
    tensor = module.InferInput("x", [1, 4], "FP32")
    tensor.set_data_from_numpy(np.full((1, 4), value, np.float32))
    headers = {HEADER: str(sequence)} if named else None
    result = client.infer(TOTAL, [tensor], sequence_id=sequence, headers=headers, **more)
    return result.as_numpy("total")[0, 0]


def infer(cluster, api, *args):
    """Start `ovms infer` with a sequence that comes line by line."""
    command = [PROGRAM, "infer", TOTAL, "--url", cluster.url(api), "--api", api]
    command += ["-i", "-", "--sequence", "--each", "--output", "json", *args]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, **pipes)


def test_sequences_of_our_client_stay_with_their_replica(cluster):
    """Every API, all at once, step by step in turn; both replicas have some of them."""
    before = cluster.started()
    children = [infer(cluster, api) for api in APIS for _ in range(4)]
    totals = [0.0] * len(children)
    for number in range(3):
        for index, child in enumerate(children):
            child.stdin.write(f"[{number},{number},{number},{index}]\n")
            child.stdin.flush()
        for index, child in enumerate(children):
            line = child.stdout.readline()
            assert line, child.stderr.read()
            totals[index] += index
            assert json.loads(line)["outputs"][0]["data"][3] == totals[index]
    for child in children:
        _, errors = child.communicate(timeout=LIMIT)
        assert child.returncode == 0, errors
    begun = [now - then for now, then in zip(cluster.started(), before)]
    assert sum(begun) == len(children)
    alive = [figure(replica, "ovms_sequences_active") for replica in cluster.replicas]
    assert alive == [0, 0]
    # Ids are random: that all go the same way has a chance of 2 in 65536.
    assert all(begun), begun


@pytest.mark.parametrize("api", ["grpc", "http"])
def test_other_clients_say_it_with_a_header(cluster, api):
    """Sequences are begun until both replicas have some; then all go on, in turn."""
    client, module = client_of(api, cluster)
    before = cluster.started()
    begun = []
    while any(now - then < 3 for now, then in zip(cluster.started(), before)):
        assert len(begun) < 200, cluster.started()
        begun.append(1 + len(begun))
        assert step(api, client, module, begun[-1], 1, sequence_start=True) == 1
    for total in (2, 3):
        assert [step(api, client, module, sequence, 1) for sequence in begun] == [total] * len(begun)
    # Without it, the steps of a sequence go to whoever has the least to do.
    with pytest.raises(InferenceServerException, match="Sequence with provided ID does not exist"):
        for _ in range(20):
            step(api, client, module, begun[0], 1, named=False)
    for sequence in begun:
        assert step(api, client, module, sequence, 1, sequence_end=True) >= 4
    client.close()


def test_a_stream_goes_to_one_replica(cluster):
    """Answers come while the stream is open, in order."""
    client = triton_grpc.InferenceServerClient(cluster.proxy.grpc)
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)), headers={HEADER: "5"})
    for index in range(4):
        tensor = triton_grpc.InferInput("x", [1, 4], "FP32")
        tensor.set_data_from_numpy(np.ones((1, 4), np.float32))
        ends = {"sequence_start": index == 0, "sequence_end": index == 3}
        client.async_stream_infer(TOTAL, [tensor], sequence_id=5, **ends)
        result, error = answers.get(timeout=LIMIT)
        assert error is None, error
        assert result.as_numpy("total")[0, 0] == index + 1
    client.stop_stream()
    client.close()


@pytest.mark.parametrize("api", ["grpc", "http"])
def test_tensors_may_be_large(cluster, api):
    """8 MB there and back; nginx by itself refuses bodies above 1 MB."""
    client, module = client_of(api, cluster)
    data = np.arange(2 << 20, dtype=np.float32).reshape(1, -1)
    tensor = module.InferInput("in", list(data.shape), "FP32")
    tensor.set_data_from_numpy(data)
    np.testing.assert_array_equal(client.infer(ECHO, [tensor]).as_numpy("out"), data)
    client.close()


def test_a_replica_that_is_gone_takes_its_sequences_with_it(own_cluster):
    """Others go on, new ones are begun, and what is lost is reported; without replicas, that is reported."""
    cluster = own_cluster
    client, module = client_of("grpc", cluster)
    begun = {0: [], 1: []}
    while not all(begun.values()):
        sequence = 1 + len(begun[0]) + len(begun[1])
        assert sequence < 200, begun
        before = cluster.started()
        step("grpc", client, module, sequence, 1, sequence_start=True)
        begun[int(cluster.started()[1] > before[1])].append(sequence)
    cluster.stop(0)
    with pytest.raises(InferenceServerException) as lost:
        step("grpc", client, module, begun[0][0], 1)
    assert "Sequence with provided ID does not exist" in str(lost.value)
    assert "NOT_FOUND" in str(lost.value)
    for sequence in begun[1]:
        assert step("grpc", client, module, sequence, 1) == 2
    for sequence in range(1000, 1010):
        assert step("grpc", client, module, sequence, 1, sequence_start=True) == 1
        assert step("grpc", client, module, sequence, 1, sequence_end=True) == 2
    client.close()

    cluster.stop(1)
    for api, code in (("kserve-grpc", "UNAVAILABLE"), ("kserve-rest", "503 Service Unavailable")):
        child = infer(cluster, api)
        _, errors = child.communicate("[1,1,1,1]\n", timeout=LIMIT)
        assert child.returncode == 1
        assert re.search(f"{code}: no replica could be reached", errors), errors


def test_what_is_of_one_replica_is_not_passed_on(cluster):
    """Figures, the page, and the configuration are those of a replica."""
    browser = {"Accept": "text/html"}
    for path in ("/metrics", "/", "/dashboard", "/dashboard/state"):
        answer = requests.get(cluster.proxy.url(path), headers=browser, timeout=LIMIT)
        assert answer.status_code == 404, path
    for path in ("/v1/config/reload", "//v1/config/reload"):
        assert posted(cluster.proxy, path) == 404, path
