//! Bodies and files that nest without end.

use std::fs;

use super::{
    field,
    memory::{Growth, WITH_BUDGET},
};
use crate::support::{
    Server, cli,
    grpc::{Grpc, dummy},
    http::post,
    repository,
    wire::{self, Call},
};
use prost::Message as _;

/// Bytes of a body, far more levels than any stack has room for.
const BYTES: usize = 1 << 20;

/// Repeats a beginning up to so many bytes.
fn deep(begin: &str) -> String {
    begin.repeat(BYTES / begin.len())
}

#[test]
fn json_without_end_is_refused_on_all_paths() {
    let server = Server::start_with("dummy", &[WITH_BUDGET]);
    let growth = Growth::of(&server);
    let befores = [
        "",
        "{\"x\":",
        "{\"id\":",
        "{\"parameters\":",
        "{\"parameters\":{\"a\":",
        "{\"outputs\":[{\"name\":\"a\",\"parameters\":",
        "{\"inputs\":",
        "{\"inputs\":[{\"name\":\"b\",\"shape\":[1,10],\"datatype\":\"FP32\",\"data\":",
        "{\"inputs\":[{\"data\":",
        "{\"inputs\":{\"b\":",
        "{\"instances\":",
        "{\"instances\":[{\"b\":",
        "{\"b\":",
    ];
    let paths = [
        "/v2/models/dummy/infer",
        "/v2/models/dummy/generate",
        "/v1/models/dummy:predict",
    ];
    for path in paths {
        for before in befores {
            for begin in ["[", "{\"a\":", "[{\"b64\":"] {
                let body = before.to_owned() + &deep(begin);
                let answer = post(&server, path, body.as_bytes());
                assert!(
                    [400, 412].contains(&answer.status),
                    "{path} {before}{begin}: {}",
                    answer.text()
                );
                // Nothing of the body is repeated without end, either.
                assert!(answer.body.len() < 4096, "{path} {before}{begin}");
            }
        }
    }
    // A filter that cannot be read filters nothing.
    let index = post(&server, "/v2/repository/index", deep("[").as_bytes());
    assert_eq!(index.status, 200);
    growth.check();
    Grpc::connect(&server).check_serves();
}

#[test]
fn messages_without_end_are_refused_on_all_calls() {
    let server = Server::shared("dummy");
    // A variant in a tensor, whose tensors have variants (tensorflow.VariantTensorDataProto).
    let mut tensors = Vec::new();
    for _ in 0..10_000 {
        tensors = field(15, &field(3, &tensors));
    }
    let entry = [field(1, b"b"), field(2, &tensors)].concat();
    let predict = [field(1, &field(1, b"dummy")), field(2, &entry)].concat();
    // Groups, which no message has, so that they are passed over.
    let groups = vec![0x7b; 100_000];
    let mut nested = Vec::new();
    for _ in 0..10_000 {
        nested = field(6, &nested);
    }
    let infer = |more: &[u8]| [dummy().encode_to_vec(), more.to_vec()].concat();
    let service = "/inference.GRPCInferenceService";
    let calls = [
        ("/tensorflow.serving.PredictionService/Predict", predict),
        (
            "/tensorflow.serving.PredictionService/Predict",
            groups.clone(),
        ),
        (
            "/tensorflow.serving.PredictionService/GetModelMetadata",
            groups.clone(),
        ),
        (&*format!("{service}/ModelInfer"), infer(&groups)),
        (&*format!("{service}/ModelInfer"), infer(&field(9, &nested))),
        (&*format!("{service}/ModelMetadata"), groups.clone()),
        ("/grpc.health.v1.Health/Check", groups),
    ]
    .map(|(path, message)| Call::of(path, message));
    let answers = wire::send(server, &calls);
    for (place, answer) in answers.into_iter().enumerate() {
        match answer {
            // An unknown field with bytes that nobody looks into.
            Ok(_) => assert_eq!(place, 4),
            Err(status) => assert!(
                [
                    tonic::Code::Internal,
                    tonic::Code::InvalidArgument,
                    tonic::Code::OutOfRange
                ]
                .contains(&status.code()),
                "{place}: {status:?}"
            ),
        }
    }
    Grpc::connect(server).check_serves();
}

#[test]
fn files_without_end_are_refused_with_their_place() {
    let folder = repository::folder();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let config = write(
        "config.json",
        &format!("{{\"model_config_list\":{}", deep("[")),
    );
    let check = cli::ovms(["serve", "--check", "--config-path", &config]);
    assert_eq!(check.code, Some(1), "{}", check.stderr);
    assert!(
        check
            .stderr
            .contains("lists and objects in one another without end"),
        "{}",
        check.stderr
    );
    for begin in ["node{options{", "node{node_options<", "input_stream:["] {
        let graph = write("graph.pbtxt", &deep(begin));
        let check = cli::ovms(["graph", "check", &graph]);
        assert_eq!(check.code, Some(1), "{begin}: {}", check.failure());
    }
    // The XML of a model, which the runtime refuses as well.
    let version = folder.path().join("model/1");
    fs::create_dir_all(&version).unwrap();
    let deep = format!("<net><rt_info><model_info>{}", deep("<a>"));
    fs::write(version.join("model.xml"), deep).unwrap();
    fs::write(version.join("model.bin"), "").unwrap();
    let mut server = Server::begin("deep", &folder.path().join("model"), &[]);
    assert_eq!(server.wait().code(), Some(1));
    server.wait_log("cannot load version 1 of model `deep`");
}
