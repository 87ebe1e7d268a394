"""Graphs with Python nodes: files, handlers and clients as the C++ server's documentation has them."""

import json
import struct
from io import BytesIO

import numpy as np
import pytest
import requests
import tritonclient.grpc as triton
import tritonclient.http as triton_http
from conftest import FIXTURES, PLUGIN_CONFIG
from PIL import Image
from tritonclient.utils import InferenceServerException

from upstream import Workspace, filled, moved, printed, run

# What stands around a node that is printed without its graph.
INPUT = 'input_stream: "OVMS_PY_TENSOR:input"\n'
OUTPUT = 'output_stream: "OVMS_PY_TENSOR:output"\n'
BASIC_GRAPH = INPUT + OUTPUT + printed("python/basic_node.pbtxt")
LETTERS = "".join(f'input_stream: "OVMS_PY_TENSOR_{name.upper()}:{name}"\n' for name in "cab")
TAGS_GRAPH = LETTERS + OUTPUT + printed("python/tags_node.pbtxt")
# What makes a handler of a printed function.
METHOD = "\nclass OvmsPythonModel:\n    execute = execute\n"
IMPORT = "from pyovms import Tensor\n\n"
RETURN = "return [Tensor('output', repr({}).encode())]\n"


def skeleton():
    """The class with every method."""
    copy = '        outputs = [Tensor("output", bytes(inputs[0]))]\n        return'
    return IMPORT + filled(printed("python/skeleton.py"), ("        ...\n        return", copy))


def template():
    """The node whose names are what `initialize` is given."""
    node_options = '  node_options: {\n    [type.googleapis.com / mediapipe.PythonExecutorCalculatorOptions]: {\n'
    node_options += '      handler_path: "/ovms/workspace/model.py"\n    }\n  }\n'
    calculator = '  calculator: "PythonExecutorCalculator"\n  input_side_packet: "PYTHON_NODE_RESOURCES:py"\n'
    node = filled(
        printed("python/node_template.pbtxt"),
        ("<NODE_NAME>", '"the_node"'),
        ("  ...\n", calculator),
        ("<INPUT_TAG>:<INPUT_NAME>", "SECOND:b"),
        ("<INPUT_TAG>:<INPUT_NAME>", "FIRST:a"),
        ("  ...\n", ""),
        ("<OUTPUT_TAG>:<OUTPUT_NAME>", "X:output"),
        ("<OUTPUT_TAG>:<OUTPUT_NAME>", "Y:other"),
        ("  ...\n", node_options),
    )
    streams = ['input_stream: "OVMS_PY_TENSOR_A:a"', 'input_stream: "OVMS_PY_TENSOR_B:b"']
    return "\n".join(streams) + "\n" + OUTPUT + node


KWARGS = f"""{IMPORT}
class OvmsPythonModel:
    def initialize(self, kwargs):
        self.kwargs = kwargs
    def execute(self, inputs):
        {RETURN.format("self.kwargs")}
"""


def execute_regular():
    """The function that returns."""
    copy = '    outputs = [Tensor("output", bytes(inputs[0]))]\n'
    return IMPORT + filled(printed("python/execute_regular.py"), ("    ...\n", copy)) + METHOD


def buffer_protocol():
    """The function that looks at two inputs; its last `...` says what it has seen."""
    last = "    " + RETURN.format("(input_tensor_bytes, input_tensor_ndarray)")
    text = filled(printed("python/buffer_protocol.py") + METHOD, ("...\n", "pass\n"), ("    ...\n", last))
    return IMPORT + text


def two_outputs(*changes):
    """A graph with both outputs of the handler, and the handler."""
    graph = INPUT + '\noutput_stream: "OVMS_PY_TENSOR1:my_output1"\noutput_stream: "OVMS_PY_TENSOR2:my_output2"\n'
    streams = 'output_stream: "ONE:my_output1"\n  output_stream: "TWO:my_output2"'
    graph += filled(printed("python/basic_node.pbtxt"), ('output_stream: "OUTPUT:output"', streams))
    return graph, filled(printed("python/two_outputs.py"), *changes)


