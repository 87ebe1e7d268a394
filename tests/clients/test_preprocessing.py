"""Preprocessing of inputs (`--mean`, `--scale`, `--color_format`, `--precision`), against numpy and the
runtime's own Python API, and models without version folders."""

import io
import json
import shutil

import numpy as np
import openvino
import pytest
import requests
import tritonclient.grpc as grpc
import tritonclient.http as http
from openvino.preprocess import ColorFormat, PrePostProcessor
from PIL import Image

from conftest import FIXTURES, PLUGIN_CONFIG

# [1,3,20,30], NCHW; adds 1.
MODEL = "increment4d"
MEAN = [123.7, 116.8, 103.9]
SCALE = [58.4, 57.1, 57.4]
NORMALIZED = ["--layout", "NHWC:NCHW", "--color_format", "RGB:BGR", "--precision", "fp32:uint8"]
NORMALIZED += ["--mean", "(123.7,116.8,103.9)", "--scale", "[58.4,57.1,57.4]"]


@pytest.fixture(params=["grpc", "http"])
def transport(request):
    """A module of Triton's clients."""
    return {"grpc": grpc, "http": http}[request.param]


def infer(transport, server, **arrays):
    """The one output of a model for arrays by input name."""
    address = server.grpc if transport is grpc else server.rest
    inputs = []
    for name, array in arrays.items():
        datatype = "BYTES" if array.dtype == object else {"u": "UINT8", "f": "FP32"}[array.dtype.kind]
        inputs.append(transport.InferInput(name.replace("__", "/"), list(array.shape), datatype))
        inputs[-1].set_data_from_numpy(array)
    client = transport.InferenceServerClient(address)
    try:
        return client.infer(server.model, inputs).as_numpy("output")
    finally:
        client.close()


def pixels(*shape):
    """Bytes of every value."""
    return np.random.default_rng(7).integers(0, 256, shape, dtype=np.uint8)


def normalized(image):
    """What the model makes of an image in BGR, by numpy."""
    rgb = image[..., ::-1].astype(np.float32)
    values = (rgb - np.array(MEAN, np.float32)) / np.array(SCALE, np.float32)
    return values.transpose(0, 3, 1, 2) + 1


def test_all_of_them_in_their_order(serve, transport):
    """Colours, then the type, then mean and scale: an image of bytes in BGR and NHWC."""
    server = serve(MODEL, *NORMALIZED)
    image = pixels(1, 20, 30, 3)
    np.testing.assert_allclose(infer(transport, server, input=image), normalized(image), rtol=1e-5, atol=1e-5)


def test_metadata_is_that_of_requests(serve):
    """Clients see the type and the shape that they send."""
    server = serve(MODEL, *NORMALIZED)
    metadata = requests.get(server.url(f"/v2/models/{MODEL}"), timeout=10).json()
    assert metadata["inputs"] == [{"name": "input", "datatype": "UINT8", "shape": [1, 20, 30, 3]}]


def test_rest_in_json(serve):
    """Numbers of JSON are preprocessed, too."""
    server = serve(MODEL, *NORMALIZED)
    image = pixels(1, 20, 30, 3)
    body = {"instances": image.tolist()}
    answer = requests.post(server.url(f"/v1/models/{MODEL}:predict"), json=body, timeout=10)
    outcome = np.array(answer.json()["predictions"], np.float32)
    np.testing.assert_allclose(outcome, normalized(image), rtol=1e-4, atol=1e-4)


def test_encoded_images(serve, transport):
    """An encoded image is decoded as ever, blue first, and preprocessed then."""
    server = serve(MODEL, *NORMALIZED)
    image = pixels(1, 20, 30, 3)
    file = io.BytesIO()
    Image.fromarray(image[0][..., ::-1]).save(file, "png")
    encoded = np.array([file.getvalue()], dtype=object)
    np.testing.assert_allclose(infer(transport, server, input=encoded), normalized(image), rtol=1e-5, atol=1e-5)


def test_one_number_for_all_channels(serve, transport):
    """Negative ones as well; nothing else is changed."""
    server = serve(MODEL, "--layout", "NCHW", "--mean", "-2.5", "--scale", "0.5")
    values = np.random.default_rng(3).random((1, 3, 20, 30), np.float32)
    expected = (values + 2.5) / 0.5 + 1
    np.testing.assert_allclose(infer(transport, server, input=values), expected, rtol=1e-5)


