"""Graphs with Python nodes, as Triton's clients see them."""

import struct
from io import BytesIO

import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.http as triton_http
from conftest import FIXTURES
from PIL import Image
from tritonclient.utils import InferenceServerException

GRAPHS = FIXTURES / "graphs"

# As the document prints it, but for what it leaves out.
READER = '''
from pyovms import Tensor
from PIL import Image
import io
import numpy as np

class OvmsPythonModel:

    def execute(self, inputs):
        # Read inputs
        image_input = inputs[0]
        text_input = inputs[1]
        numpy_input = inputs[2]
        seen = [image_input.shape, image_input.datatype, text_input.shape, text_input.datatype,
                numpy_input.shape, numpy_input.datatype]

        image = Image.open(io.BytesIO(bytes(image_input)))
        text = bytes(text_input).decode()
        ndarray = np.array(numpy_input)
        seen += [image.size, text, ndarray.tolist()]
        return [Tensor("seen", repr(seen).encode(), shape=(1,), datatype="BYTES"),
                Tensor("array", ndarray * 2)]
'''

INCREMENTER = '''
from pyovms import Tensor
import struct

def increment(input):
    return struct.pack("<i", struct.unpack("<i", bytes(input))[0] + 1)

class OvmsPythonModel:
    def initialize(self, kwargs):
        self.output_name = kwargs["outputs_names"][0]

    def execute(self, inputs):
        my_input = inputs[0]
        my_output = Tensor(self.output_name, increment(my_input), (1,), "INT32")
        return [my_output]
'''

NODE = '''
node {{
  name: "{name}"
  calculator: "PythonExecutorCalculator"
  input_side_packet: "PYTHON_NODE_RESOURCES:py"
  {streams}
  node_options: {{
    [type.googleapis.com / mediapipe.PythonExecutorCalculatorOptions]: {{
      handler_path: "{path}"
    }}
  }}
}}
'''


def streams(kind, *names):
    """Fields of a graph file."""
    return "\n".join(f'{kind}_stream: "{name}"' for name in names)


def node(name, path, inputs, outputs):
    """A Python node."""
    lines = streams("input", *inputs) + "\n" + streams("output", *outputs)
    return NODE.format(name=name, path=path, streams=lines)


@pytest.fixture(scope="module")
def documented(running, tmp_path_factory):
    """A server of the graphs that the document prints."""
    folder = tmp_path_factory.mktemp("graphs")
    (folder / "incrementer.py").write_text(INCREMENTER)
    (folder / "reader.py").write_text(READER)
    names = ["first", "second", "third", "last"]
    text = streams("input", "OVMS_PY_TENSOR:first_number")
    text += "\n" + streams("output", "OVMS_PY_TENSOR:last_number")
    for at, name in enumerate(names[:3]):
        path = folder / "incrementer.py"
        taken, given = f"INPUT:{name}_number", f"OUTPUT:{names[at + 1]}_number"
        text += node(f"{name}_python_node", path, [taken], [given])
    (folder / "chain.pbtxt").write_text(text)
    inputs = ["OVMS_PY_TENSOR_IMAGE:image", "OVMS_PY_TENSOR_TEXT:text", "OVMS_PY_TENSOR_NUMPY:numpy"]
    text = streams("input", *inputs)
    text += "\n" + streams("output", "OVMS_PY_TENSOR_SEEN:seen", "OVMS_PY_TENSOR_ARRAY:array")
    text += node("py", folder / "reader.py", ["A:image", "B:text", "C:numpy"], ["S:seen", "T:array"])
    (folder / "reader.pbtxt").write_text(text)
    config = folder / "config.json"
    entries = ", ".join(f'{{"name": "{n}", "graph_path": "{folder}/{n}.pbtxt"}}' for n in ("chain", "reader"))
    config.write_text(f'{{"model_config_list": [], "mediapipe_config_list": [{entries}]}}')
    return running.start("documented", "--config_path", str(config))


@pytest.fixture(scope="module")
def examples(serve_config):
    """The server of the examples."""
    return serve_config(GRAPHS / "config.json")


def strings(name, texts):
    """A tensor of texts."""
    tensor = triton.InferInput(name, [len(texts)], "BYTES")
    tensor.set_data_from_numpy(np.array([text.encode() for text in texts], np.object_))
    return tensor


def raw_output(result, name):
    """The bytes of an output as they came."""
    response = result.get_response()
    at = [output.name for output in response.outputs].index(name)
    return response.raw_output_contents[at]


