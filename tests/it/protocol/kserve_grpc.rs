//! KServe v2 over gRPC: responses to valid requests.

use ovms::proto::kserve::ModelInferRequest;
use tonic::codec::CompressionEncoding;

use crate::support::{
    Server,
    dtypes::{self, ELEMENTS},
    grpc::{Grpc, dummy, floats, raw, to_floats, typed},
};

#[test]
fn raw_contents_of_every_datatype_come_back() {
    for row in dtypes::rows() {
        let server = Server::start(row.model);
        let shape = [1, i64::try_from(ELEMENTS).unwrap()];
        let answer =
            Grpc::connect(&server).answered(raw(row.model, "in", row.datatype, &shape, &row.raw));
        assert_eq!(answer.outputs[0].datatype, row.datatype);
        assert_eq!(answer.outputs[0].shape, shape);
        assert_eq!(answer.raw_output_contents[0], row.raw, "{}", row.datatype);
    }
}

#[test]
fn typed_contents_of_every_datatype_come_back_as_raw_ones() {
    for row in dtypes::rows() {
        let Some(contents) = row.typed else {
            continue;
        };
        let server = Server::start(row.model);
        let shape = [i64::try_from(ELEMENTS).unwrap(), 1];
        let answer =
            Grpc::connect(&server).answered(typed(row.model, "in", row.datatype, &shape, contents));
        assert_eq!(answer.outputs[0].shape, shape);
        assert_eq!(answer.outputs[0].contents, None);
        assert_eq!(answer.raw_output_contents[0], row.raw, "{}", row.datatype);
    }
}

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
