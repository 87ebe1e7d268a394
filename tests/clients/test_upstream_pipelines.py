"""Pipelines: configurations as the C++ server's documentation has them, and the shapes that it names."""

import json
import re
import sys

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest
import requests
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from conftest import FIXTURES, PLUGIN_CONFIG
from upstream import filled, link_model, printed

sys.path.insert(0, str(FIXTURES))
import check_pipelines  # noqa: E402
import fx  # noqa: E402
import nodes  # noqa: E402

DEMULTIPLEXER = "my_pipeline_with_demultiplexer"


def without_arrows(name):
    """A configuration without its arrows, which the documentation says are to be removed."""
    text = re.sub(r"  <-+ this parameter .*", "", printed(name))
    assert "<--" not in text
    return text


@pytest.fixture
def configured(running, tmp_path):
    """A function that serves a configuration with `/models` and `/libs` in a folder of the test."""
    for letter in "abc":
        link_model(f"model_{letter}", tmp_path / f"models/model_{letter}")

    def start(text, name):
        for printed_folder in ("/models/", "/libs/"):
            text = text.replace(f'"{printed_folder}', f'"{tmp_path}{printed_folder}')
        path = tmp_path / "config.json"
        path.write_text(text)
        return running.start(name, "--config_path", str(path))

    return start


def infer(server, name, **tensors):
    """The outputs by their names."""
    inputs = []
    for key, array in tensors.items():
        inputs.append(triton.InferInput(key, array.shape, np_to_triton_dtype(array.dtype)))
        inputs[-1].set_data_from_numpy(array)
    with triton.InferenceServerClient(server.grpc) as client:
        answer = client.infer(name, inputs)
        return {it.name: answer.as_numpy(it.name) for it in answer.get_response().outputs}


def ramp():
    """What is recorded in the fixtures for these models."""
    return {"pipeline_input_name": check_pipelines.ramp_input()}


def gathered():
    """What it gives in three branches."""
    return np.load(FIXTURES / "expected/model_ab_gathered.npy")


def test_demultiplexer(configured):
    """Three branches, gathered in the response; over TensorFlow Serving's JSON too."""
    server = configured(without_arrows("demultiplexing/branches.json"), "branches")
    got = infer(server, DEMULTIPLEXER, **ramp())["pipeline_output_name"]
    assert got.shape == (3, 1, 50)
    np.testing.assert_allclose(got, gathered(), atol=1e-2)
    body = {"inputs": {name: array.tolist() for name, array in ramp().items()}}
    answer = requests.post(server.url(f"/v1/models/{DEMULTIPLEXER}:predict"), json=body, timeout=30)
    np.testing.assert_allclose(answer.json()["outputs"], gathered(), atol=1e-2)


def test_gathering(configured):
    """Gathered before the third model, which the printed list of models does not have."""
    last = '            "base_path": "/models/model_b"\n        }}\n'
    more = last.replace("model_b", "model_c")
    more = last.rstrip() + ',\n        {"config": {\n            "name": "Model_C",\n' + more
    text = without_arrows("demultiplexing/gathering.json")
    got = infer(configured(filled(text, (last, more)), "gathering"), DEMULTIPLEXER, **ramp())
    assert got["pipeline_output_name"].shape == (1, 50)
    np.testing.assert_allclose(got["pipeline_output_name"], gathered().max(axis=0), atol=1e-2)


def test_gathering_as_printed(configured):
    """Without the third model the pipeline is refused, and the models are served."""
    server = configured(without_arrows("demultiplexing/gathering.json"), "gathering_as_printed")
    with pytest.raises(InferenceServerException, match="Pipeline is not loaded yet"):
        infer(server, DEMULTIPLEXER, **ramp())
    with triton.InferenceServerClient(server.grpc) as client:
        assert client.is_model_ready("Model_A")


# What the text around the configurations names


def resnet(folder):
    """A model of the shapes that the documentation names, far smaller: a class is a number of times the mean."""
    image = fx.param([1, 3, 224, 224], "input")
    mean = op.reduce_mean(image, fx.constant([1, 2, 3], np.int64), False)
    classes = op.multiply(op.reshape(mean, fx.constant([1, 1], np.int64), False), fx.constant([range(1001)]))
    fx.save_ir(ov.Model([fx.result(classes, "output")], [image], "resnet"), folder, "resnet")
    base = {"name": "resnet", "base_path": "/models/resnet", "nireq": 4}
    return {"config": {**base, "plugin_config": {**json.loads(PLUGIN_CONFIG), "NUM_STREAMS": "2"}}}


def connection(name, node, item):
    """An input of a node, or an output of a pipeline."""
    return {name: {"node_name": node, "data_item": item}}


def classify(node, item):
    """The node of that model."""
    inputs, outputs = [connection("input", node, item)], [{"data_item": "output", "alias": "classes"}]
    return {"name": "classify", "model_name": "resnet", "type": "DL model", "inputs": inputs, "outputs": outputs}