def tags_handler():
    """The handler with `a`, `b` and `c`; `...` says what they are."""
    names = "        " + RETURN.format("[(it.name, bytes(it)) for it in (a, b, c)]")
    return filled(printed("python/tags_handler.py"), ("        ...\n", names))


# What the documentation says in words of buffers and their attributes.
ATTRIBUTES = f"""{IMPORT}
class OvmsPythonModel:
    def execute(self, inputs):
        (it,) = inputs
        seen = it.name, it.datatype, it.shape, it.data.format, it.data.shape, it.size, bytes(it)
        {RETURN.format("seen")}
"""


def incrementer():
    """The handler of the chain; `...` adds one."""
    add = '    import struct\n    output = struct.pack("<i", struct.unpack("<i", bytes(input))[0] + 1)\n'
    return filled(printed("python/incrementer.py"), ("    ...\n", add))


def three_inputs():
    """The graph for the client that sends three inputs: the printed streams, and one that is not."""
    numpy = 'input_stream: "OVMS_PY_TENSOR_NUMPY:numpy"\n'
    node = filled(
        printed("python/tags_node.pbtxt"),
        ('"B:b"', '"B:text"'),
        ('"A:a"', '"A:image"'),
        ('"C:c"', '"C:numpy"'),
    )
    return printed("python/graph_streams.pbtxt") + numpy + node


def three_inputs_model(*changes):
    """Its handler; the last `...` says what it made of them."""
    last = "        " + RETURN.format("(image.size, text, ndarray.dtype.str, ndarray.tolist())")
    text = printed("python/model.py")
    return filled(text, ("...\nclass", "class"), ("        ...\n", last), *changes)


def regular_mode():
    """The handler that returns data."""
    changes = ("...\n", "class OvmsPythonModel:\n"), ("        ...\n", "        data = bytes(inputs[0])\n")
    return filled(printed("python/regular_mode.py"), *changes)


PREPROCESS = f"""{IMPORT}
import numpy as np
class OvmsPythonModel:
    def execute(self, inputs):
        return [Tensor("preprocessed_py", np.array(inputs[0]) * 2)]
"""
POSTPROCESS = f"""{IMPORT}
import numpy as np
class OvmsPythonModel:
    def execute(self, inputs):
        assert inputs[0].name == "result_py"
        return [Tensor("output", np.array(inputs[0]) * 10)]
"""
# The printed graph is simplified: it does not say where its session comes from.
SESSION = """
node {
  calculator: "OpenVINOModelServerSessionCalculator"
  output_side_packet: "SESSION:session"
  node_options: {
    [type.googleapis.com / mediapipe.OpenVINOModelServerSessionCalculatorOptions]: { servable_name: "dummy" }
  }
}
"""


@pytest.fixture(scope="module")
def server(running, tmp_path_factory):
    """A server of the graphs of the documentation."""
    work = Workspace(tmp_path_factory.mktemp("workspace"))
    work.add("basic", BASIC_GRAPH, model=printed("python/basic_handler.py"))
    work.add("template", template(), model=KWARGS)
    work.add("execute_regular", BASIC_GRAPH, model=execute_regular())
    work.add("regular_mode", BASIC_GRAPH, model=regular_mode())
    work.add("buffer_protocol", TAGS_GRAPH, model=buffer_protocol())
    graph, handler = two_outputs()
    work.add("two_outputs_as_printed", graph, model=handler)
    graph, handler = two_outputs(("np_arr", "npy_arr"))
    work.add("two_outputs", graph, model=handler)
    work.add("tags", TAGS_GRAPH, model=tags_handler())
    work.add("attributes", BASIC_GRAPH, model=ATTRIBUTES)
    work.add("python_graph", printed("python/chain.pbtxt"), incrementer=incrementer())
    # By the name in the client.
    fixed = "bytes(image_data)", "bytes(image_input)"
    work.add("model_name", three_inputs(), model=three_inputs_model(fixed))
    work.add("model_name_as_printed", three_inputs(), model=three_inputs_model())
    graph = SESSION + printed("python/converters.pbtxt")
    work.add("converters", graph, preprocess=PREPROCESS, postprocess=POSTPROCESS)
    dummy = {"name": "dummy", "base_path": str(FIXTURES / "models" / "dummy")}
    work.config["model_config_list"].append({"config": {**dummy, "plugin_config": json.loads(PLUGIN_CONFIG)}})
    return running.start("workspace", "--config_path", str(work.write()), "--log_level", "DEBUG")


