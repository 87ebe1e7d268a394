//! Python nodes and unary requests: inputs of `execute`, and its results.

use std::{fs, path::Path};

use serde_json::json;

use crate::support::{
    Server,
    graphs::{
        CODE, PYTHON, add, add_python, code, failed, file, generative, graph, python, reported,
        shown,
    },
    grpc::{Grpc, floats, input, raw, to_floats},
    http::{get, post},
    pipelines::Config,
};

/// Serves graphs whose node runs code from requests: `py` and `gen`.
pub(crate) fn lab() -> (Config, Server) {
    let mut config = Config::of(&[]);
    add_python(&mut config, "py", CODE);
    add(&mut config, "gen", &generative(PYTHON));
    file(&config, "gen/handler.py", CODE);
    add_python(&mut config, "describe", DESCRIBE);
    let server = config.serve();
    (config, server)
}

/// A handler that describes its input in full.
const DESCRIBE: &str = r#"
from pyovms import Tensor
class OvmsPythonModel:
    def execute(self, inputs):
        t = inputs[0]
        begin = bytes(t)[:24].hex(" ")
        data = (t.data.format, t.data.itemsize, t.data.shape, t.data.strides, t.data.readonly)
        return [Tensor("out", repr((t.name, t.datatype, t.shape, t.size, data, begin)).encode())]
"#;

const EMPTY: &str = "InvalidArgument: Mediapipe execution failed. MP status - Unknown error during \
                     mediapipe execution";

#[test]
fn what_execute_returns_is_answered_or_refused() {
    let (_config, server) = lab();
    let client = Grpc::connect(&server);
    let good = || {
        assert_eq!(
            reported(&client, code("py", "return [Tensor('out', b'abc')]")),
            "out UINT8 [3] abc"
        );
    };
    good();
    assert_eq!(reported(&client, code("py", "return []")), EMPTY);
    let begin = format!("InvalidArgument: {}", failed("py"));
    let errors = [
        (
            "return [Tensor('other', b'')]",
            "\"other\", which is not an output of the node: out",
        ),
        (
            "return [Tensor('in', b'')]",
            "\"in\", which is not an output of the node: out",
        ),
        (
            "return [Tensor('', b'')]",
            "\"\", which is not an output of the node: out",
        ),
        (
            "return [Tensor('out', b''), 5]",
            "element 1 of the list is int",
        ),
        ("return [None]", "element 0 of the list is NoneType"),
        (
            "return [[Tensor('out', b'')]]",
            "element 0 of the list is list",
        ),
        ("return None", "it returned NoneType"),
        ("return (Tensor('out', b''),)", "it returned tuple"),
        ("return Tensor('out', b'')", "it returned Tensor"),
        ("return {'out': Tensor('out', b'')}", "it returned dict"),
        ("return 5", "it returned int"),
        ("return 'text'", "it returned str"),
        (
            "return [Tensor('out', b'a'), Tensor('out', b'b')]",
            "two tensors named \"out\" at one time",
        ),
        (
            "yield [Tensor('out', b'')]",
            "Execute yielded, but LOOPBACK is not defined in the node",
        ),
        (
            "return iter([])",
            "Execute yielded, but LOOPBACK is not defined in the node",
        ),
        ("raise ValueError('wörld')", " - ValueError: wörld"),
        ("raise ValueError", " - ValueError"),
        (
            "raise ValueError('two\\nlines')",
            " - ValueError: two\nlines",
        ),
        ("sys.exit(3)", " - SystemExit: 3"),
        ("sys.exit()", " - SystemExit"),
        ("exit()", "Exit"),
        ("raise KeyboardInterrupt", " - KeyboardInterrupt"),
        ("raise GeneratorExit", " - GeneratorExit"),
        ("raise StopIteration", " - StopIteration"),
        ("raise MemoryError", " - MemoryError"),
        ("bytes(1 << 60)", " - MemoryError"),
        ("def f(): f()\nf()", " - RecursionError"),
        ("raise Exception('\\ud800 \\udfff')", " - Exception: "),
        (
            "raise Exception(b'\\xff\\xfe')",
            " - Exception: b'\\xff\\xfe'",
        ),
        ("b'\\xff'.decode()", " - UnicodeDecodeError: "),
        ("raise Exception('a\\0b\\x1b[0m')", " - Exception: a"),
        (
            "class E(Exception):\n  def __str__(self): raise ValueError\nraise E",
            " - E",
        ),
        (
            "class E(Exception):\n  def __str__(self): return 5\nraise E",
            " - E",
        ),
        (
            "class E(Exception):\n  def __str__(self): sys.exit(1)\nraise E",
            " - E",
        ),
        (
            "raise ExceptionGroup('many', [ValueError(1), TypeError(2)])",
            " - ExceptionGroup: many",
        ),
        ("raise ValueError('x' * 1000000)", " - ValueError: xxxx"),
        ("raise ValueError('é' * 1000000)", " - ValueError: éééé"),
        ("raise ValueError('\\n' * 1000000)", " - ValueError: "),
        ("x = = 1", " - SyntaxError: "),
        ("return [Tensor('out')]", " - TypeError: "),
        ("return [Tensor('out', 5)]", " - TypeError: "),
        ("return [Tensor('out', 'text')]", " - TypeError: "),
        ("return [Tensor('out', None)]", " - TypeError: "),
        ("return [Tensor(5, b'')]", " - TypeError: "),
        ("return [Tensor('out', b'', shape='a')]", " - TypeError: "),
        ("return [Tensor('out', b'', datatype=5)]", " - TypeError: "),
        ("inputs[0].name = 'other'", " - AttributeError: "),
        ("inputs[0].data[0] = 1", " - TypeError: "),
        ("return self.missing", " - AttributeError: "),
    ];
    for (body, expected) in errors {
        let came = reported(&client, code("py", body));
        assert!(came.starts_with(&begin), "{body}: {came}");
        assert!(came.contains(expected), "{body}: {came}");
        assert!(!came.contains("Traceback"), "{body}: {came}");
        good();
    }
    // Over REST as well.
    let numbers = |text: &str| json!(text.bytes().collect::<Vec<_>>());
    let body = |text: &str| {
        json!({"inputs": [{
        "name": "in", "shape": [text.len()], "datatype": "UINT8", "data": numbers(text)}]})
    };
    let ask = |text: &str| {
        post(
            &server,
            "/v2/models/py/infer",
            body(text).to_string().as_bytes(),
        )
    };
    let expected = format!("400: {} - KeyError: 'k'", failed("py"));
    assert_eq!(ask("raise KeyError('k')").error(), expected);
    let answer = ask("return [Tensor('out', b'ab')]").json();
    assert_eq!(answer["outputs"][0]["data"], json!([97, 98]));
    // The traceback is in the log.
    server.wait_log("Traceback (most recent call last):");
    assert_eq!(get(&server, "/v2/health/ready").status, 200);
}

