"""Streams to graphs: modes of Python nodes, and times, as the C++ server's documentation has them."""

import queue
import re

import grpc
import pytest
import tritonclient.grpc as triton
from google.protobuf import descriptor_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from tritonclient.utils import InferenceServerException

from upstream import Workspace, filled, printed, run

LIMIT = 30
INPUT = 'input_stream: "OVMS_PY_TENSOR:input"\n'
OUTPUT = 'output_stream: "OVMS_PY_TENSOR:output"\n'
IMPORT = "from pyovms import Tensor\n\n"
GENERATIVE_GRAPH = INPUT + OUTPUT + printed("python/generative_mode.pbtxt")
FUNCTIONS = """
def prepare_new_labels(input):
    return bytes(input)

class Model:
    def process(self, input, labels):
        return bytes(input) + b" of " + labels

    def __call__(self, input):
        return str(int(bytes(input)) + 1).encode()

def load_model(path):
    return Model()

"""


def generative_function():
    """The function that yields ten times."""
    made = '        outputs = [Tensor("output", bytes(inputs[0]))]\n'
    text = filled(printed("python/execute_generative.py"), ("        ...\n", made))
    return IMPORT + text + "\nclass OvmsPythonModel:\n    execute = execute\n"


def generative_mode():
    """The handler that yields what a stream of data has."""
    words = "        data_stream = bytes(inputs[0]).split()\n"
    text = filled(printed("python/generative_mode.py"), ("...\n", "class OvmsPythonModel:\n"))
    return filled(text, ("        ...\n", words))


@pytest.fixture(scope="module")
def server(running, tmp_path_factory):
    """A server of the graphs of this file."""
    work = Workspace(tmp_path_factory.mktemp("workspace"))
    basic = INPUT + OUTPUT + printed("python/basic_node.pbtxt")
    work.add("basic", basic, model=printed("python/basic_handler.py"))
    work.add("generative_function", GENERATIVE_GRAPH, model=generative_function())
    work.add("generative_mode", GENERATIVE_GRAPH, model=generative_mode())
    streams = 'input_stream: "OVMS_PY_TENSOR1:labels"\ninput_stream: "OVMS_PY_TENSOR2:image"\n'
    streams += 'output_stream: "OVMS_PY_TENSOR:result"\n'
    graph, handler = printed("python/incomplete_inputs.pbtxt"), printed("python/incomplete_inputs.py")
    work.add("incomplete_inputs", streams + graph, model=FUNCTIONS + handler)
    streams = 'output_stream: "OVMS_PY_TENSOR1:result"\noutput_stream: "OVMS_PY_TENSOR2:error_message"\n'
    graph, handler = printed("python/incomplete_outputs.pbtxt"), printed("python/incomplete_outputs.py")
    work.add("incomplete_outputs", INPUT + streams + graph, model=FUNCTIONS + handler)
    return running.start("streams", "--config_path", str(work.write()))


@pytest.fixture
def stream(server):
    """A client with a stream, and what comes over it."""
    came = queue.Queue()
    with triton.InferenceServerClient(server.grpc) as client:
        client.start_stream(callback=lambda result, error: came.put(error or result))
        yield client, came


def raw(name, data):
    """An input whose bytes are as they are."""
    tensor = triton.InferInput(name, [len(data)], "BYTES")
    tensor._raw_content = data
    return tensor


def next_of(came):
    """The next response: its time, read as printed, and its outputs."""
    result = came.get(timeout=LIMIT)
    assert not isinstance(result, InferenceServerException), result
    response = result.get_response()
    (output,) = response.outputs
    timestamp = run(printed("python/timestamp.py"), result=result)["timestamp"]
    return timestamp, output.name, response.raw_output_contents[0]


def test_generators(stream):
    """Each set has its own time; the next request begins behind the last of them."""
    client, came = stream
    client.async_stream_infer("generative_mode", [raw("input", b"a few words")])
    want = [(at, "output", word) for at, word in enumerate([b"a", b"few", b"words"])]
    assert [next_of(came) for _ in want] == want
    client.async_stream_infer("generative_mode", [raw("input", b"more")], parameters={"OVMS_MP_TIMESTAMP": 3})
    assert next_of(came) == (3, "output", b"more")


def test_ten_sets(stream):
    """For one set of inputs ten of outputs."""
    client, came = stream
    client.async_stream_infer("generative_function", [raw("input", b"again")])
    want = [(at, "output", b"again") for at in range(10)]
    assert [next_of(came) for _ in want] == want


def test_incomplete_inputs(stream):
    """Labels once, and then images."""
    client, came = stream
    sent = [("labels", b"cats"), ("image", b"one"), ("image", b"two"), ("labels", b"dogs"), ("image", b"three")]
    for name, data in sent:
        client.async_stream_infer("incomplete_inputs", [raw(name, data)])
    want = [(1, "result", b"one of cats"), (2, "result", b"two of cats"), (4, "result", b"three of dogs")]
    assert [next_of(came) for _ in want] == want


def test_incomplete_outputs(stream):
    """A result, or what went wrong."""
    client, came = stream
    for data in (b"1", b"one", b"2"):
        client.async_stream_infer("incomplete_outputs", [raw("input", data)])
    want = [(0, "result", b"2"), (1, "error_message", b"Error occurred during execution"), (2, "result", b"3")]
    assert [next_of(came) for _ in want] == want


def test_times(server):
    """The client's own time, which its callback reads; the next request is one later."""
    # As printed it does nothing with what it has read.
    text = printed("streaming/callback.py") + "  timestamps.put(timestamp)\n"
    timestamps = queue.Queue()
    callback = run(text, timestamps=timestamps)["callback"]
    with triton.InferenceServerClient(server.grpc) as client:
        client.start_stream(callback)
        inputs = [raw("input", b"")]
        run(printed("streaming/send.py"), triton_client=client, graph_name="basic", inputs=inputs)
        client.async_stream_infer("basic", inputs)
        assert [timestamps.get(timeout=LIMIT) for _ in range(2)] == [43166520112, 43166520113]


def test_service(server):
    """Reflection reports both calls as printed."""
    calls = re.findall(
        r"rpc (\w+)\((stream )?(\w+)\) returns \((stream )?(\w+)\) {}", printed("streaming/service.proto")
    )
    assert [call[0] for call in calls] == ["ModelInfer", "ModelStreamInfer"]
    (service,) = re.findall(r"^service (\w+)$", printed("streaming/service.proto"), re.MULTILINE)
    with grpc.insecure_channel(server.grpc) as channel:
        known = ProtoReflectionDescriptorDatabase(channel).FindFileContainingSymbol(f"inference.{service}")
        file = descriptor_pb2.FileDescriptorProto.FromString(known.SerializeToString())
    (methods,) = (it.method for it in file.service if it.name == service)
    served = {it.name: it for it in methods}
    for name, sent, request, answered, response in calls:
        method = served[name]
        assert (method.client_streaming, method.server_streaming) == (bool(sent), bool(answered))
        assert method.input_type == f".inference.{request}"
        assert method.output_type == f".inference.{response}"
