//! TensorFlow Serving over gRPC: large requests, and compressed ones. The others are in the sheet `tfs_grpc`.

use ovms::proto::tensorflow::DataType;
use tonic::codec::CompressionEncoding;

use crate::support::{
    Server,
    grpc::to_floats,
    tfs::{Tfs, content, dummy, request, tensor},
};

#[test]
fn ten_thousand_inputs_and_huge_shapes_are_answered() {
    let server = Server::shared("dummy");
    let tfs = Tfs::connect(server);
    let mut many = dummy();
    for number in 0..10_000 {
        many.inputs
            .insert(format!("n{number}"), tensor(DataType::DtFloat, &[1]));
    }
    insta::assert_snapshot!(tfs.refused(many), @r#"InvalidArgument: Invalid number of inputs - Expected: 1; Actual: 10001; the model has: b"#);
    let long = tensor(DataType::DtFloat, &vec![1; 100_000]);
    assert!(
        tfs.refused(request("dummy", [("b", long)]))
            .starts_with("InvalidArgument: Invalid number of shape dimensions")
    );
    let server = Server::shared("passthrough_f32");
    let dynamic = Tfs::connect(server);
    let huge = content(DataType::DtFloat, &[1 << 40, 1 << 40], &[0; 4]);
    insta::assert_snapshot!(dynamic.refused(request("passthrough_f32", [("in", huge)])), @r#"InvalidArgument: Invalid content size of tensor proto - Expected: more bytes than memory can hold for shape (1099511627776,1099511627776); Actual: 4 bytes; input name: in"#);
    tfs.check_serves();
}

#[test]
fn compressed_requests_take_the_general_path() {
    let tfs = Tfs::connect(Server::shared("dummy"));
    let mut client = tfs
        .prediction
        .clone()
        .send_compressed(CompressionEncoding::Gzip);
    let answer = tfs
        .grpc
        .wait(async move { client.predict(dummy()).await })
        .unwrap();
    assert_eq!(to_floats(&answer.outputs["a"].tensor_content), [2.0; 10]);
}
