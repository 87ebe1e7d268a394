"""Stateful models: commands, configuration and clients as the C++ server's documentation has them."""

import re
import subprocess
import sys
from pathlib import Path

import grpc
import numpy as np
import pytest
import requests
import tritonclient.grpc as triton

from conftest import FIXTURES, Server, free_ports
from upstream import filled, link_model, moved, printed, run

STAND_INS = Path(__file__).with_name("stand_ins")
IMAGE = "openvino/model_server:latest"
# What the clients' own lines stand for.
DATA = '"""\nAdd inputs with data to infer\n"""\n'


def docker_run(name, folder):
    """Let a shell run what is printed; gives what `docker run` is to start the server with.

    In its place a function prints its arguments. Those behind the image's name are for the server; what
    `-v` mounts is at another path here.
    """
    script = 'docker() { printf "%s\\n" "$@"; }\n' + printed(name)
    command = ["sh", "-eu", "-c", script]
    listed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    before, image, arguments = listed.partition(f"\n{IMAGE}\n")
    assert image, listed
    before = before.split("\n")
    assert before[0] == "run"
    options = [before[i + 1] for i, word in enumerate(before) if word == "-v"]
    return arguments.split("\n")[:-1], dict(reversed(option.split(":")) for option in options)


def start(running, name, folder):
    """Start the server as printed, with paths and the port of this machine."""
    arguments, mounted = docker_run(name, folder)
    assert arguments[:2] == ["--port", "9000"]
    for inside, here in mounted.items():
        arguments = [here if word == inside else word for word in arguments]
        if here.endswith(".json"):
            config = Path(here)
            config.write_text(moved(config.read_text(), "/models/stateful_model", folder / "rm_lstm4f"))
    port, rest_port = free_ports(2)
    arguments[1] = str(port)
    # Only so that nobody else can connect.
    running.launch(name.replace("/", "-"), [*arguments, "--grpc_bind_address", "127.0.0.1"])
    return Server("rm_lstm4f", port, rest_port)


@pytest.fixture
def folder(tmp_path):
    """A folder with the model that is prepared before the server starts."""
    link_model("running_total", tmp_path / "rm_lstm4f")
    return tmp_path


@pytest.mark.parametrize("name", ["stateful/command_line.sh", "stateful/config_file.sh"])
def test_commands(running, folder, name):
    """The server starts as printed, and the model is stateful."""
    server = start(running, name, folder)
    x = triton.InferInput("x", [1, 4], "FP32")
    x.set_data_from_numpy(np.ones((1, 4), np.float32))
    with triton.InferenceServerClient(server.grpc) as client:
        for step in range(3):
            marks = {"sequence_start": step == 0, "sequence_end": step == 2}
            answer = client.infer("rm_lstm4f", [x], sequence_id=10, **marks)
            assert answer.as_numpy("total").tolist() == [[step + 1] * 4]


def test_options(running, folder):
    """Every option of the tables is taken, in the file and among the flags."""
    docker_run("stateful/config_file.sh", folder)
    config = folder / "config.json"
    text = moved(config.read_text(), "/models/stateful_model", folder / "rm_lstm4f")
    more = '"stateful": true, "idle_sequence_cleanup": true, "max_sequence_number": 1, '
    more += '"low_latency_transformation": false'
    config.write_text(filled(text, ('"stateful": true', more)))
    server = running.start("options", "--config_path", str(config), "--sequence_cleaner_poll_wait_minutes", "5")
    url = server.url("/v1/models/rm_lstm4f:predict")
    codes = []
    for sequence in (1, 2):
        inputs = {"x": [[1] * 4], "sequence_id": [sequence], "sequence_control_input": [1]}
        codes.append(requests.post(url, json={"inputs": inputs}, timeout=10).status_code)
    assert codes == [200, 503]
    flags = ["--stateful", "--max_sequence_number", "500", "--idle_sequence_cleanup", "--low_latency_transformation"]
    flags += ["--sequence_cleaner_poll_wait_minutes", "0"]
    running.start("flags", "--model_name", "m", "--model_path", str(folder / "rm_lstm4f"), *flags)


