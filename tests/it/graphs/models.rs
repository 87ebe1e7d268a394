//! Models inside graphs, tensor converters, and the kinds of graph inputs and outputs.

use std::fs;

use ovms::proto::kserve::InferTensorContents;

use crate::support::{
    graphs::{PASS, add, file, graph, next, node, options, python, reported, rest, session, shown},
    grpc::{Grpc, floats, input, raw, to_floats, typed},
    pipelines::{Config, dl, status},
    streams::Talk,
};

/// Writes an inference node with these options.
fn inference(inputs: &str, outputs: &str, fields: &str) -> String {
    let fields = options("OpenVINOInferenceCalculatorOptions", fields);
    let rest = format!("input_side_packet: \"SESSION:session\"\n{fields}");
    node("OpenVINOInferenceCalculator", inputs, outputs, &rest)
}

/// Writes a converter node, with names for the tensors to Python.
fn converter(inputs: &str, outputs: &str, names: &[(&str, &str)]) -> String {
    let fields: String = names
        .iter()
        .map(|(tag, name)| {
            format!("tag_to_output_tensor_names {{ key: \"{tag}\" value: \"{name}\" }} ")
        })
        .collect();
    let options = options("PyTensorOvTensorConverterCalculatorOptions", &fields);
    node(
        "PyTensorOvTensorConverterCalculator",
        inputs,
        outputs,
        &options,
    )
}

/// Writes a graph around a session: one input and one output of a tag.
fn around(model: &str, tag: &str, fields: &str) -> String {
    let (input, output) = (format!("{tag}:x"), format!("{tag}:y"));
    graph(
        &input,
        &output,
        &[session(model), inference(&input, &output, fields)],
    )
}

const TEN: [f32; 10] = [1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, -1.0];

fn ten(graph: &str) -> ovms::proto::kserve::ModelInferRequest {
    raw(graph, "x", "FP32", &[1, 10], &floats(&TEN))
}

