//! Pipelines with Python nodes: their inputs, outputs and exceptions.

use std::fs;

use serde_json::{Value, json};

use crate::support::{
    Server, cli,
    grpc::{self, Grpc},
    http::{get, post},
    pipelines::{Config, custom, dl, infer, lines, reported, request, status, ten, with},
};

/// A handler whose behaviour is set by the params of its node.
pub(crate) const STEPS: &str = include_str!("../support/steps_python.py");

/// Creates a file with the model `dummy` and the library `py`, a handler beside the file.
pub(crate) fn config() -> Config {
    let mut config = Config::of(&["dummy"]);
    let path = config.beside("steps.py");
    fs::write(&path, STEPS).unwrap();
    config.library_at("py", &path);
    config
}

/// Writes a Python node with a behaviour.
pub(crate) fn py(name: &str, does: &str, inputs: &str, outputs: &str) -> Value {
    custom(name, "py", &json!({"do": does}), inputs, outputs)
}

/// Writes a Python node that multiplies.
pub(crate) fn scale(name: &str, by: &str, inputs: &str, outputs: &str) -> Value {
    let params = json!({"do": "scale", "by": by});
    custom(name, "py", &params, inputs, outputs)
}

#[test]
fn python_before_and_after_a_model() {
    let mut config = config();
    let nodes = [
        py("before", "bytes_to_floats", "pixels=request.x", "floats=o"),
        dl("model", "dummy", "b=before.o", "a=o"),
        scale("after", "10", "in=model.o", "out=o"),
    ];
    config.pipeline("p", "x", &nodes, "y=after.o");
    let server = config.serve();
    let client = Grpc::connect(&server);
    let answer = client.answered(grpc::raw("p", "x", "UINT8", &[1, 10], &[4; 10]));
    assert_eq!(reported(&answer), "y [1,10] 50");
    let log = config.beside("log");
    assert_eq!(
        lines(&log, "initialize"),
        [
            "initialize before pixels floats [('do', 'bytes_to_floats')]",
            "initialize after in out [('by', '10'), ('do', 'scale')]",
        ]
    );

    // The input of the model is validated when it is there.
    let asked = grpc::raw("p", "x", "UINT8", &[1, 3], &[4; 3]);
    assert_eq!(
        client.refused(asked),
        "InvalidArgument: Invalid input shape - Node: model input: b Invalid shape - Expected: \
         (1,10); Actual: (1,3)"
    );
    drop(server);
    assert_eq!(lines(&log, "initialize").len(), 2);
}

#[test]
fn metadata_leave_open_what_only_python_takes_and_gives() {
    let mut config = config();
    let nodes = [
        py("n", "same", "in=request.x", "out=o"),
        dl("model", "dummy", "b=request.z", "a=o"),
        py("both", "two", "a=request.z b=model.o", "a=o"),
    ];
    config.pipeline("p", "x z", &nodes, "y=n.o w=both.o");
    let server = config.serve();
    let client = Grpc::connect(&server);
    let asked = ovms::proto::kserve::ModelMetadataRequest {
        name: "p".to_owned(),
        version: String::new(),
    };
    let mut kserve = client.client.clone();
    let reported = client.wait(async move { kserve.model_metadata(asked).await });
    let reported = reported.unwrap();
    let shown = |name: &str, datatype: &str, shape: &[i64]| {
        (name.to_owned(), datatype.to_owned(), shape.to_vec())
    };
    let inputs: Vec<_> = reported
        .inputs
        .into_iter()
        .map(|it| (it.name, it.datatype, it.shape))
        .collect();
    // The model says what it takes, for all who take it.
    assert_eq!(
        inputs,
        [shown("x", "UNDEFINED", &[]), shown("z", "FP32", &[1, 10])]
    );
    let outputs: Vec<_> = reported
        .outputs
        .into_iter()
        .map(|it| (it.name, it.datatype, it.shape))
        .collect();
    assert_eq!(
        outputs,
        [shown("w", "UNDEFINED", &[]), shown("y", "UNDEFINED", &[])]
    );
    let rest = get(&server, "/v2/models/p").json();
    assert_eq!(
        rest["inputs"][0],
        json!({"name": "x", "datatype": "UNDEFINED", "shape": []})
    );
    let rest = get(&server, "/v1/models/p/metadata").json();
    let signature = &rest["metadata"]["signature_def"]["signatureDef"]["serving_default"];
    assert_eq!(signature["inputs"]["x"]["dtype"], "DT_INVALID");
    assert_eq!(signature["outputs"]["y"]["dtype"], "DT_INVALID");
}