def test_any_number_of_images(configured, tmp_path):
    """(N,1,3,224,224) to (N,1,1001), with one model and `demultiply_count: -1`."""
    pipeline = {
        "name": "batches",
        "inputs": ["images"],
        "demultiply_count": -1,
        "nodes": [classify("request", "images")],
        "outputs": [connection("classes", "classify", "classes")],
    }
    config = {"model_config_list": [resnet(tmp_path / "models")], "pipeline_config_list": [pipeline]}
    server = configured(json.dumps(config), "batches")
    for count in (1, 4):
        images = np.arange(count, dtype=np.float32).reshape(-1, 1, 1, 1, 1) * np.ones((1, 1, 3, 224, 224), np.float32)
        classes = infer(server, "batches", images=images)["classes"]
        assert classes.shape == (count, 1, 1001)
        np.testing.assert_allclose(classes[:, 0, 1], range(count), atol=1e-5)


def test_eight_of_a_node(configured, tmp_path):
    """[8,1,3,224,224] of a node, eight runs with [1,3,224,224], and [8,1,1001] of what they gave."""
    nodes.compile_node("arith.c", tmp_path)
    copies = {
        "name": "copies",
        "library_name": "arith",
        "type": "custom",
        "params": {"op": "expand", "copies": "8", "a": "1,3,224,224", "out": "8,1,3,224,224"},
        "demultiply_count": 8,
        "inputs": [connection("a", "request", "image")],
        "outputs": [{"data_item": "out", "alias": "images"}],
    }
    pipeline = {
        "name": "eight",
        "inputs": ["image"],
        "nodes": [copies, classify("copies", "images")],
        "outputs": [connection("classes", "classify", "classes")],
    }
    config = {
        "model_config_list": [resnet(tmp_path / "models")],
        "custom_node_library_config_list": [{"name": "arith", "base_path": "libarith.so"}],
        "pipeline_config_list": [pipeline],
    }
    image = np.zeros((1, 3, 224, 224), np.float32)
    classes = infer(configured(json.dumps(config), "eight"), "eight", image=image)["classes"]
    assert classes.shape == (8, 1, 1001)
    # Of zeros the node makes places; to each copy it adds 7 more than to the one before.
    places = np.arange(8 * image.size).reshape(8, -1)
    images = (places + 7 * np.arange(8)[:, np.newaxis]) % 1009
    np.testing.assert_allclose(classes[:, 0, 1], images.mean(axis=1), rtol=1e-4)


# The template

TEMPLATE = [
    ("[...]", '[{"config": {"name": "model", "base_path": "/models/model"}}]'),
    ("<pipeline name>", "pipeline"),
    ('["<input1>",...]', '["input1"]'),
    ("<node name>", "model_node"),
    ("<reference to the model>", '"model"'),
    ('"<input1>"', '"input1"'),
    ("<model output>", "output"),
    ("<node output name>", "model_output"),
    ('"<input1>"', '"input1"'),
    ("<library_output>", "library_output"),
    ("<node_output>", "custom_output"),
    ("<node to return results>", "model_node"),
    ("<node output name to return results>", "model_output"),
]
# A node that nothing comes of is refused, so there is another output, written as the printed one.
OTHER = '"model_output"}},\n{"other": {"node_name": "custon_node_name", "data_item": "custom_output"}}'


def test_template(configured, tmp_path):
    """Comments and commas stay, placeholders get names; parameters go to the custom node."""
    x = fx.param([1, 4], "input")
    y = fx.result(op.add(x, fx.constant(1)), "output")
    fx.save_ir(ov.Model([y], [x], "model"), tmp_path / "models", "model")
    (tmp_path / "libs").mkdir()
    nodes.compile_node("params.c", tmp_path).rename(tmp_path / "libs/libcustom_node.so")
    text = filled(printed("dag_scheduler/template.json"), *TEMPLATE, ('"model_output"}}', OTHER))
    # What is no strict JSON otherwise is still there.
    assert "# pipeline outputs" in text and '"value2",\n' in text
    server = configured(text, "template")
    ones = np.ones((1, 4), np.float32)
    got = infer(server, "pipeline", input1=ones)
    assert set(got) == {"label", "other"}
    assert got["label"].tolist() == [[2] * 4]
    assert got["other"].tobytes() == b"value1 value2"
    with triton.InferenceServerClient(server.grpc) as client:
        metadata = client.get_model_metadata("pipeline", "7")
    assert [it.name for it in metadata.inputs] == ["input1"]
    assert {it.name for it in metadata.outputs} == {"label", "other"}
    status = requests.get(server.url("/v1/models/pipeline/versions/7"), timeout=10).json()
    assert [it["state"] for it in status["model_version_status"]] == ["AVAILABLE"]
