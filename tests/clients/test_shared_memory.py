"""Triton's clients with tensors in system shared memory."""

import os

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException, serialize_byte_tensor, shared_memory

PREFIX = "/ovms_py_"
ON = ["--shared_memory", PREFIX]


@pytest.fixture(params=["grpc", "http"])
def connect(request, serve):
    """A function that serves a model and gives a client of either transport with its module."""
    clients = []

    def open_client(model, *flags):
        server = serve(model, *ON, *flags)
        if request.param == "grpc":
            client, module = triton_grpc.InferenceServerClient(server.grpc), triton_grpc
        else:
            client, module = triton_http.InferenceServerClient(server.rest), triton_http
        clients.append(client)
        return client, module

    yield open_client
    for client in clients:
        client.unregister_system_shared_memory()
        client.close()


@pytest.fixture
def make():
    """A function that makes a region of shared memory; all of them are destroyed after the test."""
    regions = []

    def create(name, size):
        key = f"{PREFIX}{os.getpid()}_{name}"
        region = shared_memory.create_shared_memory_region(name, key, size, create_only=True)
        regions.append(region)
        return region, key

    yield create
    for region in regions:
        shared_memory.destroy_shared_memory_region(region)


def status(client, module):
    """The registered regions by name, from either transport."""
    kwargs = {"as_json": True} if module is triton_grpc else {}
    answer = client.get_system_shared_memory_status(**kwargs)
    if module is triton_grpc:
        answer = answer.get("regions", {}).values()
    return {region["name"]: int(region["byte_size"]) for region in answer}


def test_inputs_and_outputs(connect, make):
    """As in the examples of Triton: two inputs in one region, the output in another."""
    client, module = connect("add")
    inputs, key = make("inputs", 80)
    outputs, output_key = make("outputs", 100)
    client.register_system_shared_memory("inputs", key, 80)
    client.register_system_shared_memory("outputs", output_key, 60, offset=40)
    assert status(client, module) == {"inputs": 80, "outputs": 60}
    first, second = np.arange(10, dtype=np.float32), np.full(10, 5, np.float32)
    shared_memory.set_shared_memory_region(inputs, [first, second])
    tensors = [module.InferInput(name, [1, 10], "FP32") for name in ["input1", "input2"]]
    tensors[0].set_shared_memory("inputs", 40)
    tensors[1].set_shared_memory("inputs", 40, offset=40)
    output = module.InferRequestedOutput("sum")
    output.set_shared_memory("outputs", 48, offset=12)
    answer = client.infer("add", tensors, outputs=[output])
    found = answer.get_output("sum")
    if module is triton_grpc:
        assert list(found.shape) == [1, 10] and found.datatype == "FP32"
        assert found.parameters["shared_memory_region"].string_param == "outputs"
        assert found.parameters["shared_memory_byte_size"].int64_param == 40
    else:
        assert found == {"name": "sum", "shape": [1, 10], "datatype": "FP32"}
    written = shared_memory.get_contents_as_numpy(outputs, np.float32, [1, 10], offset=52)
    np.testing.assert_array_equal(written[0], first + second)

    # One input in the request, and the output in the response.
    tensors[1].set_data_from_numpy(np.full((1, 10), 7, np.float32))
    answer = client.infer("add", tensors)
    np.testing.assert_array_equal(answer.as_numpy("sum")[0], first + 7)


def test_strings(connect, make):
    """Strings go through a region in both directions."""
    client, module = connect("passthrough_string")
    texts = np.array([b"a", b"", "ž".encode()], dtype=object)
    packed = serialize_byte_tensor(texts)
    size = len(packed.item())
    region, key = make("strings", 2 * size)
    client.register_system_shared_memory("strings", key, 2 * size)
    shared_memory.set_shared_memory_region(region, [packed])
    tensor = module.InferInput("in", [3], "BYTES")
    tensor.set_shared_memory("strings", size)
    output = module.InferRequestedOutput("out")
    output.set_shared_memory("strings", size, offset=size)
    client.infer("passthrough_string", [tensor], outputs=[output])
    found = shared_memory.get_contents_as_numpy(region, np.object_, [3], offset=size)
    np.testing.assert_array_equal(found, texts)


def test_errors(connect, make):
    """What Triton refuses is refused with its words."""
    client, module = connect("dummy")
    region, key = make("x", 40)
    client.register_system_shared_memory("x", key, 40)

    def fails(match, call, *args, **kwargs):
        with pytest.raises(InferenceServerException, match=match):
            call(*args, **kwargs)

    register = client.register_system_shared_memory
    fails("shared memory region 'x' already in manager", register, "x", key, 40)
    fails("failed to register shared memory region 'y': invalid args", register, "y", key, 41)
    fails("Unable to open shared memory region", register, "y", PREFIX + "missing", 1)
    fails("keys have to begin with '/ovms_py_'", register, "y", "/other", 1)
    fails("system shared memory region: 'y'", client.get_system_shared_memory_status, "y")
    fails("CUDA shared memory", client.register_cuda_shared_memory, "y", b"", 0, 1)
    tensor = module.InferInput("b", [1, 10], "FP32")
    tensor.set_shared_memory("y", 40)
    fails("Unable to find shared memory region: 'y'", client.infer, "dummy", [tensor])
    tensor.set_shared_memory("x", 40, offset=1)
    fails("Invalid offset . byte size for shared memory", client.infer, "dummy", [tensor])
    tensor.set_shared_memory("x", 36)
    fails("Expected: 40 bytes; Actual: 36 bytes", client.infer, "dummy", [tensor])
    # The client keeps an offset that it was given before.
    tensor = module.InferInput("b", [1, 10], "FP32")
    tensor.set_shared_memory("x", 40)
    output = module.InferRequestedOutput("a")
    output.set_shared_memory("x", 39)
    text = "output 'a' .39 bytes. should be at least 40 bytes to hold the results"
    fails(text, client.infer, "dummy", [tensor], outputs=[output])
    client.unregister_system_shared_memory("x")
    client.unregister_system_shared_memory("stranger")
    assert status(client, module) == {}
    fails("Unable to find shared memory region: 'x'", client.infer, "dummy", [tensor])


def test_sequences_and_streams(connect, make):
    """Steps of a sequence are in regions, over a stream too."""
    client, module = connect("running_total", "--stateful")
    region, key = make("steps", 32)
    client.register_system_shared_memory("steps", key, 32)
    shared_memory.set_shared_memory_region(region, [np.ones(4, np.float32)])
    tensor = module.InferInput("x", [1, 4], "FP32")
    tensor.set_shared_memory("steps", 16)
    output = module.InferRequestedOutput("total")
    output.set_shared_memory("steps", 16, offset=16)

    def total():
        return shared_memory.get_contents_as_numpy(region, np.float32, [4], offset=16)[0]

    def ask(send, **more):
        sequence = 9 if module is triton_grpc else 10
        return send("running_total", [tensor], outputs=[output], sequence_id=sequence, **more)

    ask(client.infer, sequence_start=True)
    ask(client.infer)
    assert total() == 2
    if module is triton_grpc:
        answers = []
        client.start_stream(lambda result, error: answers.append((result, error)))
        ask(client.async_stream_infer)
        client.stop_stream()
        assert [error for _, error in answers] == [None]
        assert total() == 3