#[test]
fn requests_bring_types_and_shapes_of_every_kind() {
    let mut config = config();
    config.pipeline(
        "p",
        "x",
        &[py("n", "same", "in=request.x", "out=o")],
        "y=n.o",
    );
    let server = config.serve();
    let client = Grpc::connect(&server);
    let strings = b"\x03\0\0\0abc\0\0\0\0";
    for (datatype, shape, data) in [
        ("BOOL", &[2][..], &[1, 0][..]),
        ("INT64", &[1, 1], &[7; 8]),
        ("FP16", &[2], &[0, 60, 0, 64]),
        ("BF16", &[2], &[128, 63, 0, 64]),
        ("FP64", &[], &[0; 8]),
        ("UINT8", &[0, 3], &[]),
        ("BYTES", &[2], strings),
    ] {
        let answer = client.answered(grpc::raw("p", "x", datatype, shape, data));
        let output = &answer.outputs[0];
        assert_eq!(
            (output.datatype.as_str(), &output.shape[..]),
            (datatype, shape)
        );
        assert_eq!(answer.raw_output_contents[0], data, "{datatype}");
    }
    let body = br#"{"inputs":[{"name":"x","shape":[3],"datatype":"INT32","data":[1,2,3]}]}"#;
    let answer = post(&server, "/v2/models/p/infer", body).json();
    assert_eq!(
        answer["outputs"],
        json!([{"name": "y", "shape": [3], "datatype": "INT32", "data": [1, 2, 3]}])
    );
}

#[test]
fn inputs_come_sorted_by_name() {
    let mut config = config();
    let node = py("n", "tell", "beta=request.x alpha=request.z", "out=o");
    config.pipeline("p", "x z", &[node], "y=n.o");
    let server = config.serve();
    let client = Grpc::connect(&server);
    let asked = request("p", &[("x", &[1], &[1.0]), ("z", &[1], &[2.0])]);
    assert_eq!(infer(&client, asked), "y [1] 2");
    let log = config.beside("log");
    assert_eq!(
        fs::read_to_string(log).unwrap().lines().collect::<Vec<_>>(),
        [
            "initialize n beta,alpha out [('do', 'tell')]",
            r"alpha FP32 (1,) b'\x00\x00\x00@'",
            r"beta FP32 (1,) b'\x00\x00\x80?'",
        ]
    );
}

#[test]
fn parts_go_out_of_and_into_python() {
    let mut config = config();
    let nodes = [
        with(
            scale("split", "2", "in=request.x", "out=o"),
            "demultiply_count",
            -1,
        ),
        dl("each", "dummy", "b=split.o", "a=o"),
        scale("part", "10", "in=each.o", "out=o"),
        with(
            scale("all", "100", "in=part.o", "out=o"),
            "gather_from_node",
            "split",
        ),
    ];
    config.pipeline("p", "x", &nodes, "y=all.o");
    config.pipeline("open", "x", &nodes[..3], "y=part.o");
    let server = config.serve();
    let client = Grpc::connect(&server);
    let rows = [[1.0_f32; 10], [2.0; 10], [3.0; 10]].concat();
    let asked = |name: &str| request(name, &[("x", &[3, 1, 10], &rows)]);
    assert_eq!(infer(&client, asked("p")), "y [3,1,10] 3000 5000 7000");
    assert_eq!(infer(&client, asked("open")), "y [3,1,10] 30 50 70");
    assert_eq!(
        infer(&client, request("p", &[("x", &[10], &[1.0; 10])])),
        "Internal: Wrong number of dimensions in a tensor to be sharded - Node: split output: out; \
         Expected: at least 2; Actual: (10)"
    );
}

