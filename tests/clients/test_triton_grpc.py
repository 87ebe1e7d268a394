"""Triton's gRPC client."""

import asyncio
import queue

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from data import ROWS, ids


@pytest.fixture
def client(serve):
    """A function that connects to the server of a model."""
    clients = []

    def connect(model):
        clients.append(triton.InferenceServerClient(serve(model).grpc))
        return clients[-1]

    yield connect
    for each in clients:
        each.close()


def tensor(name, datatype, values):
    """An input with its values."""
    made = triton.InferInput(name, list(values.shape), datatype)
    made.set_data_from_numpy(values)
    return made


def test_health_and_metadata(client):
    """The calls that come before inference."""
    dummy = client("dummy")
    assert dummy.is_server_live() and dummy.is_server_ready()
    assert dummy.is_model_ready("dummy") and dummy.is_model_ready("dummy", "1")
    assert dummy.get_server_metadata().name == "OpenVINO Model Server"
    metadata = dummy.get_model_metadata("dummy")
    assert (metadata.name, list(metadata.versions)) == ("dummy", ["1"])
    assert [(each.name, each.datatype, list(each.shape)) for each in metadata.inputs] == [
        ("b", "FP32", [1, 10])
    ]


@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_raw(client, row):
    """Values come back as they were sent."""
    answer = client(row.model).infer(row.model, [tensor("in", row.name, row.values)])
    np.testing.assert_array_equal(answer.as_numpy("out"), row.values)
    assert answer.get_output("out").datatype == row.name


@pytest.mark.parametrize("row", [row for row in ROWS if row.field], ids=ids)
def test_typed(serve, row):
    """Values in the field of their type come back."""
    request = service_pb2.ModelInferRequest(model_name=row.model)
    given = request.inputs.add(name="in", datatype=row.name, shape=row.values.shape)
    getattr(given.contents, row.field).extend(row.values.flatten().tolist())
    with grpc.insecure_channel(serve(row.model).grpc) as channel:
        answer = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request)
    assert answer.raw_output_contents[0] == row.values.tobytes()


def test_request_id_and_version(client):
    """The id is echoed, the version that ran is named."""
    b = tensor("b", "FP32", np.zeros((1, 10), np.float32))
    answer = client("dummy").infer("dummy", [b], model_version="1", request_id="seven")
    response = answer.get_response()
    assert (response.id, response.model_version) == ("seven", "1")


def test_requested_outputs(client):
    """Outputs are selected."""
    x = tensor("x", "FP32", np.ones((2, 4), np.float32))
    wanted = [triton.InferRequestedOutput("total")]
    answer = client("two_outputs").infer("two_outputs", [x], outputs=wanted)
    assert answer.as_numpy("total").tolist() == [4, 4]
    assert answer.as_numpy("twice") is None


def test_compression(client):
    """A gzip request is understood."""
    b = np.arange(10, dtype=np.float32)[None]
    answer = client("dummy").infer("dummy", [tensor("b", "FP32", b)], compression_algorithm="gzip")
    np.testing.assert_array_equal(answer.as_numpy("a"), b + 1)


def test_parameters_are_tolerated(client):
    """Priority, timeout and parameters of one's own."""
    b = tensor("b", "FP32", np.zeros((1, 10), np.float32))
    answer = client("dummy").infer(
        "dummy", [b], priority=1, timeout=1000, headers={"x": "y"}, parameters={"note": "z"}
    )
    assert answer.as_numpy("a").tolist() == [[1.0] * 10]


def test_call_back(client):
    """Many requests at once, answered by call-back."""
    answers = queue.Queue()
    dummy = client("dummy")
    for number in range(100):
        b = tensor("b", "FP32", np.full((1, 10), number, np.float32))
        dummy.async_infer(
            "dummy", [b], lambda result, error: answers.put((result, error)), request_id=str(number)
        )
    for _ in range(100):
        result, error = answers.get(timeout=20)
        assert error is None
        assert result.as_numpy("a")[0, 0] == int(result.get_response().id) + 1


def test_asyncio(serve):
    """The client for asyncio."""

    async def infer():
        async with triton_aio.InferenceServerClient(serve("dummy").grpc) as dummy:
            b = tensor("b", "FP32", np.zeros((1, 10), np.float32))
            answers = await asyncio.gather(*(dummy.infer("dummy", [b]) for _ in range(20)))
            return [answer.as_numpy("a").tolist() for answer in answers]

    assert asyncio.run(infer()) == [[[1.0] * 10]] * 20


def failure(call):
    """Status and text of a call that must fail."""
    with pytest.raises(InferenceServerException) as caught:
        call()
    return caught.value.status(), caught.value.message()


def test_errors(client):
    """Codes and texts reach the user of the client."""
    dummy = client("dummy")
    good = tensor("b", "FP32", np.zeros((1, 10), np.float32))
    assert failure(lambda: dummy.infer("stranger", [good])) == (
        "StatusCode.NOT_FOUND",
        "Model with requested name is not found",
    )
    assert failure(lambda: dummy.infer("dummy", [good], model_version="2")) == (
        "StatusCode.NOT_FOUND",
        "Model with requested version is not found",
    )
    wide = tensor("b", "FP32", np.zeros((1, 11), np.float32))
    assert failure(lambda: dummy.infer("dummy", [wide])) == (
        "StatusCode.INVALID_ARGUMENT",
        "Invalid input shape - Expected: (1,10); Actual: (1,11); input name: b",
    )
    whole = tensor("b", "INT32", np.zeros((1, 10), np.int32))
    assert failure(lambda: dummy.infer("dummy", [whole])) == (
        "StatusCode.INVALID_ARGUMENT",
        "Invalid input precision - Expected: FP32; Actual: INT32; input name: b",
    )
    outputs = [triton.InferRequestedOutput("c")]
    assert failure(lambda: dummy.infer("dummy", [good], outputs=outputs)) == (
        "StatusCode.INVALID_ARGUMENT",
        "Invalid output name - Requested output: c; the model has: a",
    )
    assert failure(lambda: dummy.get_model_metadata("stranger"))[0] == "StatusCode.NOT_FOUND"


def test_deadline(serve):
    """A deadline that passes is the client's to report, and the server serves on."""
    server = serve("busy")
    with triton.InferenceServerClient(server.grpc) as busy:
        inputs = [
            tensor("steps", "INT64", np.array([200_000])),
            tensor("x", "FP32", np.ones((64, 64), np.float32)),
        ]
        status, _ = failure(lambda: busy.infer("busy", inputs, client_timeout=0.2))
        assert status == "StatusCode.DEADLINE_EXCEEDED"
        inputs[0] = tensor("steps", "INT64", np.array([1]))
        assert busy.infer("busy", inputs).as_numpy("y").tolist() == [[1.0] * 64] * 64
