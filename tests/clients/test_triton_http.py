"""Triton's HTTP client."""

import asyncio

import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from tritonclient.utils import InferenceServerException

from data import ROWS, ids

# Half floats have no JSON form in requests.
JSON_ROWS = [row for row in ROWS if row.name not in ("FP16", "BF16")]


@pytest.fixture
def client(serve):
    """A function that connects to the server of a model."""
    clients = []

    def connect(model):
        clients.append(triton.InferenceServerClient(serve(model).rest, concurrency=4))
        return clients[-1]

    yield connect
    for each in clients:
        each.close()


def tensor(name, datatype, values, binary=True):
    """An input with its values."""
    made = triton.InferInput(name, list(values.shape), datatype)
    made.set_data_from_numpy(values, binary_data=binary)
    return made


def output(name, binary=True):
    """A wanted output."""
    return [triton.InferRequestedOutput(name, binary_data=binary)]


def test_health_and_metadata(client):
    """The calls that come before inference."""
    dummy = client("dummy")
    assert dummy.is_server_live() and dummy.is_server_ready()
    assert dummy.is_model_ready("dummy") and dummy.is_model_ready("dummy", "1")
    assert not dummy.is_model_ready("stranger")
    assert dummy.get_server_metadata()["name"] == "OpenVINO Model Server"
    metadata = dummy.get_model_metadata("dummy")
    assert metadata["versions"] == ["1"]
    assert metadata["inputs"] == [{"name": "b", "datatype": "FP32", "shape": [1, 10]}]


@pytest.mark.parametrize("answered", ["binary", "json", "default"])
@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_binary(client, row, answered):
    """Binary values come back in the form that is asked for."""
    wanted = None if answered == "default" else output("out", answered == "binary")
    given = [tensor("in", row.name, row.values)]
    answer = client(row.model).infer(row.model, given, outputs=wanted)
    np.testing.assert_array_equal(answer.as_numpy("out"), row.values)
    assert answer.get_output("out")["datatype"] == row.name


@pytest.mark.parametrize("binary", [True, False], ids=["binary answer", "json answer"])
@pytest.mark.parametrize("row", JSON_ROWS, ids=ids)
def test_json(client, row, binary):
    """JSON values come back in either form."""
    given = [tensor("in", row.name, row.values, binary=False)]
    answer = client(row.model).infer(row.model, given, outputs=output("out", binary))
    np.testing.assert_array_equal(answer.as_numpy("out"), row.values)


def test_request_id_and_version(client):
    """The id is echoed, the version that ran is named."""
    b = tensor("b", "FP32", np.zeros((1, 10), np.float32))
    answer = client("dummy").infer("dummy", [b], model_version="1", request_id="seven")
    response = answer.get_response()
    assert (response["id"], response["model_version"]) == ("seven", "1")


def test_requested_outputs(client):
    """Outputs are selected, each in its own form."""
    x = tensor("x", "FP32", np.ones((2, 4), np.float32))
    two = client("two_outputs")
    answer = two.infer("two_outputs", [x], outputs=output("total"))
    assert answer.as_numpy("total").tolist() == [4, 4]
    assert answer.as_numpy("twice") is None
    answer = two.infer("two_outputs", [x], outputs=output("twice") + output("total", False))
    assert answer.as_numpy("twice").tolist() == [[2.0] * 4] * 2
    assert answer.as_numpy("total").tolist() == [4, 4]


@pytest.mark.parametrize("response", [None, "gzip"])
def test_compression(client, response):
    """A gzip request is understood; a wish for a gzip answer does no harm."""
    b = np.arange(10, dtype=np.float32)[None]
    answer = client("dummy").infer(
        "dummy",
        [tensor("b", "FP32", b)],
        request_compression_algorithm="gzip",
        response_compression_algorithm=response,
    )
    np.testing.assert_array_equal(answer.as_numpy("a"), b + 1)


def test_together(client):
    """Many requests at once over a few connections."""
    dummy = client("dummy")
    calls = [
        dummy.async_infer("dummy", [tensor("b", "FP32", np.full((1, 10), number, np.float32))])
        for number in range(50)
    ]
    for number, call in enumerate(calls):
        assert call.get_result().as_numpy("a")[0, 0] == number + 1


def test_asyncio(serve):
    """The client for asyncio."""

    async def infer():
        async with triton_aio.InferenceServerClient(serve("dummy").rest) as dummy:
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
        "404",
        "Model with requested name is not found",
    )
    wide = tensor("b", "FP32", np.zeros((1, 11), np.float32))
    assert failure(lambda: dummy.infer("dummy", [wide])) == (
        "400",
        "Invalid input shape - Expected: (1,10); Actual: (1,11); input name: b",
    )
    status, text = failure(
        lambda: dummy.infer("dummy", [good], request_compression_algorithm="deflate")
    )
    assert (status, text) == (
        "400",
        "Content-Encoding deflate is not supported; send gzip or no encoding",
    )
    assert failure(lambda: dummy.get_model_metadata("stranger"))[0] == "404"
