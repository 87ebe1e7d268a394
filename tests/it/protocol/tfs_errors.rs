//! TensorFlow Serving over gRPC: invalid requests, each with its code and text.

use ovms::proto::{tensorflow::DataType, tensorflow_serving::PredictRequest};

use crate::support::{
    Server, repository,
    tfs::{Tfs, content, dummy, request, spec, tensor},
};

#[test]
fn a_version_that_is_loading() {
    let root = repository::endless();
    let server = Server::begin("dummy", root.path(), &["--loading_wait_seconds", "0"]);
    server.wait_log("loading");
    let tfs = Tfs::connect(&server);
    let answer = tfs.refused(PredictRequest {
        model_spec: spec("dummy", 1),
        ..dummy()
    });
    insta::assert_snapshot!(answer, @r#"Unavailable: Model with requested version is not loaded yet"#);
}

#[test]
fn ten_thousand_inputs_and_huge_shapes_are_answered() {
    let server = Server::shared("dummy");
    let tfs = Tfs::connect(server);
    let mut many = dummy();
    for number in 0..10_000 {
        many.inputs
            .insert(format!("n{number}"), tensor(DataType::DtFloat, &[1]));
    }
    insta::assert_snapshot!(tfs.refused(many), @r#"InvalidArgument: Invalid number of inputs - Expected: 1; Actual: 10001"#);
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
