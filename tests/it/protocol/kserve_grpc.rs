//! KServe v2 over gRPC: responses to valid requests.

use ovms::proto::kserve::ModelInferRequest;
use tonic::codec::CompressionEncoding;

use crate::support::{
    Server,
    grpc::{Grpc, dummy, floats, raw, to_floats},
};

#[test]
fn a_compressed_request_is_accepted() {
    let server = Server::start("dummy");
    let grpc = Grpc::connect(&server);
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

#[test]
fn requests_in_flight_together_get_each_their_own_answer() {
    let server = Server::start_with("two_outputs", &["--nireq", "2"]);
    let grpc = Grpc::connect(&server);
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
