//! Requests for a model that is still loading. Its load never ends: the model file is a pipe
//! without a writer.

use ovms::proto::kserve::{
    ModelInferRequest, ModelMetadataRequest, ModelReadyRequest, ServerLiveRequest,
    ServerReadyRequest,
};
use tempfile::TempDir;

use crate::support::{
    Server,
    grpc::{Grpc, dummy, error},
    http::{get, post},
    repository,
};

const BODY: &[u8] =
    br#"{"inputs":[{"name":"b","shape":[1,10],"datatype":"FP32","data":[0,1,2,3,4,5,6,7,8,9]}]}"#;

/// Starts a server that loads forever; returns it with its repository.
fn loading(wait_seconds: &str) -> (Server, TempDir) {
    let root = repository::endless();
    let server = Server::begin(
        "dummy",
        root.path(),
        &["--loading_wait_seconds", wait_seconds],
    );
    server.wait_log("loading");
    (server, root)
}

fn version(version: &str) -> ModelInferRequest {
    ModelInferRequest {
        model_version: version.to_owned(),
        ..dummy()
    }
}

#[test]
fn the_server_is_live_and_not_ready() {
    let (server, _root) = loading("0");
    let grpc = Grpc::connect(&server);
    let live = grpc.wait(grpc.client.clone().server_live(ServerLiveRequest {}));
    let ready = grpc.wait(grpc.client.clone().server_ready(ServerReadyRequest {}));
    assert!(live.unwrap().live);
    assert!(!ready.unwrap().ready);
    assert_eq!(get(&server, "/v2/health/live").status, 200);
    assert_eq!(get(&server, "/v2/health/ready").status, 500);
}

#[test]
fn the_version_is_known_and_not_ready() {
    let (server, _root) = loading("0");
    let grpc = Grpc::connect(&server);
    let ready = |version: &str| {
        let request = ModelReadyRequest {
            name: "dummy".to_owned(),
            version: version.to_owned(),
        };
        let answer = grpc.wait(grpc.client.clone().model_ready(request));
        answer.map_or_else(|status| error(&status), |answer| answer.ready.to_string())
    };
    let metadata = |version: &str| {
        let request = ModelMetadataRequest {
            name: "dummy".to_owned(),
            version: version.to_owned(),
        };
        error(
            &grpc
                .wait(grpc.client.clone().model_metadata(request))
                .unwrap_err(),
        )
    };
    let answers = [
        format!("ready 1: {}", ready("1")),
        format!("ready: {}", ready("")),
        format!("metadata 1: {}", metadata("1")),
        format!("metadata: {}", metadata("")),
        format!(
            "REST ready 1: {}",
            get(&server, "/v2/models/dummy/versions/1/ready").error()
        ),
        format!(
            "REST ready: {}",
            get(&server, "/v2/models/dummy/ready").error()
        ),
        format!(
            "REST metadata 1: {}",
            get(&server, "/v2/models/dummy/versions/1").error()
        ),
        format!(
            "REST metadata: {}",
            get(&server, "/v2/models/dummy").error()
        ),
    ]
    .join("\n");
    insta::assert_snapshot!(answers, @"
    ready 1: false
    ready: NotFound: Model with requested version is not found
    metadata 1: Unavailable: Model with requested version is not loaded yet
    metadata: NotFound: Model with requested version is not found
    REST ready 1: 404: Model with requested version is not loaded yet
    REST ready: 404: Model with requested version is not found
    REST metadata 1: 404: Model with requested version is not loaded yet
    REST metadata: 404: Model with requested version is not found
    ");
}

#[test]
fn inference_waits_for_the_version_and_then_says_so() {
    for wait_seconds in ["0", "1"] {
        let (server, _root) = loading(wait_seconds);
        let grpc = Grpc::connect(&server);
        let started = std::time::Instant::now();
        let answers = [
            format!("1: {}", grpc.refused(version("1"))),
            format!("default: {}", grpc.refused(version(""))),
            format!(
                "REST 1: {}",
                post(&server, "/v2/models/dummy/versions/1/infer", BODY).error()
            ),
            format!(
                "REST default: {}",
                post(&server, "/v2/models/dummy/infer", BODY).error()
            ),
        ]
        .join("\n");
        assert!(started.elapsed().as_secs() >= wait_seconds.parse().unwrap());
        insta::allow_duplicates! {
            insta::assert_snapshot!(answers, @"
            1: Unavailable: Model with requested version is not loaded yet
            default: NotFound: Model with requested version is not found
            REST 1: 404: Model with requested version is not loaded yet
            REST default: 404: Model with requested version is not found
            ");
        }
    }
}

#[test]
fn a_signal_ends_the_server_within_its_load() {
    let (mut server, _root) = loading("0");
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
}