@pytest.fixture(scope="module")
def stateful_model(running):
    """A server of the model that the clients name."""
    path = FIXTURES / "models" / "running_total"
    flags = ["--model_name", "stateful_model", "--model_path", str(path), "--stateful"]
    return running.start("stateful_model", *flags)


class Example:
    """A printed client, in the parts that its headings make of it."""

    def __init__(self, name, address, data):
        self.text = moved(filled(printed(name), (DATA, data)), *address)
        head, *parts = re.split(r"^#{15,} *(.*?) *#{15,}$", self.text, flags=re.MULTILINE)
        # The heading of the last part is empty: there each step goes on.
        self.head, self.steps = head, dict(zip(parts[::2], parts[1::2], strict=True))

    def call(self, step, sequence=10):
        """Run what is above all steps, one step, and what is below; gives what the code knows then."""
        known = run(self.head)
        known["sequence_id"] = sequence
        return run(self.steps[step] + self.steps[""], **known)


STARTS = ["Starting sequence with custom ID", "Starting sequence without ID"]
MIDDLE, END = "Non control requests", "Ending sequence"


@pytest.fixture
def tensorflow(monkeypatch):
    """The packages that the client imports, for one test."""
    monkeypatch.syspath_prepend(str(STAND_INS))
    yield
    for name in [name for name in sys.modules if name.startswith("tensorflow")]:
        assert sys.modules.pop(name).__file__.startswith(str(STAND_INS)), name


@pytest.mark.parametrize("start", STARTS)
def test_grpc_client(stateful_model, tensorflow, start):
    """Over TensorFlow Serving's API, step by step."""
    data = 'request.inputs["x"].CopyFrom(make_tensor_proto([[1] * 4], dtype="float32"))\n'
    address = "localhost:9000", stateful_model.grpc
    example = Example("stateful/grpc_client.py", address, data)

    def total(known):
        return known["make_ndarray"](known["response"].outputs["total"]).tolist()

    known = example.call(start)
    sequence = known["sequence_id"]
    assert (sequence == 10) == (start == STARTS[0])
    assert total(known) == [[1] * 4]
    known = example.call(MIDDLE, sequence)
    assert (known["sequence_id"], total(known)) == (sequence, [[2] * 4])
    known = example.call(END, sequence)
    assert (known["sequence_id"], total(known)) == (sequence, [[3] * 4])
    with pytest.raises(grpc.RpcError) as caught:
        example.call(MIDDLE, sequence)
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    # From the first line to the last it is the end of sequence 10.
    example.call(STARTS[0])
    assert total(run(example.text)) == [[2] * 4]
    with pytest.raises(grpc.RpcError) as caught:
        run(example.text)
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("start", STARTS)
def test_rest_client(stateful_model, start):
    """Over TensorFlow Serving's API in JSON. The package wants a scheme, which the address lacks."""
    address = "localhost:5555", f"http://{stateful_model.rest}"
    example = Example("stateful/rest_client.py", address, 'inputs["x"] = [[1] * 4]\n')

    def parts(known):
        (sequence,) = known["sequence_id"]
        return sequence, known["response_body"]["outputs"]["total"]

    sequence, total = parts(example.call(start))
    assert (sequence == 10) == (start == STARTS[0])
    assert total == [[1] * 4]
    assert parts(example.call(MIDDLE, sequence)) == (sequence, [[2] * 4])
    assert parts(example.call(END, sequence)) == (sequence, [[3] * 4])
    # What is no answer of a model has no outputs.
    with pytest.raises(KeyError, match="outputs"):
        example.call(MIDDLE, sequence)
    example.call(STARTS[0])
    assert parts(run(example.text)) == (10, [[2] * 4])
