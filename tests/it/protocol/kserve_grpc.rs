//! KServe v2 over gRPC: responses to valid requests.

use std::sync::LazyLock;

use ovms::proto::kserve::ModelInferRequest;
use serde_json::json;
use tonic::codec::CompressionEncoding;

use crate::support::{
    Server,
    grpc::{Grpc, dummy, floats, raw, to_floats},
    pipelines::Config,
};

/// A server of models with two slots each, one of them with outputs of one large shape.
static TWO_SLOTS: LazyLock<Server> = LazyLock::new(|| {
    let mut config = Config::of(&["passthrough_f32", "two_outputs"]);
    for model in config.json["model_config_list"].as_array_mut().unwrap() {
        model["config"]["nireq"] = json!(2);
    }
    config.json["model_config_list"][0]["config"]["shape"] = json!("(2,100003)");
    config.serve_kept(&[])
});

#[test]
fn a_compressed_request_is_accepted() {
    let grpc = Grpc::connect(Server::shared("dummy"));
    let mut client = grpc
        .client
        .clone()
        .send_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Gzip);
    let answer = grpc.wait(client.model_infer(dummy())).unwrap();
    assert_eq!(to_floats(&answer.raw_output_contents[0]), [2.0; 10]);
}

#[test]
fn a_large_input_arrives_whole() {
    const PLANE: usize = 224 * 224;
    let server = Server::shared("fullsize");
    let image: Vec<f32> = [1.0, 2.0, 4.0]
        .into_iter()
        .flat_map(|value| vec![value; PLANE])
        .collect();
    let request = raw(
        "fullsize",
        "image",
        "FP32",
        &[1, 3, 224, 224],
        &floats(&image),
    );
    let answer = Grpc::connect(server).answered(request);
    assert_eq!(to_floats(&answer.raw_output_contents[0]), [1.0, 2.0, 4.0]);
}

/// Inputs of so many bytes are read where they lie, if their address allows: the model gives them back, so that an
/// output that shared memory with them, or a tensor that was left from the request before, would be seen.
#[test]
fn inputs_of_any_size_and_address_come_back_as_they_were() {
    for model in ["passthrough_f32", "passthrough_u8"] {
        let server = Server::shared(model);
        let grpc = Grpc::connect(server);
        let (datatype, width) = match model {
            "passthrough_u8" => ("UINT8", 1),
            _ => ("FP32", 4),
        };
        let request = |number: u8| {
            let rows = i64::from(number % 3) + 1;
            let columns = [100_000, 3, 300_000, 400_000][usize::from(number) % 4];
            let size = usize::try_from(rows * columns).unwrap() * width;
            let bytes: Vec<u8> = (0..size)
                .map(|index| number.wrapping_add((index % 100) as u8) % 120)
                .collect();
            // The id shifts what comes behind it.
            ModelInferRequest {
                id: "i".repeat(usize::from(number)),
                ..raw(model, "in", datatype, &[rows, columns], &bytes)
            }
        };
        let calls: Vec<_> = (0..24).map(|number| grpc.call(request(number))).collect();
        for (number, call) in (0..24).zip(calls) {
            let answer = call.wait().unwrap();
            let sent = request(number);
            assert_eq!(answer.id, sent.id);
            assert_eq!(answer.outputs[0].shape, sent.inputs[0].shape);
            let same = answer.raw_output_contents == sent.raw_input_contents;
            assert!(same, "{model} {number}");
        }
    }
}

/// The tensor of a large output of one shape goes to the client as it is.
#[test]
fn large_outputs_in_flight_together_are_each_their_own() {
    let grpc = Grpc::connect(&TWO_SLOTS);
    let request = |number: u8| {
        let bytes = floats(&vec![f32::from(number); 2 * 100_003]);
        ModelInferRequest {
            id: "i".repeat(usize::from(number)),
            ..raw("passthrough_f32", "in", "FP32", &[2, 100_003], &bytes)
        }
    };
    for _ in 0..3 {
        let calls: Vec<_> = (0..12).map(|number| grpc.call(request(number))).collect();
        let answers: Vec<_> = calls.into_iter().map(|call| call.wait().unwrap()).collect();
        for (number, answer) in (0..12).zip(answers) {
            let same = answer.raw_output_contents == request(number).raw_input_contents;
            assert!(same, "{number}");
        }
    }
}

#[test]
fn requests_in_flight_together_get_each_their_own_answer() {
    let grpc = Grpc::connect(&TWO_SLOTS);
    let calls: Vec<_> = (0..200_u8)
        .map(|number| {
            let x = floats(&[number.into(), 0.0, 0.0, 1.0]);
            grpc.call(ModelInferRequest {
                id: number.to_string(),
                ..raw("two_outputs", "x", "FP32", &[1, 4], &x)
            })
        })
        .collect();
    for (number, call) in (0..200_u8).zip(calls) {
        let answer = call.wait().unwrap();
        assert_eq!(answer.id, number.to_string());
        assert_eq!(
            to_floats(&answer.raw_output_contents[0]),
            [f32::from(number) + 1.0]
        );
    }
}
