//! Model files of every format are served, each computing b + 1.

use crate::support::{
    grpc::{Grpc, floats, raw, to_floats},
    http::get,
    pipelines::Config,
};

/// Models in each format: IR, ONNX, a frozen graph and a saved model of TensorFlow, its Lite, and Paddle.
const MODELS: [(&str, &str, &str); 6] = [
    ("dummy", "b", "a"),
    ("dummy_onnx", "b", "a"),
    ("dummy_tf", "b:0", "a:0"),
    ("dummy_savedmodel", "b", "a"),
    ("dummy_tflite", "b", "a"),
    ("dummy_paddle", "b", "a"),
];

#[test]
fn models_of_every_format_are_served() {
    let server = Config::of(&MODELS.map(|(model, ..)| model)).serve();
    let client = Grpc::connect(&server);
    for (model, input, output) in MODELS {
        let metadata = get(&server, &format!("/v2/models/{model}")).json();
        assert_eq!(metadata["inputs"][0]["name"], input, "{model}");
        assert_eq!(metadata["inputs"][0]["shape"], serde_json::json!([1, 10]));
        assert_eq!(metadata["outputs"][0]["name"], output, "{model}");
        let b: [f32; 10] = [0.0, 1.0, -1.0, 0.5, 1e6, -1e-6, 3.25, 7.0, 8.0, 9.0];
        let answer = client.answered(raw(model, input, "FP32", &[1, 10], &floats(&b)));
        assert_eq!(answer.outputs[0].shape, [1, 10]);
        assert_eq!(
            to_floats(&answer.raw_output_contents[0]),
            b.map(|value| value + 1.0),
            "{model}"
        );
    }
}
