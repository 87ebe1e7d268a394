"""The client that the model server's makers wrote for TensorFlow Serving's APIs, and its messages."""

import gzip
import json

import grpc
import numpy as np
import ovmsclient
import pytest
import requests
from ovmsclient.tfs_compat.base.errors import InvalidInputError, ModelNotFoundError
from ovmsclient.tfs_compat.protos.tensorflow.core.framework import tensor_pb2, types_pb2
from ovmsclient.tfs_compat.protos.tensorflow_serving.apis import (
    get_model_status_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from data import ROWS, ids

# The protocol's number of a type, and the field that carries it.
TYPES = {
    "BOOL": ("DT_BOOL", "bool_val"),
    "INT8": ("DT_INT8", "int_val"),
    "INT16": ("DT_INT16", "int_val"),
    "INT32": ("DT_INT32", "int_val"),
    "INT64": ("DT_INT64", "int64_val"),
    "UINT8": ("DT_UINT8", "int_val"),
    "UINT16": ("DT_UINT16", "int_val"),
    "UINT32": ("DT_UINT32", "uint32_val"),
    "UINT64": ("DT_UINT64", "uint64_val"),
    "FP16": ("DT_HALF", "half_val"),
    "FP32": ("DT_FLOAT", "float_val"),
    "FP64": ("DT_DOUBLE", "double_val"),
    "BF16": ("DT_BFLOAT16", "half_val"),
}
MAKERS = {"grpc": ovmsclient.make_grpc_client, "http": ovmsclient.make_http_client}


@pytest.fixture(params=MAKERS)
def client(serve, request):
    """A function that connects to the server of a model, over either transport."""

    def connect(model):
        server = serve(model)
        address = server.grpc if request.param == "grpc" else server.rest
        return MAKERS[request.param](address)

    connect.transport = request.param
    return connect


@pytest.fixture
def stub(serve):
    """A function that gives the protocol's stub for the server of a model."""
    channels = []

    def connect(model, stub=prediction_service_pb2_grpc.PredictionServiceStub):
        channels.append(grpc.insecure_channel(serve(model).grpc))
        return stub(channels[-1])

    yield connect
    for channel in channels:
        channel.close()


def predict_request(model, **inputs):
    """A request with these tensors."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    for name, tensor in inputs.items():
        request.inputs[name].CopyFrom(tensor)
    return request


def tensor(row):
    """The type and shape of a row, without its values."""
    made = tensor_pb2.TensorProto(dtype=types_pb2.DataType.Value(TYPES[row.name][0]))
    for size in row.values.shape:
        made.tensor_shape.dim.add(size=size)
    return made


@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_content(stub, row):
    """Bytes come back as they were sent."""
    given = tensor(row)
    given.tensor_content = row.values.tobytes()
    out = stub(row.model).Predict(predict_request(row.model, **{"in": given})).outputs["out"]
    assert out.tensor_content == row.values.tobytes()
    assert (out.dtype, out.tensor_shape) == (given.dtype, given.tensor_shape)


@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_values(stub, row):
    """Values in the field of their type come back."""
    given = tensor(row)
    field = TYPES[row.name][1]
    values = row.values.view(np.uint16) if field == "half_val" else row.values
    getattr(given, field).extend(values.flatten().tolist())
    out = stub(row.model).Predict(predict_request(row.model, **{"in": given})).outputs["out"]
    assert out.tensor_content == row.values.tobytes()


# What the client has no type for, or writes in its own way, is in the tests above.
PREDICTED = [row for row in ROWS if row.name not in ("BF16", "FP16", "BOOL", "UINT32", "UINT64")]


@pytest.mark.parametrize("row", PREDICTED, ids=ids)
def test_predict(client, row):
    """Arrays come back, over both transports."""
    out = client(row.model).predict({"in": row.values}, row.model)
    if client.transport == "grpc":
        assert out.dtype == row.values.dtype
    np.testing.assert_array_equal(out.astype(row.values.dtype), row.values)


def test_predict_choices(client):
    """Versions, several inputs, and several outputs."""
    b = np.zeros((1, 10), np.float32)
    dummy = client("dummy")
    for version in (0, 1):
        assert dummy.predict({"b": b}, "dummy", version).tolist() == [[1.0] * 10]
    add = client("add").predict({"input1": b + 1, "input2": b + 2}, "add")
    assert add.tolist() == [[3.0] * 10]
    outputs = client("two_outputs").predict({"x": np.ones((2, 4), np.float32)}, "two_outputs")
    assert {name: values.tolist() for name, values in outputs.items()} == {
        "total": [4, 4],
        "twice": [[2] * 4] * 2,
    }


def test_metadata_and_status(client):
    """Inputs, outputs and states, over both transports."""
    two = client("two_outputs")
    assert two.get_model_metadata("two_outputs") == {
        "model_version": 1,
        "inputs": {"x": {"shape": [-1, 4], "dtype": "DT_FLOAT"}},
        "outputs": {
            "twice": {"shape": [-1, 4], "dtype": "DT_FLOAT"},
            "total": {"shape": [-1], "dtype": "DT_FLOAT"},
        },
    }
    for version in (0, 1):
        assert two.get_model_status("two_outputs", version) == {
            1: {"state": "AVAILABLE", "error_code": 0, "error_message": "OK"}
        }


def test_errors(client):
    """Codes become the client's exceptions, with the text."""
    dummy = client("dummy")
    b = np.zeros((1, 10), np.float32)
    for call in (
        lambda: dummy.predict({"b": b}, "stranger"),
        lambda: dummy.get_model_metadata("stranger"),
        lambda: dummy.get_model_status("stranger"),
    ):
        with pytest.raises(ModelNotFoundError, match="Model with requested name is not found"):
            call()
    for call in (
        lambda: dummy.predict({"b": b}, "dummy", 2),
        lambda: dummy.get_model_metadata("dummy", 2),
        lambda: dummy.get_model_status("dummy", 2),
    ):
        with pytest.raises(ModelNotFoundError, match="Model with requested version is not found"):
            call()
    with pytest.raises(InvalidInputError, match=r"Expected: \(1,10\); Actual: \(1,11\)"):
        dummy.predict({"b": np.zeros((1, 11), np.float32)}, "dummy")
    with pytest.raises(InvalidInputError, match="Required input: b"):
        dummy.predict({"c": b}, "dummy")


def test_filter(stub):
    """The filter selects outputs; an unknown one is refused."""
    x = tensor_pb2.TensorProto(dtype=types_pb2.DT_FLOAT, float_val=[1] * 4)
    for size in (1, 4):
        x.tensor_shape.dim.add(size=size)
    request = predict_request("two_outputs", x=x)
    request.output_filter.append("total")
    predict = stub("two_outputs").Predict
    assert list(predict(request).outputs) == ["total"]
    request.output_filter.append("c")
    with pytest.raises(grpc.RpcError) as caught:
        predict(request)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details() == (
        "Invalid output name - Requested output: c; the model has: total, twice"
    )


def test_type_is_named_as_precision(stub):
    """The text of a type that does not fit."""
    b = tensor_pb2.TensorProto(dtype=types_pb2.DT_INT32, int_val=[1] * 10)
    for size in (1, 10):
        b.tensor_shape.dim.add(size=size)
    with pytest.raises(grpc.RpcError) as caught:
        stub("dummy").Predict(predict_request("dummy", b=b))
    assert caught.value.details() == (
        "Invalid input precision - Expected: FP32; Actual: I32; input name: b"
    )


def test_compression(stub):
    """A gzip request is understood."""
    b = tensor_pb2.TensorProto(dtype=types_pb2.DT_FLOAT, float_val=range(10))
    for size in (1, 10):
        b.tensor_shape.dim.add(size=size)
    request = predict_request("dummy", b=b)
    answer = stub("dummy").Predict(request, compression=grpc.Compression.Gzip)
    assert answer.outputs["a"].tensor_content == (np.arange(10, dtype=np.float32) + 1).tobytes()


def test_model_service(stub):
    """The other service: states, and a reload that does nothing."""
    service = stub("dummy", model_service_pb2_grpc.ModelServiceStub)
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "dummy"
    status = service.GetModelStatus(request).model_version_status
    available = get_model_status_pb2.ModelVersionStatus.AVAILABLE
    assert [(each.version, each.state) for each in status] == [(1, available)]
    reload = model_management_pb2.ReloadConfigRequest()
    reload.config.model_config_list.config.add(name="x", base_path="/nowhere")
    answer = service.HandleReloadConfigRequest(reload)
    assert answer.status.error_code == 0


def test_rest(serve):
    """The formats of the protocol's REST side, as anybody writes them."""
    server = serve("dummy")
    url = server.url("/v1/models/dummy:predict")
    rows = requests.post(url, json={"instances": [list(range(10))]}, timeout=20)
    expected = [[number + 1 for number in range(10)]]
    assert (rows.status_code, rows.json()) == (200, {"predictions": expected})
    columns = requests.post(url, json={"inputs": {"b": [list(range(10))]}}, timeout=20)
    assert columns.json() == {"outputs": expected}
    packed = gzip.compress(json.dumps({"instances": [{"b": list(range(10))}]}).encode())
    headers = {"Content-Encoding": "gzip"}
    assert requests.post(url, data=packed, headers=headers, timeout=20).json() == rows.json()
    refused = requests.post(url, json={"instances": [[1, 2], [3]]}, timeout=20)
    assert refused.status_code == 400
    assert refused.json()["error"].startswith(
        "Could not parse instance content. Not valid ndarray detected"
    )
    states = requests.get(server.url("/v1/config"), timeout=20).json()
    assert states["dummy"]["model_version_status"][0]["state"] == "AVAILABLE"


def test_rest_of_an_image_in_numbers(serve):
    """A body of some megabytes, as json writes it."""
    image = np.random.default_rng(0).random((1, 3, 224, 224))
    url = serve("fullsize").url("/v1/models/fullsize:predict")
    answer = requests.post(url, json={"instances": image.tolist()}, timeout=60).json()
    mean = image.astype(np.float32).mean(axis=(2, 3), dtype=np.float64)
    np.testing.assert_allclose(answer["predictions"], mean, rtol=1e-4)