def test_the_chain_of_the_document(documented):
    """Three nodes of one file, each with the names of its own streams."""
    client = triton.InferenceServerClient(documented.grpc)
    tensor = triton.InferInput("first_number", [1], "INT32")
    tensor.set_data_from_numpy(np.array([39], np.int32))
    result = client.infer("chain", [tensor], request_id="it")
    assert result.as_numpy("last_number").tolist() == [42]
    assert result.get_response().id == "it"
    metadata = client.get_model_metadata("chain")
    assert [each.name for each in metadata.inputs] == ["first_number"]
    assert [each.name for each in metadata.outputs] == ["last_number"]
    assert client.is_model_ready("chain")
    rest = triton_http.InferenceServerClient(documented.rest)
    for binary in (True, False):
        tensor = triton_http.InferInput("first_number", [1], "INT32")
        tensor.set_data_from_numpy(np.array([39], np.int32), binary_data=binary)
        output = triton_http.InferRequestedOutput("last_number", binary_data=binary)
        result = rest.infer("chain", [tensor], outputs=[output])
        assert result.as_numpy("last_number").tolist() == [42]


def test_three_inputs_of_the_document(documented):
    """An image, a text and an array, as the document's client sends them."""
    client = triton.InferenceServerClient(documented.grpc)
    file = BytesIO()
    Image.new("RGB", (7, 5), (1, 2, 3)).save(file, "PNG")
    image = file.getvalue()
    inputs = []
    for name, data in (("image", image), ("text", b"some text")):
        tensor = triton.InferInput(name, [len(data)], "BYTES")
        tensor._raw_content = data
        inputs.append(tensor)
    array = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], np.float32)
    tensor = triton.InferInput("numpy", array.shape, "FP32")
    tensor.set_data_from_numpy(array)
    result = client.infer("reader", [*inputs, tensor])
    expected = [(len(image),), "BYTES", (9,), "BYTES", (2, 3), "FP32", (7, 5), "some text"]
    assert raw_output(result, "seen").decode() == repr([*expected, array.tolist()])
    np.testing.assert_array_equal(result.as_numpy("array"), array * 2)
    inputs[0]._raw_content = b"no image"
    with pytest.raises(InferenceServerException) as caught:
        client.infer("reader", [*inputs, tensor])
    assert "Error occurred during graph execution - UnidentifiedImageError: " in caught.value.message()
    assert caught.value.status() == "StatusCode.INVALID_ARGUMENT"


def test_text(examples):
    """Words become ids of the vocabulary, and ids become counts."""
    pieces = (GRAPHS / "text" / "vocabulary.txt").read_text().splitlines()
    words = [piece for piece in pieces if piece.isalpha()][2:5]
    client = triton.InferenceServerClient(examples.grpc)
    texts = [" ".join(words), words[0]]
    result = client.infer("text", [strings("text", texts)])
    ids = result.as_numpy("ids")
    assert [pieces[i] for i in ids] == [*words, words[0]]
    (report,) = (text.decode() for text in result.as_numpy("report"))
    assert report.startswith(f"4 pieces; most often: {words[0]} x2, ")
    rest = triton_http.InferenceServerClient(examples.rest)
    tensor = triton_http.InferInput("text", [2], "BYTES")
    tensor.set_data_from_numpy(np.array(texts, np.object_), binary_data=True)
    np.testing.assert_array_equal(rest.infer("text", [tensor]).as_numpy("ids"), ids)
    outputs = [triton_http.InferRequestedOutput(name, binary_data=False) for name in ("ids", "report")]
    assert rest.infer("text", [tensor], outputs=outputs).as_numpy("report").tolist() == [report]


def test_classify(examples):
    """What the graph says is what the model says of the same pixels."""
    rng = np.random.default_rng(3)
    image = rng.integers(0, 256, (40, 60, 3), np.uint8)
    rows = ((np.arange(224) + 0.5) * 40 / 224).astype(int)
    columns = ((np.arange(224) + 0.5) * 60 / 224).astype(int)
    pixels = image[rows][:, columns].transpose(2, 0, 1)[np.newaxis].astype(np.float32)
    client = triton.InferenceServerClient(examples.grpc)
    tensor = triton.InferInput("image", [1, 3, 224, 224], "FP32")
    tensor.set_data_from_numpy(pixels)
    scores = client.infer("classifier", [tensor]).as_numpy("scores").reshape(-1)
    tensor = triton.InferInput("image", image.shape, "UINT8")
    tensor.set_data_from_numpy(image)
    result = client.infer("classify", [tensor])
    labels = (GRAPHS / "classify" / "labels.txt").read_text().split()
    assert result.as_numpy("label").tolist() == [labels[int(scores.argmax())].encode()]
    np.testing.assert_allclose(result.as_numpy("score"), [scores.max()], rtol=1e-5)


def test_a_generator_asked_once(examples):
    """The first set has no end signal, so that the answer is not whole; it comes all the same."""
    client = triton.InferenceServerClient(examples.grpc)
    result = client.infer("streamer", [strings("prompt", ["the server"])])
    (token,) = result.as_numpy("token")
    assert token.isalpha()
    (count,) = struct.unpack("<q", raw_output(result, "end_signal"))
    assert 0 < count <= 64
