"""Streams to graphs, as Triton's client opens them."""

import queue
import random
import time

import numpy as np
import pytest
import tritonclient.grpc as triton
from conftest import FIXTURES

GRAPHS = FIXTURES / "graphs"
LIMIT = 30
TIMESTAMP = "OVMS_MP_TIMESTAMP"

GRAPH = '''
input_stream: "OVMS_PY_TENSOR1:labels"
input_stream: "OVMS_PY_TENSOR2:image"
output_stream: "OVMS_PY_TENSOR:result"
node {
  name: "python_node"
  calculator: "PythonExecutorCalculator"
  input_side_packet: "PYTHON_NODE_RESOURCES:py"
  input_stream: "INPUT1:labels"
  input_stream: "INPUT2:image"
  input_stream_handler {
    input_stream_handler: "ImmediateInputStreamHandler",
  }
  output_stream: "OUTPUT:result"
  node_options: {
    [type.googleapis.com / mediapipe.PythonExecutorCalculatorOptions]: {
      handler_path: "model.py"
    }
  }
}
'''

# As the document prints it; its functions are one line each.
HANDLER = '''
from pyovms import Tensor

def prepare_new_labels(input):
    return bytes(input)

class Model:
    def process(self, input, labels):
        if labels == b"bad":
            raise ValueError("bad labels")
        return bytes(input) + b" of " + labels

def load_model():
    return Model()

class OvmsPythonModel:

    def initialize(self, kwargs: dict):
        self.model = load_model()
        self.labels = []

    def execute(self, inputs: list):
        outputs = []
        for input in inputs:
            if input.name == "labels":
                self.labels = prepare_new_labels(input)
            else: # the only other name is "image"
                output = self.model.process(input, self.labels)
                return [Tensor("result", output)]
'''


class Stream:
    """A stream of Triton's client and what has come over it."""

    def __init__(self, address):
        self.came = queue.Queue()
        self.client = triton.InferenceServerClient(address)
        self.client.start_stream(callback=lambda result, error: self.came.put(error or result))

    def send(self, graph, name, data, datatype="BYTES", shape=None, **kwargs):
        """Sends one input as it is."""
        tensor = triton.InferInput(name, shape or [len(data)], datatype)
        tensor._raw_content = data
        self.client.async_stream_infer(graph, [tensor], **kwargs)

    def next(self):
        """Waits for a result: its time, the name of its output, and the bytes."""
        came = self.came.get(timeout=LIMIT)
        if not hasattr(came, "get_response"):
            return came
        response = came.get_response()
        at = response.parameters[TIMESTAMP].int64_param
        return at, response.outputs[0].name, response.raw_output_contents[0]

    def close(self, **kwargs):
        """Closes the stream and waits for its end."""
        self.client.stop_stream(**kwargs)
        self.client.close()


@pytest.fixture
def stream():
    """A function that opens streams."""
    opened = []

    def open_stream(server):
        opened.append(Stream(server.grpc))
        return opened[-1]

    yield open_stream
    for each in opened:
        each.close()


@pytest.fixture(scope="module")
def examples(serve_config):
    """The server of the examples."""
    return serve_config(GRAPHS / "config.json")


@pytest.fixture(scope="module")
def labels(running, tmp_path_factory):
    """A server of the graph with labels and images."""
    folder = tmp_path_factory.mktemp("labels")
    (folder / "graph.pbtxt").write_text(GRAPH)
    (folder / "model.py").write_text(HANDLER)
    return running.start("labels", "--model_name", "labels", "--model_path", str(folder))


def test_labels_once_and_then_images(labels, stream):
    """Incomplete inputs: what is kept in the object is everybody's."""
    one, other = stream(labels), stream(labels)
    one.send("labels", "labels", b"cats")
    one.send("labels", "image", b"first")
    assert one.next() == (1, "result", b"first of cats")
    other.send("labels", "image", b"second")
    assert other.next() == (0, "result", b"second of cats")
    one.send("labels", "image", b"third", parameters={TIMESTAMP: (1 << 62) + 1})
    assert one.next() == ((1 << 62) + 1, "result", b"third of cats")
    one.send("labels", "stranger", b"x")
    text = "Unexpected input - stranger is unexpected; partial deserialization of subsequent requests"
    assert one.next().message() == text
    one.send("labels", "image", b"x", parameters={TIMESTAMP: "soon"})
    assert one.next().message().startswith("Malformed packet timestamp - Invalid timestamp format")
    # An error comes at once, with its code; the other stream goes on.
    one.send("labels", "labels", b"bad")
    one.send("labels", "image", b"x")
    end = one.next()
    assert end.status() == "StatusCode.INVALID_ARGUMENT"
    assert end.message().endswith("failed: Error occurred during graph execution - ValueError: bad labels")
    other.send("labels", "labels", b"dogs")
    other.send("labels", "image", b"last")
    assert other.next() == (2, "result", b"last of dogs")