#[test]
fn a_generator_is_answered_by_its_first_set() {
    let (config, server) = lab();
    let client = Grpc::connect(&server);
    let first = "for n in range(3):\n  yield [Tensor('out', str(n).encode())]";
    assert_eq!(reported(&client, code("gen", first)), "out UINT8 [1] 0");
    // One without an end as well, and it is closed.
    let closed = config.beside("closed");
    let endless = format!(
        "try:\n  while True: yield [Tensor('out', b'one')]\nfinally: open({closed:?}, 'a').write('x')"
    );
    assert_eq!(
        reported(&client, code("gen", &endless)),
        "out UINT8 [3] one"
    );
    crate::support::eventually("it is closed", || {
        (fs::read_to_string(&closed).is_ok_and(|text| text == "x")).then_some(())
    });
    // Lists work as elsewhere, and sets may be without anything.
    let list = "return [Tensor('out', b'list')]";
    assert_eq!(reported(&client, code("gen", list)), "out UINT8 [4] list");
    let later = "yield []\nyield []\nyield [Tensor('out', b'third')]";
    assert_eq!(reported(&client, code("gen", later)), "out UINT8 [5] third");
    assert_eq!(reported(&client, code("gen", "return\nyield")), EMPTY);
    assert_eq!(
        reported(
            &client,
            code("gen", "return iter([[Tensor('out', b'iterator')]])")
        ),
        "out UINT8 [8] iterator"
    );
    let begin = format!("InvalidArgument: {}", failed("gen"));
    let begin = begin.replace("\"gen\"", "\"py\"");
    for (body, expected) in [
        ("yield []\nraise ValueError('late')", " - ValueError: late"),
        ("yield Tensor('out', b'')", "it yielded Tensor"),
        ("yield None", "it yielded NoneType"),
        ("yield [5]", "element 0 of the list is int"),
        (
            "yield [Tensor('other', b'')]",
            "which is not an output of the node: ",
        ),
        (
            "yield [Tensor('loopback', b'')]",
            "which is not an output of the node: ",
        ),
        ("yield []\nsys.exit(1)", " - SystemExit: 1"),
        (
            "yield []\nraise StopIteration",
            " - RuntimeError: generator raised StopIteration",
        ),
    ] {
        let came = reported(&client, code("gen", body));
        assert!(
            came.starts_with(&begin) && came.contains(expected),
            "{body}: {came}"
        );
        assert_eq!(reported(&client, code("gen", list)), "out UINT8 [4] list");
    }
}