def raw(name, data, datatype="BYTES", shape=None):
    """An input whose bytes are as they are."""
    tensor = triton.InferInput(name, [len(data)] if shape is None else shape, datatype)
    tensor._raw_content = data
    return tensor


def infer(server, graph, *inputs):
    """The outputs of a graph: datatype, shape and bytes of each by its name."""
    with triton.InferenceServerClient(server.grpc) as client:
        response = client.infer(graph, list(inputs)).get_response()
    outputs = zip(response.outputs, response.raw_output_contents, strict=True)
    return {it.name: (it.datatype, list(it.shape), data) for it, data in outputs}


def seen_by(server, graph, *inputs):
    """What a handler says that it has seen."""
    return eval(infer(server, graph, *inputs)["output"][2], {"array": np.array, "float32": np.float32})


def test_skeleton(running, tmp_path):
    """Each method is called, and what it prints is in the log; the printed configuration is enough."""
    config, graph = tmp_path / "config.json", tmp_path / "graph.pbtxt"
    config.write_text(moved(printed("python/config.json"), "/ovms/workspace", tmp_path))
    graph.write_text(moved(BASIC_GRAPH, "/ovms/workspace", tmp_path))
    (tmp_path / "model.py").write_text(skeleton())
    server = running.start("skeleton", "--config_path", str(config))
    assert infer(server, "python_graph", raw("input", b"some text"))["output"] == ("UINT8", [9], b"some text")
    process, log = running.processes[-1], max(running.logs.glob("*-skeleton"))
    process.terminate()
    assert process.wait(timeout=20) == 0
    lines = log.read_text().splitlines()
    (begun,) = [number for number, line in enumerate(lines) if "Running initialize..." in line]
    (ended,) = [number for number, line in enumerate(lines) if "Running finalize..." in line]
    assert begun < ended


def test_template(server):
    """What `initialize` is given: the table's keys, and the one that the incrementer asks for."""
    kwargs = seen_by(server, "template", raw("a", b""), raw("b", b""))
    folder = kwargs.pop("base_path")
    assert folder.endswith("/template")
    outputs = ["output", "other"]
    names = {"node_name": "the_node", "input_names": ["b", "a"]}
    assert kwargs == {**names, "output_names": outputs, "outputs_names": outputs}


@pytest.mark.parametrize("graph", ["execute_regular", "regular_mode"])
def test_regular(server, graph):
    """One list for each request."""
    assert infer(server, graph, raw("input", b"some text")) == {"output": ("UINT8", [9], b"some text")}


def test_buffer_protocol(server):
    """The bytes of the first input, and the second as an array."""
    inputs = raw("a", b"bytes"), raw("b", struct.pack("<2f", 1, 2), "FP32", [1, 2]), raw("c", b"")
    seen, array = seen_by(server, "buffer_protocol", *inputs)
    assert (seen, array.tolist()) == (b"bytes", [[1, 2]])


def test_two_outputs(server):
    """Text, and strings of NumPy with its type. As printed the handler names an array that is not there."""
    outputs = infer(server, "two_outputs", raw("input", b""))
    assert outputs["my_output1"] == ("UINT8", [9], b"some text")
    datatype, shape, data = outputs["my_output2"]
    assert (datatype, shape) == ("<U7", [4])
    assert np.frombuffer(data, datatype).tolist() == ["my", "batched", "string", "output"]
    with pytest.raises(InferenceServerException, match="NameError: name 'np_arr' is not defined"):
        infer(server, "two_outputs_as_printed", raw("input", b""))


def test_basic(server):
    """The basic node and the handler for it."""
    assert infer(server, "basic", raw("input", b"x")) == {"output": ("UINT8", [9], b"some text")}


