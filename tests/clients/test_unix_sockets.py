"""Unix sockets: the channels of gRPC, Triton's client, curl, and httpx."""

import json
import shutil
import subprocess

import grpc
import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2, service_pb2_grpc

from conftest import FIXTURES, PLUGIN_CONFIG

BODY = {"inputs": [{"name": "b", "shape": [1, 10], "datatype": "FP32", "data": [1.0] * 10}]}


@pytest.fixture(scope="module")
def sockets(running, tmp_path_factory):
    """The sockets of a server without ports."""
    folder = tmp_path_factory.mktemp("sockets")
    arguments = ["serve", "--model_name", "dummy", "--model_path", str(FIXTURES / "models/dummy")]
    arguments += ["--plugin_config", PLUGIN_CONFIG]
    arguments += ["--grpc_unix_socket", str(folder / "grpc")]
    arguments += ["--rest_unix_socket", str(folder / "rest")]
    running.launch("unix-sockets", arguments)
    return folder


# gRPC's C library makes the authority of the path, percent-encoded, which is none in HTTP/2.
AUTHORITY = [("grpc.default_authority", "localhost")]


def test_channel(sockets):
    """A channel of gRPC to `unix:PATH`, and with the path as a URL has it."""
    for target in [f"unix:{sockets / 'grpc'}", f"unix://{sockets / 'grpc'}"]:
        with grpc.insecure_channel(target, options=AUTHORITY) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            assert stub.ServerReady(service_pb2.ServerReadyRequest(), timeout=10).ready


def test_triton(sockets):
    """An inference by Triton's client."""
    client = triton.InferenceServerClient(f"unix:{sockets / 'grpc'}", channel_args=AUTHORITY)
    tensor = triton.InferInput("b", [1, 10], "FP32")
    tensor.set_data_from_numpy(np.ones((1, 10), np.float32))
    answer = client.infer("dummy", [tensor])
    np.testing.assert_array_equal(answer.as_numpy("a"), np.full((1, 10), 2, np.float32))
    client.close()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl(sockets):
    """An inference by curl."""
    command = ["curl", "-sS", "--max-time", "20", "--unix-socket", str(sockets / "rest")]
    command += ["http://localhost/v2/models/dummy/infer", "-d", json.dumps(BODY)]
    done = subprocess.run(command, capture_output=True, check=True)
    assert json.loads(done.stdout)["outputs"][0]["data"] == [2.0] * 10


def test_httpx(sockets):
    """Several requests of a pool of connections."""
    transport = httpx.HTTPTransport(uds=str(sockets / "rest"))
    with httpx.Client(transport=transport, base_url="http://localhost") as client:
        for _ in range(3):
            answer = client.post("/v2/models/dummy/infer", json=BODY).raise_for_status()
            assert answer.json()["outputs"][0]["data"] == [2.0] * 10