#[test]
fn nodes_of_several_streams() {
    let mut config = Config::of(&[]);
    let named = r#"
from pyovms import Tensor
class OvmsPythonModel:
    def initialize(self, kwargs):
        self.kwargs = kwargs
    def execute(self, inputs):
        names = " ".join(t.name for t in inputs)
        return [Tensor("out", f"{names}; {self.kwargs}".encode())]
"#;
    let text = graph(
        "OVMS_PY_TENSOR1:x OVMS_PY_TENSOR2:y OVMS_PY_TENSOR3:z",
        "OVMS_PY_TENSOR:out",
        &[python("n", "B:x A:y C:z", "OUT:out", "handler.py", "")],
    );
    let folder = add(&mut config, "order", &text);
    fs::write(folder.with_file_name("handler.py"), named).unwrap();
    // The document's chain.
    let chain = graph(
        "OVMS_PY_TENSOR:first_number",
        "OVMS_PY_TENSOR:last_number",
        &[
            python(
                "third_python_node",
                "INPUT:third_number",
                "OUTPUT:last_number",
                "incrementer.py",
                "",
            ),
            python(
                "first_python_node",
                "INPUT:first_number",
                "OUTPUT:second_number",
                "incrementer.py",
                "",
            ),
            python(
                "second_python_node",
                "INPUT:second_number",
                "OUTPUT:third_number",
                "incrementer.py",
                "",
            ),
        ],
    );
    add(&mut config, "chain", &chain);
    file(&config, "chain/incrementer.py", INCREMENTER);
    // One node gives the other one of its two inputs.
    let partly = graph(
        "OVMS_PY_TENSOR:in",
        "OVMS_PY_TENSOR:out",
        &[
            python("a", "IN:in", "ONE:one TWO:two", "a.py", ""),
            python("b", "ONE:one TWO:two", "OUT:out", "b.py", ""),
        ],
    );
    add(&mut config, "partly", &partly);
    file(&config, "partly/a.py", CODE);
    file(&config, "partly/b.py", named);
    // Outputs that are left out.
    let incomplete = graph(
        "OVMS_PY_TENSOR:in",
        "OVMS_PY_TENSOR:result OVMS_PY_TENSOR_ERROR:error_message",
        &[python(
            "py",
            "INPUT:in",
            "OUTPUT:result ERROR:error_message",
            "handler.py",
            "",
        )],
    );
    add(&mut config, "incomplete", &incomplete);
    file(&config, "incomplete/handler.py", CODE);
    let server = config.serve();
    let client = Grpc::connect(&server);

    let mut ask = raw("order", "x", "UINT8", &[1], b"a");
    for name in ["z", "y"] {
        ask.inputs.push(input(name, "UINT8", &[1]));
        ask.raw_input_contents.push(b"b"[..].into());
    }
    let came = reported(&client, ask.clone());
    assert!(came.contains(" y x z; {'node_name': 'n', 'input_names': ['x', 'y', 'z'], 'output_names': ['out'], 'outputs_names': ['out'], 'base_path': '"), "{came}");
    let base = config.beside("order");
    assert!(came.ends_with(&format!("{}'}}", base.display())), "{came}");
    ask.inputs.pop();
    ask.raw_input_contents.pop();
    assert_eq!(
        reported(&client, ask),
        "InvalidArgument: Invalid number of inputs - Not all input packets created"
    );

    let answer = client.answered(raw(
        "chain",
        "first_number",
        "FP32",
        &[2],
        &floats(&[1.0, 2.0]),
    ));
    assert_eq!(answer.outputs[0].name, "last_number");
    assert_eq!(to_floats(&answer.raw_output_contents[0]), [4.0, 5.0]);

    for (body, expected) in [
        ("return [Tensor('one', b'')]", "one; "),
        ("return [Tensor('two', b'')]", "two; "),
        (
            "return [Tensor('two', b''), Tensor('one', b'')]",
            "one two; ",
        ),
    ] {
        let came = reported(&client, code("partly", body));
        assert!(came.contains(&format!("] {expected}")), "{body}: {came}");
    }
    assert_eq!(reported(&client, code("partly", "return []")), EMPTY);
    assert_eq!(
        reported(
            &client,
            code("incomplete", "return [Tensor('result', b'r')]")
        ),
        EMPTY
    );
    // In the order of the file, whatever the order of the list.
    assert_eq!(
        reported(
            &client,
            code(
                "incomplete",
                "return [Tensor('error_message', b'e'), Tensor('result', b'r')]"
            )
        ),
        "result UINT8 [1] r; error_message UINT8 [1] e"
    );
}

