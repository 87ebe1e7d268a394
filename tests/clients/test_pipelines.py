"""Pipelines of the fixtures, through the clients of all four APIs: OCR, faces, OpenCV."""

import importlib.util
import json
import subprocess
import sys

import numpy as np
import ovmsclient
import pytest
import requests
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from PIL import Image
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from conftest import FIXTURES, PLUGIN_CONFIG

sys.path.insert(0, str(FIXTURES))
import check_pipelines  # noqa: E402
import faces  # noqa: E402
import make_classifier  # noqa: E402
import nodes  # noqa: E402

PAGE = FIXTURES / "images/ocr_page.png"
NOTHING = "Pipeline execution aborted due to no content from custom node"


def program(example):
    """The client of an example, as a module."""
    path = FIXTURES / "pipelines" / example / "client.py"
    spec = importlib.util.spec_from_file_location(f"{example}_client", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def triton(module, address, name, tensors):
    """An inference through one of Triton's clients."""
    asked = []
    for key, array in tensors.items():
        asked.append(module.InferInput(key, array.shape, np_to_triton_dtype(array.dtype)))
        asked[-1].set_data_from_numpy(array)
    with module.InferenceServerClient(address) as client:
        answer = client.infer(name, asked)
        response = answer.get_response()
        if module is triton_grpc:
            names = [output.name for output in response.outputs]
        else:
            names = [output["name"] for output in response["outputs"]]
        return {key: answer.as_numpy(key) for key in names}


def tfs_grpc(server, name, tensors):
    """An inference through the client for TensorFlow Serving's API."""
    return ovmsclient.make_grpc_client(server.grpc).predict(tensors, name)


def tfs_rest(server, name, tensors):
    """An inference in JSON, as TensorFlow Serving has it."""
    body = {"inputs": {key: array.tolist() for key, array in tensors.items()}}
    answer = requests.post(server.url(f"/v1/models/{name}:predict"), json=body, timeout=60)
    outputs = answer.json()["outputs"]
    if isinstance(outputs, dict):
        return {key: np.array(value) for key, value in outputs.items()}
    return np.array(outputs)


# Each takes a server, the name of a pipeline and its inputs, and gives its outputs by their names;
# with TensorFlow Serving a single output has none.
APIS = {
    "kserve_grpc": lambda server, *asked: triton(triton_grpc, server.grpc, *asked),
    "kserve_rest": lambda server, *asked: triton(triton_http, server.rest, *asked),
    "tfs_grpc": tfs_grpc,
    "tfs_rest": tfs_rest,
}
any_api = pytest.mark.parametrize("api", APIS)


@pytest.fixture(scope="session")
def example(serve_config):
    """A function that builds an example, as its Makefile does, and serves it."""

    def start(name):
        folder = FIXTURES / "pipelines" / name
        subprocess.run(["make", "--silent", "-C", str(folder)], check=True)
        return serve_config(folder / "config.json")

    return start


@pytest.fixture
def configured(serve_config, tmp_path):
    """A function that serves a configuration, with the models of the fixtures."""

    def start(config):
        (tmp_path / "models").symlink_to(FIXTURES / "models")
        path = tmp_path / "config.json"
        path.write_text(json.dumps(config))
        return serve_config(path)

    return start


def only(got):
    """The one output of an answer."""
    if isinstance(got, dict):
        (got,) = got.values()
    return got


def near(got, want, tolerance=1e-5):
    """Assert that arrays have one shape, and differ by no more in proportion."""
    assert got.shape == want.shape, f"shape {got.shape}, not {want.shape}"
    np.testing.assert_allclose(got, want, rtol=tolerance)


# OCR


@any_api
def test_ocr(example, api):
    """Boxes and texts are those of the reference."""
    client, expected = program("ocr"), check_pipelines.expected_page()
    got = APIS[api](example("ocr"), "ocr", {"image": client.load(PAGE)})
    lines = expected["lines"]
    assert set(got) == {"boxes", "chars"}
    assert got["boxes"].tolist() == [[line["box"]] for line in lines]
    assert got["chars"].shape == (len(lines), 1, 80, 71)
    assert [client.decode(chars[0]) for chars in got["chars"]] == [line["text"] for line in lines]


def test_ocr_client(example):
    """The client prints a line for each box; its characters are those of the model."""
    expected = check_pipelines.expected_page()
    assert program("ocr").CHARACTERS == expected["charset"]
    command = [sys.executable, FIXTURES / "pipelines/ocr/client.py", PAGE]
    command += ["--url", example("ocr").grpc]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    printed = [line.split(maxsplit=1)[1] for line in done.stdout.splitlines()]
    assert printed == [line["text"] for line in expected["lines"]]


def test_ocr_of_other_requests(example):
    """Pages beside each other, and one output of two."""
    server, client = example("ocr"), program("ocr")
    page = client.load(PAGE)
    # The upper half of the page: what is below is white.
    upper = page.copy()
    upper[:, :, 260:] = 255
    with triton_http.InferenceServerClient(server.rest, concurrency=6) as many:
        calls = []
        for image in (page, upper) * 3:
            asked = triton_http.InferInput("image", image.shape, "FP32")
            asked.set_data_from_numpy(image)
            wanted = [triton_http.InferRequestedOutput("boxes")]
            calls.append(many.async_infer("ocr", [asked], outputs=wanted))
        answers = [call.get_result() for call in calls]
    assert all(answer.as_numpy("chars") is None for answer in answers)
    counts = [len(answer.as_numpy("boxes")) for answer in answers]
    assert counts == [12, 7] * 3


def test_ocr_of_an_empty_page(example):
    """No text is reported as such, in each API; the pipeline goes on."""
    server, client = example("ocr"), program("ocr")
    blank = {"image": np.full((1, 3, 640, 640), 255, np.float32)}
    with pytest.raises(InferenceServerException, match=NOTHING) as caught:
        APIS["kserve_grpc"](server, "ocr", blank)
    assert caught.value.status() == "StatusCode.ABORTED"
    with pytest.raises(InferenceServerException, match=NOTHING) as caught:
        APIS["kserve_rest"](server, "ocr", blank)
    assert caught.value.status() == "409"
    with pytest.raises(Exception, match=NOTHING):
        APIS["tfs_grpc"](server, "ocr", blank)
    url = server.url("/v1/models/ocr:predict")
    answer = requests.post(url, json={"inputs": blank["image"].tolist()}, timeout=60)
    # An input has to be named in a request to a pipeline.
    assert answer.status_code == 400, answer.text
    named = {"inputs": {"image": blank["image"].tolist()}}
    answer = requests.post(url, json=named, timeout=60)
    assert answer.status_code == 409
    assert NOTHING in answer.json()["error"]
    with triton_grpc.InferenceServerClient(server.grpc) as connection:
        assert len(client.read(connection, client.load(PAGE))) == 12


def test_ocr_metadata(example):
    """What the pipeline takes and gives, as KServe and TensorFlow Serving say it."""
    server = example("ocr")
    want = {
        "name": "ocr",
        "versions": ["1"],
        "platform": "OpenVINO",
        "inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 3, 640, 640]}],
        "outputs": [
            {"name": "boxes", "datatype": "INT32", "shape": [-1, 1, 4]},
            {"name": "chars", "datatype": "FP32", "shape": [-1, 1, 80, 71]},
        ],
    }
    with triton_http.InferenceServerClient(server.rest) as client:
        assert client.get_model_metadata("ocr") == want
        assert client.is_model_ready("ocr")
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        metadata = client.get_model_metadata("ocr", as_json=True)
        shapes = {output["name"]: output["shape"] for output in metadata["outputs"]}
        assert shapes == {"boxes": ["-1", "1", "4"], "chars": ["-1", "1", "80", "71"]}
        assert client.is_model_ready("ocr")
    for client in (
        ovmsclient.make_grpc_client(server.grpc),
        ovmsclient.make_http_client(server.rest),
    ):
        said = client.get_model_metadata("ocr")
        assert said["inputs"]["image"] == {"shape": [1, 3, 640, 640], "dtype": "DT_FLOAT"}
        assert said["outputs"]["boxes"] == {"shape": [-1, 1, 4], "dtype": "DT_INT32"}
        status = client.get_model_status("ocr")
        assert {entry["state"] for entry in status.values()} == {"AVAILABLE"}


# Faces: what splits within what is split, and is gathered before, or in the response.


def crowd():
    """An image of whole numbers, so that sums are exact, and what is to be said of it."""
    image = np.random.default_rng(5).integers(0, 50, (1, 700, 900)).astype(np.float32)
    for left, top, light in [(20, 10, 60), (300, 150, 90), (660, 400, 40)]:
        image[:, top : top + 200, left : left + 200] += light
    return image, faces.understand(image, 4)


@any_api
def test_faces(example, api):
    """A mood for each face; and what all have in common, after a second gathering."""
    server = example("faces")
    image, want = crowd()
    got = APIS[api](server, "faces", {"image": image})
    assert set(got) == {"boxes", "moods"}
    assert got["boxes"].tolist() == want["boxes"].tolist()
    near(got["moods"], want["moods"])
    got = APIS[api](server, "company", {"image": image})
    assert got["dominant"].tolist() == want["dominant"].tolist()
    near(got["mean"], want["mean"])


def test_faces_gathered_in_the_response(example, configured):
    """Without the inner gathering the response has both levels, the outer one first."""
    text = (FIXTURES / "pipelines/faces/config.json").read_text()
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("//"))
    config = json.loads("\n".join(lines))
    pipeline = config["pipeline_config_list"][0]
    assert pipeline["nodes"].pop()["gather_from_node"] == "landmarks"
    pipeline["outputs"] = [connection("landmarks", "part", "strips")]
    config["pipeline_config_list"] = [pipeline]
    for library in config["custom_node_library_config_list"]:
        library["base_path"] = str(FIXTURES / "pipelines/faces" / library["base_path"])
    example("faces")  # builds them
    server = configured(config)
    image, want = crowd()
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        metadata = client.get_model_metadata("faces", as_json=True)
    (output,) = metadata["outputs"]
    assert output["shape"] == ["4", "3", "1", "50"]
    near(only(APIS["kserve_grpc"](server, "faces", {"image": image})), want["landmarks"])