def test_last_answers_are_marked_where_a_client_asks(labels, stream):
    """Triton's loop for decoupled models: until an answer says that it is the last."""
    def answers(opened):
        """Yields the answers of a request, the last of which is empty."""
        while True:
            came = opened.came.get(timeout=LIMIT).get_response()
            yield came
            if came.parameters.get("triton_final_response").bool_param:
                return

    opened = stream(labels)
    asks = {"enable_empty_final_response": True}
    # What gives no outputs has a last answer as well.
    opened.send("labels", "labels", b"cats", request_id="a", **asks)
    (last,) = answers(opened)
    assert (last.id, last.model_name, len(last.outputs)) == ("a", "labels", 0)
    assert last.parameters[TIMESTAMP].int64_param == 0
    opened.send("labels", "image", b"x", request_id="b", **asks)
    first, last = answers(opened)
    # Outputs belong to no request, and so have no id.
    assert (first.id, first.raw_output_contents[0]) == ("", b"x of cats")
    assert (last.id, len(last.outputs)) == ("b", 0)
    # Nobody gets marks who has not asked.
    other = stream(labels)
    other.send("labels", "labels", b"dogs")
    other.send("labels", "image", b"x")
    assert set(other.came.get(timeout=LIMIT).get_response().parameters) == {TIMESTAMP}


def test_last_answers_of_generators_are_marked(examples, stream):
    """Each prompt has one, behind all its words."""
    opened = stream(examples)
    for number, text in enumerate((b"the", b"tell me of the server")):
        opened.send(
            "streamer", "prompt", prompt(text), shape=[1], request_id=str(number), enable_empty_final_response=True
        )
        came = []
        while not came or not came[-1].parameters.get("triton_final_response").bool_param:
            came.append(opened.came.get(timeout=LIMIT).get_response())
        *words, end, last = came
        assert words and {each.outputs[0].name for each in words} == {"token"}
        assert (end.outputs[0].name, last.id, len(last.outputs)) == ("end_signal", str(number), 0)


def test_what_is_not_there(examples, stream):
    """The stream ends with the status."""
    opened = stream(examples)
    opened.send("stranger", "in", b"x")
    end = opened.next()
    assert end.status() == "StatusCode.NOT_FOUND"
    assert end.message() == "Model with requested name is not found"


def prompt(text):
    """A text as Triton's client packs it."""
    return len(text).to_bytes(4, "little") + text


def continued(words, word, state):
    """What the writer is to say after a word."""
    followers = {}
    for before, after in zip(words, words[1:]):
        followers.setdefault(before, []).append(after)
    said = []
    while word != "." and len(said) < 64:
        word = state.choice(followers.get(word) or sorted(followers))
        said.append(word)
    return said


def test_streamer(examples, stream):
    """One prompt after the other in one stream, which remembers how it went on."""
    words = (GRAPHS / "streamer" / "story.txt").read_text().split()
    opened, state, at = stream(examples), random.Random(7), 0
    for text in (b"tell me of the server", b"the"):
        expected = continued(words, text.decode().split()[-1], state)
        opened.send("streamer", "prompt", prompt(text), shape=[1], parameters={TIMESTAMP: at})
        for word in expected:
            assert opened.next() == (at, "token", prompt(word.encode()))
            at += 1
        assert opened.next() == (at, "end_signal", len(expected).to_bytes(8, "little"))
        at += 1
    # Another stream begins anew.
    other = stream(examples)
    other.send("streamer", "prompt", prompt(b"the"), shape=[1])
    expected = continued(words, "the", random.Random(7))
    assert [other.next()[2][4:].decode() for _ in expected] == expected
    # Leaving in the middle hurts nobody.
    late = stream(examples)
    late.send("streamer", "prompt", prompt(b"the"), shape=[1])
    late.next()
    began = time.monotonic()
    late.client.stop_stream(cancel_requests=True)
    assert time.monotonic() - began < LIMIT


def test_tracker(examples, stream):
    """Boxes keep their numbers in a stream of their own; times are the client's."""
    def boxes(*rows):
        return np.array(rows, np.float32).reshape(-1, 4)

    def numbers(data):
        return np.frombuffer(data, np.int64).tolist()

    one, other = stream(examples), stream(examples)
    frames = [
        (100, boxes([0, 0, 10, 10], [50, 50, 60, 60]), [1, 2], []),
        (140, boxes([51, 50, 61, 60], [1, 0, 11, 10]), [2, 1], []),
        (141, boxes([1, 1, 11, 11]), [1], [2]),
        (300, boxes([90, 90, 99, 99]), [3], [1]),
        (301, boxes(), [], [3]),
    ]
    for at, frame, ids, lost in frames:
        for opened in (one, other):
            opened.send("tracker", "boxes", frame.tobytes(), "FP32", list(frame.shape), parameters={TIMESTAMP: at})
            time_, name, data = opened.next()
            assert (time_, name, numbers(data)) == (at, "ids", ids)
            if lost:
                time_, name, data = opened.next()
                assert (time_, name, numbers(data)) == (at, "lost", lost)
    # A frame from before is the end of the stream.
    one.send("tracker", "boxes", b"", "FP32", [0, 4], parameters={TIMESTAMP: 5})
    end = one.next()
    while end.status() is None:
        end = one.next()
    assert end.status() == "StatusCode.INVALID_ARGUMENT"
    assert "Packet timestamp mismatch" in end.message()


def test_generators_are_decoupled(examples, labels):
    """By this, Triton's clients and load generators know that a request may have any number of answers."""
    def decoupled(server, name):
        with triton.InferenceServerClient(server.grpc) as client:
            return client.get_model_config(name).config.model_transaction_policy.decoupled

    assert decoupled(examples, "streamer")
    assert not decoupled(labels, "labels")