def test_tags(server):
    """Inputs are in the order of their tags, neither in that of the file nor of the request."""
    seen = seen_by(server, "tags", raw("c", b"3"), raw("b", b"2"), raw("a", b"1"))
    assert seen == [("a", b"1"), ("b", b"2"), ("c", b"3")]


def test_bytes_have_their_lengths(server):
    """Elements of 240, 1024 and 567 bytes, over gRPC and in JSON."""
    sizes = (240, 1024, 567)
    elements = [bytes([ord("a") + i]) * size for i, size in enumerate(sizes)]
    framed = b"".join(struct.pack("<I", len(element)) + element for element in elements)
    tensor = triton.InferInput("input", [3], "BYTES")
    tensor._input.contents.bytes_contents.extend(elements)
    want = ("input", "BYTES", (3,), "B", (len(framed),), len(framed), framed)
    assert seen_by(server, "attributes", tensor) == want
    tensor = triton_http.InferInput("input", [3], "BYTES")
    tensor.set_data_from_numpy(np.array(elements, np.object_), binary_data=False)
    with triton_http.InferenceServerClient(server.rest) as client:
        output = triton_http.InferRequestedOutput("output", binary_data=True)
        answer = client.infer("attributes", [tensor], outputs=[output])
    assert eval(answer.as_numpy("output").tobytes()) == want


def test_a_type_of_ones_own(server):
    """The shape is as the request says, and the buffer's that of its bytes."""
    data = b"null0terminated0string0"
    tensor = raw("input", data, "my_string", [3])
    assert seen_by(server, "attributes", tensor) == ("input", "my_string", (3,), "B", (23,), 23, data)


def test_chain(server):
    """Three nodes of one file, each with the names of its own streams."""
    tensor = triton.InferInput("first_number", [4], "UINT8")
    tensor.set_data_from_numpy(np.frombuffer(struct.pack("<i", 39), np.uint8))
    datatype, shape, data = infer(server, "python_graph", tensor)["last_number"]
    assert (datatype, shape, struct.unpack("<i", data)) == ("UINT8", [4], (42,))


def test_status_and_metadata(server):
    """What a client can ask of a graph besides."""
    with triton.InferenceServerClient(server.grpc) as client:
        assert client.is_model_ready("python_graph")
        metadata = client.get_model_metadata("python_graph")
    assert [it.name for it in metadata.inputs] == ["first_number"]
    assert [it.name for it in metadata.outputs] == ["last_number"]
    # The APIs of TensorFlow Serving do not run graphs.
    answer = requests.post(server.url("/v1/models/python_graph:predict"), json={"inputs": [1]}, timeout=10)
    assert answer.status_code == 404


def test_client(server, tmp_path, monkeypatch):
    """An image, a text and an array; the client has FP64 numbers where it says FP32, which Triton refuses."""
    file = BytesIO()
    Image.new("RGB", (7, 5), (1, 2, 3)).save(file, "PNG")
    (tmp_path / "image_path").write_bytes(file.getvalue())
    monkeypatch.chdir(tmp_path)
    client = moved(printed("python/client.py"), "localhost:9000", server.grpc)
    with pytest.raises(InferenceServerException, match="expected FP32"):
        run(client, np=np)
    client = filled(client, ("[4.0, 5.0, 6.0]])", "[4.0, 5.0, 6.0]], np.float32)"))
    seen = run(client, np=np)["results"].as_numpy("output").tobytes()
    assert eval(seen) == ((7, 5), "some text", "<f4", [[1, 2, 3], [4, 5, 6]])
    # As printed the handler opens an image by a name that it does not have.
    with pytest.raises(InferenceServerException, match="NameError: name 'image_data' is not defined"):
        run(moved(client, '"model_name"', '"model_name_as_printed"'), np=np)


def test_converters(server):
    """Python before and behind a model, with converters between."""
    tensor = triton.InferInput("input", [1, 10], "FP32")
    tensor.set_data_from_numpy(np.arange(10, dtype=np.float32).reshape(1, 10))
    datatype, shape, data = infer(server, "converters", tensor)["output"]
    assert (datatype, shape) == ("FP32", [1, 10])
    assert np.frombuffer(data, np.float32).tolist() == [(2 * number + 1) * 10 for number in range(10)]