#[test]
fn models_and_pipelines_answer_inside_graphs() {
    let mut config = Config::of(&["dummy", "add", "passthrough_i8"]);
    let add_one = dl("node", "dummy", "b=request.b", "a=a");
    config.pipeline("pipeline", "b", &[add_one], "a=node.a");
    let mapped = "tag_to_input_tensor_names { key: \"OVTENSOR\" value: \"b\" } tag_to_output_tensor_names { key: \"OVTENSOR\" value: \"a\" }";
    add(&mut config, "single", &around("dummy", "OVTENSOR", ""));
    add(&mut config, "mapped", &around("dummy", "OVTENSOR", mapped));
    add(&mut config, "tensor", &around("dummy", "TENSOR", ""));
    add(&mut config, "tf", &around("dummy", "TFTENSOR", ""));
    add(&mut config, "dag", &around("pipeline", "OVTENSOR", mapped));
    add(&mut config, "missing", &around("stranger", "OVTENSOR", ""));
    let wrong = mapped.replace("\"b\"", "\"nothing\"");
    add(&mut config, "wrong", &around("dummy", "OVTENSOR", &wrong));
    let both = format!("{mapped} input_order_list: \"b\"");
    add(&mut config, "both", &around("dummy", "OVTENSOR", &both));
    // The same model twice, by the names of its ports.
    let chain = graph(
        "x",
        "y",
        &[
            session("dummy"),
            inference("B:x", "A:mid", ""),
            inference("B:mid", "A:y", ""),
        ],
    );
    add(&mut config, "chain", &chain);
    let server = config.serve();
    let client = Grpc::connect(&server);
    let plus = |by: f32| TEN.map(|number| number + by).to_vec();
    for (name, by) in [
        ("single", 1.0),
        ("mapped", 1.0),
        ("tensor", 1.0),
        ("tf", 1.0),
        ("dag", 1.0),
        ("chain", 2.0),
    ] {
        let answer = client
            .infer(ten(name))
            .unwrap_or_else(|status| panic!("{name}: {status}"));
        let output = &answer.outputs[0];
        assert_eq!(
            (
                output.name.as_str(),
                output.datatype.as_str(),
                &output.shape[..]
            ),
            ("y", "FP32", &[1, 10][..]),
            "{name}"
        );
        assert_eq!(
            to_floats(&answer.raw_output_contents[0]),
            plus(by),
            "{name}"
        );
        // And over a stream.
        let mut talk = Talk::open(&client);
        for _ in 0..3 {
            talk.send(ten(name));
            let response = talk.next().response();
            assert_eq!(
                to_floats(&response.raw_output_contents[0]),
                plus(by),
                "{name}"
            );
        }
        assert_eq!(rest(talk), ["end: Ok: "]);
    }
    let failed = |name: &str| reported(&client, ten(name));
    let missing = failed("missing");
    assert!(
        missing.starts_with("FailedPrecondition: Mediapipe graph precondition failed - "),
        "{missing}"
    );
    assert!(
        missing.contains("OpenVINOModelServerSessionCalculator failed to load the model"),
        "{missing}"
    );
    let wrong = failed("wrong");
    assert!(
        wrong.starts_with("InvalidArgument: Mediapipe execution failed. MP status - "),
        "{wrong}"
    );
    assert_eq!(status(&server, "both"), "LOADING FAILED_PRECONDITION");
    // An error of the model is an error of the node, and of no other request.
    for bad in [
        raw("single", "x", "FP32", &[1, 9], &floats(&TEN[..9])),
        raw("single", "x", "INT32", &[1, 10], &[0; 40]),
    ] {
        let came = reported(&client, bad);
        assert!(came.starts_with("InvalidArgument: Mediapipe execution failed. MP status - INTERNAL: CalculatorGraph::Run() failed: \nCalculator::Process() for node \"OpenVINOInferenceCalculator\" failed: "), "{came}");
        client.answered(ten("single"));
    }
    // The model leaves while a stream to the graph is open.
    let mut talk = Talk::open(&client);
    talk.send(ten("single"));
    talk.next().response();
    config.remove("model_config_list", "dummy");
    config.reload(&server);
    talk.send(ten("single"));
    let came = next(&mut talk);
    assert!(
        came.starts_with("end: InvalidArgument: Mediapipe execution failed.")
            || came.starts_with("end: FailedPrecondition: ")
            || came.starts_with("0: ")
            || came.starts_with("1: "),
        "{came}"
    );
    let came = failed("single");
    assert!(
        came.starts_with("FailedPrecondition: Mediapipe graph precondition failed - ")
            || came.starts_with("InvalidArgument: "),
        "{came}"
    );
}

/// A handler that returns its input, doubled, as `out`.
const DOUBLE: &str = r#"
import numpy as np
from pyovms import Tensor
class OvmsPythonModel:
    def initialize(self, kwargs):
        self.outputs = kwargs["output_names"]
    def execute(self, inputs):
        return [Tensor(name, np.asarray(t) * np.float32(2)) for name, t in zip(self.outputs, inputs)]
"#;