FORMATS = {
    "NV12": ColorFormat.NV12_SINGLE_PLANE,
    "NV12_2": ColorFormat.NV12_TWO_PLANES,
    "I420": ColorFormat.I420_SINGLE_PLANE,
    "I420_3": ColorFormat.I420_THREE_PLANES,
}
PLANES = {
    "NV12": {"input": (1, 30, 30, 1)},
    "NV12_2": {"input__Y": (1, 20, 30, 1), "input__UV": (1, 10, 15, 2)},
    "I420": {"input": (1, 30, 30, 1)},
    "I420_3": {"input__Y": (1, 20, 30, 1), "input__U": (1, 10, 15, 1), "input__V": (1, 10, 15, 1)},
}


@pytest.mark.parametrize("name", FORMATS)
def test_planes_of_video(serve, transport, name):
    """NV12 and I420, each in one tensor and in one for each plane, against the runtime itself."""
    flags = ["--layout", "NHWC:NCHW", "--color_format", f"RGB:{name}", "--precision", "fp32:uint8"]
    server = serve(MODEL, *flags)
    arrays = {plane: pixels(*shape) for plane, shape in PLANES[name].items()}

    core = openvino.Core()
    model = core.read_model(next((FIXTURES / "models" / MODEL).glob("*/*.xml")))
    steps = PrePostProcessor(model)
    tensor = steps.input().tensor()
    tensor.set_layout(openvino.Layout("NHWC"))
    tensor.set_color_format(FORMATS[name])
    tensor.set_element_type(openvino.Type.u8)
    steps.input().model().set_layout(openvino.Layout("NCHW"))
    steps.input().preprocess().convert_color(ColorFormat.RGB)
    steps.input().preprocess().convert_element_type(openvino.Type.f32)
    compiled = core.compile_model(steps.build(), "CPU", json.loads(PLUGIN_CONFIG))
    expected = compiled(list(arrays.values()))[0]
    assert infer(transport, server, **arrays).tolist() == expected.tolist()


def test_keys_of_the_file(running, transport, tmp_path):
    """The same as keys of a configuration file, in each form, and a change reloads the model."""
    base = str(FIXTURES / "models" / MODEL)
    keys = {"name": MODEL, "base_path": base, "layout": "NHWC:NCHW", "color_format": "RGB:BGR"}
    keys |= {"precision": "fp32:uint8", "mean": MEAN, "scale": "(58.4,57.1,57.4)"}
    path = tmp_path / "config.json"

    def write():
        path.write_text(json.dumps({"model_config_list": [{"config": keys}]}))

    write()
    flags = ["--config_path", str(path), "--file_system_poll_wait_seconds", "0"]
    server = running.start(MODEL, *flags)
    image = pixels(1, 20, 30, 3)
    outcome = infer(transport, server, input=image)
    np.testing.assert_allclose(outcome, normalized(image), rtol=1e-2, atol=1e-2)
    keys |= {"mean": 0, "scale": 1, "color_format": "RGB"}
    write()
    assert requests.post(server.url("/v1/config/reload"), timeout=30).status_code == 201
    expected = image.astype(np.float32).transpose(0, 3, 1, 2) + 1
    np.testing.assert_allclose(infer(transport, server, input=image), expected, rtol=1e-2)


@pytest.mark.parametrize("form", ["folder", "file"])
def test_a_model_without_version_folders(running, transport, tmp_path, form):
    """A folder with a model, and a model file, are version 1."""
    version = next((FIXTURES / "models" / MODEL).glob("[0-9]*"))
    shutil.copytree(version, tmp_path / "flat")
    path = tmp_path / "flat"
    if form == "file":
        path = next(path.glob("*.xml"))
    server = running.start(MODEL, "--model_name", MODEL, "--model_path", str(path))
    values = np.ones((1, 3, 20, 30), np.float32)
    assert infer(transport, server, input=values).min() == 2
    status = requests.get(server.url(f"/v1/models/{MODEL}"), timeout=10).json()
    versions = status["model_version_status"]
    assert [(each["version"], each["state"]) for each in versions] == [("1", "AVAILABLE")]