const INCREMENTER: &str = r#"
from pyovms import Tensor
import numpy as np

def increment(input):
    return np.array(input) + 1

class OvmsPythonModel:
    def initialize(self, kwargs):
        self.output_name = kwargs["output_names"][0]

    def execute(self, inputs):
        my_input = inputs[0]
        my_output = Tensor(self.output_name, increment(my_input))
        return [my_output]
"#;

/// Writes a handler that reports its file and the result of its helper.
fn with_helper(config: &Config, path: &str, says: &str) -> String {
    let path = Path::new(path);
    let folder = path.parent().unwrap().display();
    file(
        config,
        &format!("{folder}/helper.py"),
        &format!("SAYS = {says:?}\n"),
    );
    let text = format!(
        "from pyovms import Tensor\nimport helper\nclass OvmsPythonModel:\n  def execute(self, inputs):\n    import helper as late\n    return [Tensor('out', (helper.SAYS + late.SAYS + __file__[-len({:?}):]).encode())]\n",
        path.display().to_string()
    );
    file(config, &path.display().to_string(), &text)
        .display()
        .to_string()
}

#[test]
fn files_of_one_name_and_of_strange_names_live_together() {
    let mut config = Config::of(&[]);
    let paths = [
        "a/model.py",
        "b/model.py",
        "c/json.py",
        "d/numpy.py",
        "e/my-model.py",
        "f/model.v1.py",
        "g/os.py",
        "h/pyovms.py",
        "i/ünïcode näme.py",
    ];
    let mut inputs = Vec::new();
    for (place, path) in paths.iter().enumerate() {
        let handler = with_helper(&config, path, &format!("<{place}>"));
        let text = graph(
            "OVMS_PY_TENSOR:in",
            "OVMS_PY_TENSOR:out",
            &[python("n", "IN:in", "OUT:out", &handler, "")],
        );
        add(&mut config, &format!("alone{place}"), &text);
        inputs.push((place, path));
    }
    let server = config.serve();
    let client = Grpc::connect(&server);
    for _ in 0..2 {
        for (place, path) in &inputs {
            let answer = client.answered(raw(&format!("alone{place}"), "in", "UINT8", &[1], b"x"));
            let text = shown(&answer);
            assert!(
                text.ends_with(&format!(" <{place}><{place}>{path}")),
                "{text}"
            );
        }
    }
}

#[test]
fn errors_of_python_can_be_hidden() {
    let mut config = Config::of(&[]);
    add_python(&mut config, "py", CODE);
    let server = config.serve_with(&["--hide_python_errors"]);
    let client = Grpc::connect(&server);
    for body in [
        "raise ValueError('secret')",
        "return 5",
        "yield []",
        "return [Tensor('other', b'')]",
    ] {
        assert_eq!(
            reported(&client, code("py", body)),
            format!("InvalidArgument: {}", failed("py"))
        );
    }
    server.wait_log("secret");
}