#[test]
fn python_nodes_and_models_meet_through_converters() {
    let mut config = Config::of(&["dummy"]);
    let text = graph(
        "OVMS_PY_TENSOR:x",
        "OVMS_PY_TENSOR:y",
        &[
            session("dummy"),
            python(
                "PythonPreprocess",
                "INPUT:x",
                "OUTPUT:pre_py",
                "double.py",
                "",
            ),
            converter("OVMS_PY_TENSOR:pre_py", "OVTENSOR:pre_ov", &[]),
            inference("OVTENSOR:pre_ov", "OVTENSOR:result_ov", ""),
            converter(
                "OVTENSOR:result_ov",
                "OVMS_PY_TENSOR:result_py",
                &[("OVMS_PY_TENSOR", "result_py"), ("EXTRA", "ignored")],
            ),
            python(
                "PythonPostprocess",
                "INPUT:result_py",
                "OUTPUT:y",
                "double.py",
                "",
            ),
        ],
    );
    add(&mut config, "g", &text);
    file(&config, "g/double.py", DOUBLE);
    // Several pairs in both directions.
    let pairs = graph(
        "OVMS_PY_TENSOR_A:a OVTENSOR_B:b OVTENSOR_C:c",
        "OVTENSOR_A:d OVMS_PY_TENSOR_B:e OVMS_PY_TENSOR_C:f",
        &[converter(
            "OVTENSOR_C:c OVMS_PY_TENSOR_A:a OVTENSOR_B:b",
            "OVTENSOR_A:d OVMS_PY_TENSOR_C:f OVMS_PY_TENSOR_B:e",
            &[("OVMS_PY_TENSOR_B", "e"), ("OVMS_PY_TENSOR_C", "f")],
        )],
    );
    add(&mut config, "pairs", &pairs);
    let one = |from: &str, to: &str, names: &[(&str, &str)]| {
        graph(
            &format!("{from}:x"),
            &format!("{to}:y"),
            &[converter(&format!("{from}:x"), &format!("{to}:y"), names)],
        )
    };
    add(
        &mut config,
        "to_ov",
        &one("OVMS_PY_TENSOR", "OVTENSOR", &[]),
    );
    add(
        &mut config,
        "to_py",
        &one("OVTENSOR", "OVMS_PY_TENSOR", &[("OVMS_PY_TENSOR", "y")]),
    );
    let errors = [
        ("no_name", one("OVTENSOR", "OVMS_PY_TENSOR", &[])),
        ("same", one("OVTENSOR", "OVTENSOR", &[])),
        (
            "unpaired",
            one(
                "OVTENSOR_A",
                "OVMS_PY_TENSOR_B",
                &[("OVMS_PY_TENSOR_B", "y")],
            ),
        ),
        (
            "tag",
            one("IMAGE", "OVMS_PY_TENSOR", &[("OVMS_PY_TENSOR", "y")]),
        ),
    ];
    for (name, text) in &errors {
        add(&mut config, name, text);
    }
    let server = config.serve();
    let client = Grpc::connect(&server);
    let answer = client.answered(ten("g"));
    let expected = TEN.map(|number| (number * 2.0 + 1.0) * 2.0);
    assert_eq!(to_floats(&answer.raw_output_contents[0]), expected);
    let mut ask = raw("pairs", "a", "INT8", &[1], b"a");
    for (name, datatype) in [("b", "UINT8"), ("c", "INT8")] {
        ask.inputs.push(input(name, datatype, &[1]));
        ask.raw_input_contents.push(name.as_bytes().to_vec().into());
    }
    assert_eq!(
        reported(&client, ask),
        "d INT8 [1] a; e UINT8 [1] b; f INT8 [1] c"
    );
    for (name, _) in &errors {
        assert_eq!(
            status(&server, name),
            "LOADING FAILED_PRECONDITION",
            "{name}"
        );
        server.wait_log(&format!(
            "Mediapipe graph: {name} initialization failed with message: "
        ));
    }
    for (datatype, size) in [
        ("BOOL", 1),
        ("UINT8", 1),
        ("INT8", 1),
        ("UINT16", 2),
        ("INT16", 2),
        ("FP16", 2),
        ("UINT32", 4),
        ("INT32", 4),
        ("FP32", 4),
        ("UINT64", 8),
        ("INT64", 8),
        ("FP64", 8),
    ] {
        for name in ["to_ov", "to_py"] {
            let data = vec![1; 2 * size];
            let answer = client.infer(raw(name, "x", datatype, &[1, 2], &data));
            let answer = answer.unwrap_or_else(|status| panic!("{name} {datatype}: {status}"));
            assert_eq!(answer.outputs[0].datatype, datatype);
            assert_eq!(answer.outputs[0].shape, [1, 2]);
            assert_eq!(answer.raw_output_contents[0], data);
        }
    }
    let error = "InvalidArgument: Mediapipe execution failed. MP status - INVALID_ARGUMENT: CalculatorGraph::Run() failed: \nCalculator::Process() for node \"PyTensorOvTensorConverterCalculator\" failed: ";
    for (datatype, shape, text) in [
        (
            "mine",
            &[1_i64][..],
            "Undefined precision in input python tensor: mine",
        ),
        (
            "BYTES",
            &[1],
            "Undefined precision in input python tensor: BYTES",
        ),
    ] {
        let came = reported(&client, raw("to_ov", "x", datatype, shape, b"abc"));
        assert!(came.starts_with(error) && came.contains(text), "{came}");
    }
}

