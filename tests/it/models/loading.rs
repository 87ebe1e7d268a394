//! The wait for a model that is still loading, and the end of a server that loads one. What requests are answered is in
//! the sheet `loading`.

use std::time::{Duration, Instant};

use crate::support::{
    Server,
    grpc::{Grpc, dummy},
    http::post,
    repository,
};

const BODY: &[u8] =
    br#"{"inputs":[{"name":"b","shape":[1,10],"datatype":"FP32","data":[0,1,2,3,4,5,6,7,8,9]}]}"#;

#[test]
fn inference_waits_for_the_version_and_a_signal_does_not() {
    let root = repository::endless();
    let flags = ["--loading_wait_seconds", "1"];
    let mut server = Server::begin("dummy", root.path(), &flags);
    server.wait_log("loading");
    let grpc = Grpc::connect(&server);
    let mut request = dummy();
    request.model_version = "1".to_owned();
    let path = "/v2/models/dummy/versions/1/infer";
    let started = Instant::now();
    let over_grpc = grpc.refused(request);
    let between = Instant::now();
    let over_rest = post(&server, path, BODY).error();
    for (waited, refused) in [
        (between - started, over_grpc),
        (between.elapsed(), over_rest),
    ] {
        assert!(refused.ends_with("is not loaded yet"), "{refused}");
        assert!(waited >= Duration::from_secs(1), "{waited:?}");
    }
    drop(grpc);
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
}
