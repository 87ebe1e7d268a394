//! The wait for a model that is still loading, and the end of a server that loads one. What requests are answered is in
//! the sheet `loading`.

use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::{
    Server,
    grpc::{Grpc, dummy},
    http::post,
    repository,
};

const BODY: &[u8] =
    br#"{"inputs":[{"name":"b","shape":[1,10],"datatype":"FP32","data":[0,1,2,3,4,5,6,7,8,9]}]}"#;

/// Starts a server that loads forever; returns it with its repository.
fn loading(wait_seconds: &str) -> (Server, TempDir) {
    let root = repository::endless();
    let flags = ["--loading_wait_seconds", wait_seconds];
    let server = Server::begin("dummy", root.path(), &flags);
    server.wait_log("loading");
    (server, root)
}

#[test]
fn inference_waits_for_the_version_and_then_says_so() {
    let (server, _root) = loading("1");
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
}

#[test]
fn a_signal_ends_the_server_within_its_load() {
    let (mut server, _root) = loading("0");
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
}