#[test]
fn inputs_and_outputs_are_of_the_kinds_that_their_tags_say() {
    let mut config = Config::of(&[]);
    for tag in [
        "",
        "OTHER:",
        "OVTENSOR:",
        "OVTENSOR_X:",
        "TENSOR:",
        "TENSOR_A:",
        "TFTENSOR:",
        "IMAGE:",
        "OVMS_PY_TENSOR:",
    ] {
        let name = if tag.is_empty() {
            "untagged"
        } else {
            tag.trim_end_matches(':')
        };
        let text = graph(
            &format!("{tag}in"),
            &format!("{tag}out"),
            &[node(
                "PassThroughCalculator",
                &format!("{tag}in"),
                &format!("{tag}out"),
                "",
            )],
        );
        add(&mut config, &name.to_lowercase(), &text);
    }
    add(
        &mut config,
        "request",
        &graph(
            "REQUEST:in",
            "RESPONSE:out",
            &[node(
                "PassThroughCalculator",
                "REQUEST:in",
                "RESPONSE:out",
                "",
            )],
        ),
    );
    add(
        &mut config,
        "no_response",
        &PASS.replacen("OVTENSOR:in", "REQUEST:in", 1),
    );
    add(
        &mut config,
        "no_request",
        &PASS.replacen("OVTENSOR:out", "RESPONSE:out", 1),
    );
    add(
        &mut config,
        "lite",
        &PASS.replace("OVTENSOR", "TFLITE_TENSOR"),
    );
    let server = config.serve();
    let client = Grpc::connect(&server);
    let ask = |graph: &str, datatype: &str, shape: &[i64], data: &[u8]| {
        reported(&client, raw(graph, "in", datatype, shape, data))
    };
    for graph in [
        "untagged",
        "other",
        "ovtensor",
        "ovtensor_x",
        "tftensor",
        "ovms_py_tensor",
    ] {
        assert_eq!(
            ask(graph, "UINT16", &[1, 2], b"abcd"),
            "out UINT16 [1, 2] abcd",
            "{graph}"
        );
        assert_eq!(
            ask(graph, "FP64", &[], b"abcdefgh"),
            "out FP64 [] abcdefgh",
            "{graph}"
        );
        assert_eq!(
            ask(graph, "INT8", &[3, 0], b""),
            "out INT8 [3, 0] ",
            "{graph}"
        );
        let ints = InferTensorContents {
            int_contents: vec![97, 98],
            ..Default::default()
        };
        assert_eq!(
            reported(&client, typed(graph, "in", "INT8", &[2], ints)),
            "out INT8 [2] ab",
            "{graph}"
        );
    }
    for graph in ["untagged", "ovtensor", "tensor", "tftensor"] {
        let came = ask(graph, "FP32", &[1, -1], &[0; 4]);
        assert!(
            came.starts_with(
                "InvalidArgument: Invalid input shape - Negative dimension size is not acceptable: "
            ),
            "{graph}: {came}"
        );
        assert!(came.ends_with("; input name: in"), "{graph}: {came}");
        assert_eq!(
            ask(graph, "FP32", &[2], b"abc"),
            "InvalidArgument: Invalid content size of tensor proto - Expected: 8 bytes; Actual: 3 bytes; input name: in",
            "{graph}"
        );
        let came = ask(graph, "strange", &[1], b"a");
        assert!(came.starts_with("InvalidArgument: "), "{graph}: {came}");
    }
    for datatype in ["FP32", "INT32"] {
        assert_eq!(
            ask("tensor", datatype, &[1], b"abcd"),
            format!("out {datatype} [1] abcd")
        );
    }
    let came = ask("tensor", "FP64", &[1], b"abcdefgh");
    assert!(
        came.starts_with("InvalidArgument: Invalid input precision - Not supported precision for "),
        "{came}"
    );
    let came = ask("tensor", "FP32", &[0, 1], b"");
    assert!(
        came.starts_with("InvalidArgument: Invalid input shape - "),
        "{came}"
    );
    // Images.
    assert_eq!(
        ask("image", "UINT8", &[1, 2, 3], b"abcdef"),
        "out UINT8 [1, 2, 3] abcdef"
    );
    assert_eq!(
        ask("image", "UINT8", &[2, 2, 1], b"abcd"),
        "out UINT8 [2, 2, 1] abcd"
    );
    assert_eq!(
        ask("image", "FP32", &[1, 1, 2], b"abcdefgh"),
        "out FP32 [1, 1, 2] abcdefgh"
    );
    assert_eq!(
        ask("image", "UINT8", &[1, 6], b"abcdef"),
        "InvalidArgument: Invalid input shape - Invalid Mediapipe Image input shape size. Expected: 3; Actual: 2"
    );
    assert_eq!(
        ask("image", "UINT8", &[1, 3, 3], b"abcdef"),
        "InvalidArgument: Invalid content size of tensor proto - Invalid Mediapipe Image input buffer size. Actual: 6; Expected: 9"
    );
    for (datatype, channels) in [("UINT8", 2), ("FP32", 3), ("FP64", 1), ("BOOL", 1)] {
        let came = ask("image", datatype, &[1, 1, channels], b"a");
        assert!(
            came.starts_with("InvalidArgument: "),
            "{datatype} {channels}: {came}"
        );
    }
    let ints = InferTensorContents {
        uint_contents: vec![1],
        ..Default::default()
    };
    let came = reported(&client, typed("image", "in", "UINT8", &[1, 1, 1], ints));
    assert!(
        came.starts_with("InvalidArgument: Mediapipe execution failed. MP status"),
        "{came}"
    );
    // Whole requests cannot be passed through as responses; that is said when it is loaded.
    for (name, text) in [
        (
            "no_response",
            "takes whole requests, but no output has the tag RESPONSE",
        ),
        ("no_request", "REQUEST"),
        ("lite", "TFLITE_TENSOR"),
    ] {
        assert_eq!(
            status(&server, name),
            "LOADING FAILED_PRECONDITION",
            "{name}"
        );
        let log = server.log();
        let mut lines = log.lines();
        let reported = |line: &str| line.contains(&format!("/{name}/")) && line.contains(text);
        assert!(lines.any(reported), "{name}: `{text}`");
    }
}

#[test]
fn the_examples_are_loaded_from_their_own_file() {
    let server = crate::support::Server::of_file(
        &crate::support::fixture("graphs/config.json"),
        &["--file_system_poll_wait_seconds", "0"],
    );
    server.wait_ready();
    let client = Grpc::connect(&server);
    for name in ["text", "classify", "streamer", "tracker"] {
        assert_eq!(status(&server, name), "AVAILABLE OK", "{name}");
    }
    // An image of one colour is of some class, whatever its size.
    let answer = client.answered(raw("classify", "image", "UINT8", &[8, 5, 3], &[200; 120]));
    // Its length stands before it, in four bytes.
    let label = String::from_utf8_lossy(&answer.raw_output_contents[0][4..]).into_owned();
    let labels = fs::read_to_string(crate::support::fixture("graphs/classify/labels.txt")).unwrap();
    assert!(
        labels.split_whitespace().any(|known| known == label),
        "{}",
        shown(&answer)
    );
    let came = reported(
        &client,
        raw("classify", "image", "UINT8", &[8, 5], &[0; 40]),
    );
    assert!(
        came.contains("ValueError: image: expected height x width x 3, got (8, 5)"),
        "{came}"
    );
}
