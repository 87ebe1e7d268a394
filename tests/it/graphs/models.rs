//! Models inside graphs, over streams and in the examples; the rest is in the sheet `models`.

use std::fs;

use crate::support::{
    graphs::{add, examples, graph, next, node, options, reported, rest, session, shown},
    grpc::{Grpc, floats, raw, to_floats},
    pipelines::{Config, dl, status},
    streams::Talk,
};

/// Writes an inference node with these options.
fn inference(inputs: &str, outputs: &str, fields: &str) -> String {
    let fields = options("OpenVINOInferenceCalculatorOptions", fields);
    let rest = format!("input_side_packet: \"SESSION:session\"\n{fields}");
    node("OpenVINOInferenceCalculator", inputs, outputs, &rest)
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
fn streams_go_through_models_and_pipelines_until_those_leave() {
    let mut config = Config::of(&["dummy"]);
    let add_one = dl("node", "dummy", "b=request.b", "a=a");
    config.pipeline("pipeline", "b", &[add_one], "a=node.a");
    let mapped = "tag_to_input_tensor_names { key: \"OVTENSOR\" value: \"b\" } tag_to_output_tensor_names { key: \"OVTENSOR\" value: \"a\" }";
    for (name, tag, fields) in [
        ("single", "OVTENSOR", ""),
        ("tensor", "TENSOR", ""),
        ("tf", "TFTENSOR", ""),
    ] {
        add(&mut config, name, &around("dummy", tag, fields));
    }
    add(&mut config, "dag", &around("pipeline", "OVTENSOR", mapped));
    // The same model twice, by the names of its ports.
    let chain = [
        session("dummy"),
        inference("B:x", "A:mid", ""),
        inference("B:mid", "A:y", ""),
    ];
    add(&mut config, "chain", &graph("x", "y", &chain));
    let server = config.serve();
    let client = Grpc::connect(&server);
    for (name, by) in [
        ("single", 1.0),
        ("tensor", 1.0),
        ("tf", 1.0),
        ("dag", 1.0),
        ("chain", 2.0),
    ] {
        let mut talk = Talk::open(&client);
        for _ in 0..3 {
            talk.send(ten(name));
            let came = to_floats(&talk.next().response().raw_output_contents[0]);
            assert_eq!(came, TEN.map(|number| number + by), "{name}");
        }
        assert_eq!(rest(talk), ["end: Ok: "]);
    }
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
    let came = reported(&client, ten("single"));
    assert!(
        came.starts_with("FailedPrecondition: Mediapipe graph precondition failed - ")
            || came.starts_with("InvalidArgument: "),
        "{came}"
    );
}

#[test]
fn the_examples_are_loaded_from_their_own_file() {
    let server = examples();
    let client = Grpc::connect(server);
    for name in ["text", "classify", "streamer", "tracker"] {
        assert_eq!(status(server, name), "AVAILABLE OK", "{name}");
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