def test_faces_client(example):
    """The client prints a line for each face, and one for all."""
    command = [sys.executable, FIXTURES / "pipelines/faces/client.py", PAGE]
    command += ["--url", example("faces").grpc]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    want = faces.understand(program("faces").load(PAGE), 4)
    moods = want["moods"][:, 0].argmax(axis=1)
    printed = done.stdout.splitlines()
    assert [int(line.rsplit(maxsplit=1)[1]) for line in printed[:-1]] == moods.tolist()
    assert printed[-1] == f"together: mood {want['dominant'].item()}"


def test_too_few_faces(example):
    """An image with room for one does not have the four that are to be split."""
    image = np.zeros((1, 300, 300), np.float32)
    want = "Wrong dimension size. Should match demultiply count"
    with pytest.raises(InferenceServerException, match=want) as caught:
        APIS["kserve_grpc"](example("faces"), "faces", {"image": image})
    assert caught.value.status() == "StatusCode.INTERNAL"


# OpenCV


def test_opencv_before_a_model(configured, tmp_path):
    """An image of any size is resized by OpenCV and classified."""
    nodes.compile_node("opencv_resize.cpp", tmp_path)
    server = configured(
        {
            "model_config_list": [
                {
                    "config": {
                        "name": "classifier",
                        "base_path": "models/classifier",
                        "plugin_config": json.loads(PLUGIN_CONFIG),
                    }
                }
            ],
            "custom_node_library_config_list": [
                {"name": "resize", "base_path": "libopencv_resize.so"}
            ],
            "pipeline_config_list": [
                {
                    "name": "images",
                    "inputs": ["image"],
                    "nodes": [
                        {
                            "name": "resize",
                            "type": "custom",
                            "library_name": "resize",
                            "params": {"height": "224", "width": "224"},
                            "inputs": [connection("image", "request", "image")],
                            "outputs": [{"data_item": "image", "alias": "resized"}],
                        },
                        {
                            "name": "classify",
                            "type": "DL model",
                            "model_name": "classifier",
                            "inputs": [connection("image", "resize", "resized")],
                            "outputs": [{"data_item": "scores", "alias": "scores"}],
                        },
                    ],
                    "outputs": [connection("scores", "classify", "scores")],
                }
            ],
        }
    )
    labels = make_classifier.labels()
    for name in ("star.jpg", "ring.png", "diamond.png"):
        with Image.open(FIXTURES / "images" / name) as image:
            bgr = np.asarray(image.convert("RGB"))[None, :, :, ::-1].copy()
        for api in APIS:
            scores = only(APIS[api](server, "images", {"image": bgr}))
            assert scores.shape == (1, 10)
            assert labels[scores.argmax()] == name.partition(".")[0]
            assert scores.max() > 0.9


def connection(name, node, item):
    """An input of a node, or an output of a pipeline."""
    return {name: {"node_name": node, "data_item": item}}