#[test]
fn connections_convert_what_python_gives() {
    let mut config = config();
    let mut model = dl("model", "dummy", "b=n.o", "a=o");
    model["inputs"][0]["b"]["convert"] = true.into();
    let plain = dl("model", "dummy", "b=n.o", "a=o");
    for (name, model) in [("p", model), ("plain", plain)] {
        let node = py("n", "same", "in=request.x", "out=o");
        config.pipeline(name, "x", &[node, model], "y=model.o");
    }
    let server = config.serve();
    let client = Grpc::connect(&server);
    let asked = |name: &str| grpc::raw(name, "x", "UINT8", &[1, 10], &[4; 10]);
    assert_eq!(infer(&client, asked("p")), "y [1,10] 5");
    assert_eq!(
        client.refused(asked("plain")),
        "InvalidArgument: Invalid input precision - Node: model input: b Invalid precision - \
         Expected: FP32; Actual: U8"
    );
}

/// Behaviours of a node, their errors, and the text after the name of the node.
const ERRORS: [(&str, &str, &str); 12] = [
    (
        "broken",
        "Custom node failed during execution",
        " - ValueError: no luck",
    ),
    (
        "nothing",
        "Custom node failed during execution",
        " - TypeError: execute must return a list of pyovms.Tensor or a generator; it returned NoneType",
    ),
    (
        "lazy",
        "Custom node failed during execution",
        " - execute gave a generator; in a pipeline it returns a list of pyovms.Tensor, since there \
         is one response",
    ),
    (
        "numbers",
        "Custom node failed during execution",
        " - TypeError: execute must return a list of pyovms.Tensor; element 0 of the list is int",
    ),
    (
        "missing",
        "Custom node output is missing",
        " output: out; Actual: none",
    ),
    (
        "stranger",
        "Custom node output is unknown",
        " output: stranger; Expected: one of: out",
    ),
    (
        "twice",
        "Custom node output is not unique",
        " output: out; Expected: one tensor; Actual: several",
    ),
    (
        "odd_type",
        "Custom node has produced tensor with unspecified precision",
        " output: out; Expected: one of: BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, \
         UINT64, FP16, BF16, FP32, FP64, BYTES; Actual: COMPLEX",
    ),
    (
        "odd_size",
        "Custom node output has invalid content size",
        " output: out; Expected: 8 bytes for FP32 (2); Actual: 4 bytes",
    ),
    (
        "odd_shape",
        "Custom node output has invalid shape",
        " output: out; Expected: lengths of 0 or more; Actual: (-1)",
    ),
    (
        "odd_strings",
        "Custom node output has invalid content size",
        " output: out; Expected: strings, each behind its length in 4 bytes; Actual: the string at \
         byte 0 does not end within the 7 bytes given",
    ),
    (
        "few_strings",
        "Custom node output has invalid content size",
        " output: out; Expected: as many strings as (2) has; Actual: 1",
    ),
];

fn faulty() -> Config {
    let mut config = config();
    for (does, ..) in ERRORS {
        config.pipeline(
            does,
            "x",
            &[py("n", does, "in=request.x", "out=o")],
            "y=n.o",
        );
    }
    config
}

#[test]
fn errors_of_python_are_reported() {
    let mut config = faulty();
    let split = with(
        scale("split", "1", "in=request.x", "out=o"),
        "demultiply_count",
        -1,
    );
    let nodes = [split, py("n", "broken", "in=split.o", "out=o")];
    config.pipeline("parts", "x", &nodes, "y=n.o");
    let server = config.serve();
    let client = Grpc::connect(&server);
    for (does, status, rest) in ERRORS {
        let expected = format!("Internal: {status} - Node: n{rest}");
        assert_eq!(infer(&client, ten(does, 1.0)), expected, "{does}");
    }
    assert_eq!(
        infer(&client, ten("parts", 1.0)),
        "Internal: Custom node failed during execution - Node: n - ValueError: no luck; shard: \
         split_0"
    );
    server.wait_log(", in broken");
}

#[test]
fn clients_are_not_reported_errors_of_python_if_they_are_hidden() {
    let server = faulty().serve_with(&["--hide_python_errors"]);
    let client = Grpc::connect(&server);
    for (does, status, _) in ERRORS {
        let expected = format!("Internal: {status} - Node: n");
        assert_eq!(infer(&client, ten(does, 1.0)), expected, "{does}");
    }
    server.wait_log(", in broken");
    server.wait_log("Expected: 8 bytes for FP32 (2); Actual: 4 bytes");
}

