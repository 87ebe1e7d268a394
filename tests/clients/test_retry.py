"""examples/retry/client.py: requests that come again, and those that do not."""

import importlib.util
import subprocess
import sys
import time

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from conftest import FIXTURES, ROOT, free_ports

CLIENT = ROOT / "examples/retry/client.py"
TOTAL = "running_total"
LIMIT = 60


@pytest.fixture(scope="module")
def example():
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("retry_client", CLIENT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def start(port, *flags):
    """Start the example."""
    command = [sys.executable, str(CLIENT), "--url", f"127.0.0.1:{port}", "--model", TOTAL, *flags]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def of_steps(count):
    """What it prints of so many steps."""
    return "".join(f"{number} {[[float(number)] * 4]}\n" for number in range(1, count + 1))


def test_it_waits_for_a_server_that_starts(running):
    """UNAVAILABLE until the server is there."""
    port, rest_port = free_ports(2)
    client = start(port)
    first = client.stderr.readline()
    assert first.startswith("StatusCode.UNAVAILABLE: "), first
    path = str(FIXTURES / "models" / TOTAL)
    flags = ["--model_name", TOTAL, "--model_path", path, "--stateful"]
    flags += ["--port", str(port), "--rest_port", str(rest_port)]
    running.launch(TOTAL, ["serve", *flags])
    said, errors = client.communicate(timeout=LIMIT)
    assert (client.returncode, said) == (0, of_steps(3)), errors


def test_a_limit_slows_it_down(serve):
    """RESOURCE_EXHAUSTED until the limit has room again."""
    limits = "requests-per-second=4,burst=1"
    server = serve(TOTAL, "--stateful", "--client-limits", limits)
    client = start(server.port, "--steps", "4")
    said, errors = client.communicate(timeout=LIMIT)
    assert (client.returncode, said) == (0, of_steps(4)), errors
    assert "StatusCode.RESOURCE_EXHAUSTED: " in errors


class Lossy:
    """A client that loses the first answer to each step."""

    def __init__(self, client):
        self.client, self.keys = client, []

    def infer(self, *args, headers, **more):
        """Sends the request, and drops every other answer."""
        answer = self.client.infer(*args, headers=headers, **more)
        self.keys.append(headers["ovms-idempotency-key"])
        if len(self.keys) % 2:
            raise InferenceServerException("the answer is lost", "StatusCode.UNAVAILABLE")
        return answer


def test_no_step_is_counted_twice(example, serve, tmp_path):
    """Each step has a key of its own, the same in both attempts."""
    server = serve(TOTAL, "--stateful", "--sequence-store", f"file://{tmp_path}")
    with triton.InferenceServerClient(server.grpc) as client:
        lossy = Lossy(client)
        values = np.ones((4, 1, 4), np.float32)
        answers = example.steps(lossy, TOTAL, values, LIMIT)
        assert [answer.as_numpy("total")[0, 0] for answer in answers] == [1, 2, 3, 4]
    assert lossy.keys[::2] == lossy.keys[1::2]
    assert len(set(lossy.keys)) == 4


def failing(calls, text, status):
    """A call that is refused, and counts how often."""

    def call(limit):
        calls.append(limit)
        raise InferenceServerException(text, status)

    return call


@pytest.mark.parametrize(
    "text, status",
    [
        ("Model with requested name is not found", "StatusCode.NOT_FOUND"),
        ("Request is too large - it needs more", "StatusCode.RESOURCE_EXHAUSTED"),
        ("decoded message length too large", "StatusCode.RESOURCE_EXHAUSTED"),
    ],
)
def test_what_is_no_better_later_ends_at_once(example, text, status):
    """One attempt."""
    calls = []
    with pytest.raises(InferenceServerException):
        example.retried(failing(calls, text, status), LIMIT)
    assert len(calls) == 1


def test_the_time_limit_ends_it(example, monkeypatch):
    """Attempts have what is left of the time, and the last error is raised within it."""
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(time, "monotonic", lambda: sum(slept))
    calls = []
    with pytest.raises(InferenceServerException):
        example.retried(failing(calls, "busy", "StatusCode.UNAVAILABLE"), 12)
    assert sum(slept) < 12 and max(slept) <= example.LONGEST
    assert calls[0] == example.ATTEMPT and calls[-1] <= 2 * example.LONGEST


def test_a_server_that_starts_is_worth_another(example):
    """It has no version of the model yet; a name that there is not gets another answer."""

    def is_worth(text):
        return example.is_worth_another(InferenceServerException(text, "StatusCode.NOT_FOUND"))

    assert is_worth("Model with requested version is not found")
    assert not is_worth("Mediapipe graph definition with requested name is not found")
