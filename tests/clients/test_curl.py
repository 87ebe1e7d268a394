"""curl, which everybody has: JSON, binary data, and compressed bodies."""

import gzip
import json
import shutil
import subprocess

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")

JSON = json.dumps(
    {"inputs": [{"name": "b", "shape": [1, 10], "datatype": "FP32", "data": list(range(10))}]}
)


def curl(*arguments, body=None):
    """Head and body of an answer."""
    command = ["curl", "--silent", "--show-error", "--max-time", "20", "--include", *arguments]
    done = subprocess.run(command, input=body, capture_output=True, check=True)
    head, _, rest = done.stdout.partition(b"\r\n\r\n")
    if b" 100 " in head.splitlines()[0]:
        head, _, rest = rest.partition(b"\r\n\r\n")
    return head.decode().lower(), rest


def test_json(serve):
    """The command of the README."""
    url = serve("dummy").url("/v2/models/dummy/infer")
    head, body = curl(url, "-d", JSON)
    assert head.startswith("http/1.1 200")
    assert json.loads(body)["outputs"][0]["data"] == [number + 1 for number in range(10)]


def test_metadata_and_health(serve):
    """Plain GETs, and a HEAD."""
    server = serve("dummy")
    _, body = curl(server.url("/v2/models/dummy"))
    assert json.loads(body)["platform"] == "OpenVINO"
    assert curl(server.url("/v2/health/ready"))[0].startswith("http/1.1 200")
    assert curl("--head", server.url("/v2"))[0].startswith("http/1.1 200")


def test_binary(serve):
    """JSON with binary data behind it, both ways."""
    request = json.dumps(
        {
            "inputs": [{"name": "b", "shape": [1, 10], "datatype": "FP32"}],
            "outputs": [{"name": "a", "parameters": {"binary_data": True}}],
        }
    ).encode()
    b = np.arange(10, dtype=np.float32)
    head, body = curl(
        serve("dummy").url("/v2/models/dummy/infer"),
        "-H", f"Inference-Header-Content-Length: {len(request)}",
        "-H", "Content-Type: application/octet-stream",
        "--data-binary", "@-",
        body=request + b.tobytes(),
    )  # fmt: skip
    lines = dict(line.split(": ", 1) for line in head.splitlines()[1:])
    length = int(lines["inference-header-content-length"])
    assert json.loads(body[:length])["outputs"][0]["parameters"] == {"binary_data_size": 40}
    np.testing.assert_array_equal(np.frombuffer(body[length:], np.float32), b + 1)


def test_compressed(serve):
    """A gzip body in, and `--compressed` for what comes out."""
    head, body = curl(
        serve("dummy").url("/v2/models/dummy/infer"),
        "--compressed",
        "-H", "Content-Encoding: gzip",
        "--data-binary", "@-",
        body=gzip.compress(JSON.encode()),
    )  # fmt: skip
    assert head.startswith("http/1.1 200")
    assert json.loads(body)["outputs"][0]["data"][9] == 10


def test_large_body_after_100_continue(serve):
    """A body for which curl asks first."""
    image = [0] * (3 * 224 * 224)
    request = {"inputs": [{"name": "image", "shape": [1, 3, 224, 224], "datatype": "FP32"}]}
    request["inputs"][0]["data"] = image
    head, body = curl(
        serve("fullsize").url("/v2/models/fullsize/infer"),
        "-H", "Expect: 100-continue",
        "--data-binary", "@-",
        body=json.dumps(request).encode(),
    )  # fmt: skip
    assert head.startswith("http/1.1 200")
    assert json.loads(body)["outputs"][0]["data"] == [0.0, 0.0, 0.0]


def test_error(serve):
    """A status and a text."""
    head, body = curl(serve("dummy").url("/v2/models/stranger/infer"), "-d", JSON)
    assert head.startswith("http/1.1 404")
    assert json.loads(body) == {"error": "Model with requested name is not found"}
