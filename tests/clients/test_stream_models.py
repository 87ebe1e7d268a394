"""Streams of requests to models, as Triton's client opens them."""

import queue

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

LIMIT = 30


class Stream:
    """A stream of Triton's client and what has come over it."""

    def __init__(self, address, **kwargs):
        self.came = queue.Queue()
        self.client = triton.InferenceServerClient(address)
        self.client.start_stream(
            callback=lambda result, error: self.came.put(error or result), **kwargs
        )

    def send(self, model, name, values, **kwargs):
        """Sends one input."""
        tensor = triton.InferInput(name, list(values.shape), "FP32")
        tensor.set_data_from_numpy(values)
        self.client.async_stream_infer(model, [tensor], **kwargs)

    def next(self):
        """Waits for a result or an error."""
        return self.came.get(timeout=LIMIT)

    def close(self):
        """Closes the stream and waits for its end."""
        self.client.stop_stream()
        self.client.close()


@pytest.fixture
def stream():
    """A function that opens streams."""
    opened = []

    def open_stream(server, **kwargs):
        opened.append(Stream(server.grpc, **kwargs))
        return opened[-1]

    yield open_stream
    for each in opened:
        each.close()


def ones(value=1.0):
    """What the model dummy takes."""
    return np.full((1, 10), value, np.float32)


def test_answers_come_in_order(serve, stream):
    """Every request is answered, with its id."""
    opened = stream(serve("dummy"))
    for number in range(200):
        opened.send("dummy", "b", ones(number), request_id=str(number))
    for number in range(200):
        result = opened.next()
        assert result.get_response().id == str(number)
        np.testing.assert_array_equal(result.as_numpy("a"), ones(number + 1))


def test_answers_are_the_last_where_a_client_asks(serve, stream):
    """A model has one answer for each request, which has the outputs as well."""
    opened = stream(serve("dummy"))
    opened.send("dummy", "b", ones(), enable_empty_final_response=True)
    opened.send("dummy", "b", ones())
    response = opened.next().get_response()
    assert response.parameters["triton_final_response"].bool_param and len(response.outputs) == 1
    assert not opened.next().get_response().parameters


def test_a_wrong_request_is_reported_and_the_stream_goes_on(serve, stream):
    """Errors are those of the request; they have no status."""
    opened = stream(serve("dummy"))
    opened.send("dummy", "b", ones())
    opened.send("stranger", "b", ones())
    opened.send("dummy", "c", ones())
    opened.send("dummy", "b", ones(), model_version="7")
    opened.send("dummy", "b", ones(2))
    opened.next()
    texts = []
    for _ in range(3):
        error = opened.next()
        assert isinstance(error, InferenceServerException) and error.status() is None
        texts.append(error.message())
    assert texts[0] == (
        "Subsequent request with incorrect servable name; validate subsequent requests"
    )
    assert "input with specific name" in texts[1] and "version is not found" in texts[2]
    np.testing.assert_array_equal(opened.next().as_numpy("a"), ones(3))


def test_an_unknown_model_ends_the_stream(serve, stream):
    """The error has the status of the call."""
    opened = stream(serve("dummy"))
    opened.send("stranger", "b", ones())
    error = opened.next()
    assert error.status() == "StatusCode.NOT_FOUND"
    assert error.message() == "Model with requested name is not found"


def test_a_sequence_over_a_stream(serve, stream):
    """Parameters say which requests belong together."""
    opened = stream(serve("running_total", "--stateful"))
    values = np.ones((1, 4), np.float32)
    for number in range(50):
        opened.send(
            "running_total",
            "x",
            values,
            sequence_id=7,
            sequence_start=number == 0,
            sequence_end=number == 49,
        )
    totals = [opened.next().as_numpy("total").flat[0] for _ in range(50)]
    assert totals == list(range(1, 51))


def test_a_deadline(serve, stream):
    """The limit is that of the whole stream."""
    opened = stream(serve("dummy"), stream_timeout=0.5)
    opened.send("dummy", "b", ones())
    opened.next()
    assert opened.next().status() == "StatusCode.DEADLINE_EXCEEDED"


def test_a_stream_without_requests(serve):
    """The call says why it has come to nothing."""
    with grpc.insecure_channel(serve("dummy").grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        with pytest.raises(grpc.RpcError) as raised:
            list(stub.ModelStreamInfer(iter([])))
    assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert raised.value.details() == (
        "Client disconnected during reading first streaming request"
    )


def test_compressed_requests(serve, stream):
    """gzip is for those who want it."""
    opened = stream(serve("dummy"), compression_algorithm="gzip")
    for number in range(5):
        opened.send("dummy", "b", ones(number))
    for number in range(5):
        np.testing.assert_array_equal(opened.next().as_numpy("a"), ones(number + 1))


def test_an_empty_request(serve):
    """What has no inputs is an error of the model's, reported on the stream."""
    with grpc.insecure_channel(serve("dummy").grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        request = service_pb2.ModelInferRequest(model_name="dummy")
        answers = list(stub.ModelStreamInfer(iter([request, request])))
    assert [each.error_message for each in answers] == [
        "Invalid number of inputs - Expected: 1; Actual: 0; the model has: b"
    ] * 2
