//! Model files of every format are served, each computing b + 1.

use crate::support::{
    Server,
    grpc::{Grpc, floats, raw, to_floats},
    http::get,
};

/// Serves a model and checks its result, and the names of its tensors.
fn adds_one(model: &str, input: &str, output: &str) {
    let server = Server::start(model);
    let metadata = get(&server, &format!("/v2/models/{model}")).json();
    assert_eq!(metadata["inputs"][0]["name"], input);
    assert_eq!(metadata["inputs"][0]["shape"], serde_json::json!([1, 10]));
    assert_eq!(metadata["outputs"][0]["name"], output);
    let b: [f32; 10] = [0.0, 1.0, -1.0, 0.5, 1e6, -1e-6, 3.25, 7.0, 8.0, 9.0];
    let request = raw(model, input, "FP32", &[1, 10], &floats(&b));
    let answer = Grpc::connect(&server).answered(request);
    assert_eq!(answer.outputs[0].shape, [1, 10]);
    assert_eq!(
        to_floats(&answer.raw_output_contents[0]),
        b.map(|value| value + 1.0)
    );
}

#[test]
fn openvino_ir() {
    adds_one("dummy", "b", "a");
}

#[test]
fn onnx() {
    adds_one("dummy_onnx", "b", "a");
}

#[test]
fn tensorflow_frozen_graph() {
    adds_one("dummy_tf", "b:0", "a:0");
}

#[test]
fn tensorflow_saved_model() {
    adds_one("dummy_savedmodel", "b", "a");
}

#[test]
fn tensorflow_lite() {
    adds_one("dummy_tflite", "b", "a");
}

#[test]
fn paddle() {
    adds_one("dummy_paddle", "b", "a");
}