#[test]
fn handlers_that_do_not_load_are_errors_of_the_pipeline() {
    let mut config = config();
    let bad = config.beside("bad.py");
    fs::write(&bad, "class Other:\n    pass\n").unwrap();
    config.library_at("bad", &bad);
    config.library_at("gone", &config.beside("gone.py"));
    let node = |library: &str, does: &str| {
        custom("n", library, &json!({"do": does}), "in=request.x", "out=o")
    };
    for (name, node) in [
        ("fails", node("py", "fail")),
        ("bad", node("bad", "")),
        ("gone", node("gone", "")),
    ] {
        config.pipeline(name, "x", &[node], "y=n.o");
    }
    config.pipeline("good", "x", &[node("py", "same")], "y=n.o");
    let server = config.serve();
    let client = Grpc::connect(&server);
    for name in ["fails", "bad", "gone"] {
        assert_eq!(status(&server, name), "LOADING FAILED_PRECONDITION");
    }
    let log = server.log();
    for text in [
        "Failure during custom node library initialization - node `n`: found Error during python \
         node initialization",
        "RuntimeError: it does not want to; expected a handler that loads",
        "No OvmsPythonModel class found in",
        "Pipeline refers to incorrect library - node `n`: found the library `gone`",
        "gone.py: No such file or directory",
    ] {
        assert!(log.contains(text), "{text} in {log}");
    }
    assert_eq!(infer(&client, ten("good", 3.0)), "y [1,10] 3");
    // One object was made that failed, and one that did not.
    let log = config.beside("log");
    assert_eq!(lines(&log, "initialize").len(), 2);
    assert_eq!(lines(&log, "finalize"), ["finalize n"]);
}

#[test]
fn pipelines_with_python_are_checked_shown_and_run() {
    let mut config = config();
    let nodes = [
        py("before", "bytes_to_floats", "in=request.x", "out=o"),
        dl("model", "dummy", "b=before.o", "a=o"),
        scale("after", "10", "in=model.o", "out=o"),
    ];
    config.pipeline("p", "x", &nodes, "y=after.o");
    let path = config.write();
    let path = path.to_str().unwrap();
    let log = config.beside("log");

    let unchecked = cli::ovms(["pipeline", "check", path, "--no-custom-nodes"]);
    assert_eq!(unchecked.code, Some(2), "{}", unchecked.text());
    let shown = cli::ovms(["pipeline", "show", path, "--no-custom-nodes"]);
    assert!(shown.text().contains("Python node py"), "{}", shown.text());
    assert!(!log.exists(), "no handler has run");

    let checked = cli::ovms(["pipeline", "check", path]);
    assert_eq!(checked.code, Some(0), "{}", checked.text());
    assert_eq!(lines(&log, "finalize").len(), 2);
    let shown = cli::ovms(["pipeline", "show", path]);
    for text in ["Python node py", "any type", "FP32 (1,10)"] {
        assert!(shown.text().contains(text), "{text} in {}", shown.text());
    }

    fs::remove_file(&log).unwrap();
    let input = "x:UINT8=[[1,2,3,4,5,6,7,8,9,10]]";
    let ran = cli::ovms(["pipeline", "run", path, "p", "-i", input]);
    assert_eq!(ran.code, Some(0), "{} {}", ran.text(), ran.failure());
    assert_eq!(lines(&log, "initialize").len(), 2);
    assert_eq!(lines(&log, "finalize").len(), 2);

    // Errors that only the object itself has.
    let node = py("n", "fail", "in=request.x", "out=o");
    config.pipeline("q", "x", &[node], "y=n.o");
    config.write();
    let checked = cli::ovms(["pipeline", "check", path, "q"]);
    assert_eq!(checked.code, Some(1));
    assert!(
        checked.text().contains("RuntimeError: it does not want to"),
        "{}",
        checked.text()
    );
}

/// Stops the server, so that its handlers end.
pub(crate) fn stopped(mut server: Server) {
    server.signal("TERM");
    assert!(server.wait().success());
}
