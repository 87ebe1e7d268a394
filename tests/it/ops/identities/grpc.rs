//! gRPC: every method, streams and reflection included.

use ovms::proto::DESCRIPTORS;
use ovms::proto::kserve::{
    ModelConfigRequest, ModelInferRequest, ModelMetadataRequest, ModelReadyRequest,
    ModelStatisticsRequest, RepositoryIndexRequest,
};
use prost::Message;
use prost_reflect::DescriptorPool;
use tonic::{Code, Request, Status, codegen::http::uri::PathAndQuery};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
};

use super::{Guarded, SERVER, bearer, key};
use crate::support::{
    grpc::{Grpc, dummy, input, raw},
    tfs,
    wire::refused_early,
};

const KSERVE: &str = "/inference.GRPCInferenceService/";

/// Methods that any identity may call, with those that are for servables.
const KNOWN: [&str; 18] = [
    "/inference.GRPCInferenceService/ModelInfer",
    "/inference.GRPCInferenceService/ModelStreamInfer",
    "/inference.GRPCInferenceService/ServerMetadata",
    "/inference.GRPCInferenceService/ModelReady",
    "/inference.GRPCInferenceService/ModelMetadata",
    "/inference.GRPCInferenceService/ModelConfig",
    "/inference.GRPCInferenceService/ModelStatistics",
    "/inference.GRPCInferenceService/RepositoryIndex",
    "/tensorflow.serving.PredictionService/Predict",
    "/tensorflow.serving.PredictionService/GetModelMetadata",
    "/tensorflow.serving.PredictionService/Classify",
    "/tensorflow.serving.PredictionService/Regress",
    "/tensorflow.serving.PredictionService/MultiInference",
    "/tensorflow.serving.ModelService/GetModelStatus",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "/inference.GRPCInferenceService/NoSuchMethod",
    "/no.such.Service/Method",
];

const ADMIN: [&str; 11] = [
    "/inference.GRPCInferenceService/SystemSharedMemoryStatus",
    "/inference.GRPCInferenceService/SystemSharedMemoryRegister",
    "/inference.GRPCInferenceService/SystemSharedMemoryUnregister",
    "/inference.GRPCInferenceService/CudaSharedMemoryStatus",
    "/inference.GRPCInferenceService/CudaSharedMemoryRegister",
    "/inference.GRPCInferenceService/CudaSharedMemoryUnregister",
    "/inference.GRPCInferenceService/RepositoryModelLoad",
    "/inference.GRPCInferenceService/RepositoryModelUnload",
    "/inference.GRPCInferenceService/TraceSetting",
    "/inference.GRPCInferenceService/LogSettings",
    "/tensorflow.serving.ModelService/HandleReloadConfigRequest",
];

const HEALTH: [&str; 3] = [
    "/inference.GRPCInferenceService/ServerLive",
    "/inference.GRPCInferenceService/ServerReady",
    "/grpc.health.v1.Health/Check",
];

/// Methods that need no right, and whose answers do not end.
const ENDLESS: [&str; 1] = ["/grpc.health.v1.Health/Watch"];

/// Sends an encoded message to a method, with headers; the answer is not looked at.
fn call(
    grpc: &Grpc,
    path: &str,
    message: Vec<u8>,
    headers: &[(&'static str, &str)],
) -> Result<(), Status> {
    let mut client = tonic::client::Grpc::new(grpc.channel.clone());
    let path: PathAndQuery = path.parse().unwrap();
    let mut request = Request::new(Encoded(message));
    for (name, value) in headers {
        request.metadata_mut().insert(*name, value.parse().unwrap());
    }
    grpc.runtime.block_on(async move {
        client.ready().await.expect("the server listens");
        let codec = tonic_prost::ProstCodec::<Encoded, Encoded>::default();
        client.unary(request, path, codec).await.map(drop)
    })
}

/// Bytes of a message of any kind.
#[derive(Debug, Default)]
struct Encoded(Vec<u8>);

impl Message for Encoded {
    fn encode_raw(&self, buffer: &mut impl bytes::BufMut) {
        buffer.put_slice(&self.0);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: prost::encoding::WireType,
        buffer: &mut impl bytes::Buf,
        context: prost::encoding::DecodeContext,
    ) -> Result<(), prost::DecodeError> {
        prost::encoding::skip_field(wire_type, tag, buffer, context)
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

fn code(result: &Result<(), Status>) -> Code {
    result.as_ref().map_or_else(Status::code, |()| Code::Ok)
}

#[test]
fn the_lists_have_every_method_of_every_service() {
    let mut pool = DescriptorPool::new();
    for descriptors in [
        DESCRIPTORS,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ] {
        pool.decode_file_descriptor_set(descriptors).unwrap();
    }
    let listed = [&KNOWN[..], &ADMIN, &HEALTH, &ENDLESS].concat();
    let mut count = 0;
    for service in pool.services() {
        for method in service.methods() {
            let path = format!("/{}/{}", service.full_name(), method.name());
            assert!(listed.contains(&&*path), "{path} is not tried here");
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
}

#[test]
fn every_method_asks_for_an_identity() {
    let grpc = Grpc::connect(&SERVER);
    for path in KNOWN.into_iter().chain(ADMIN) {
        for headers in [
            &[][..],
            &[("authorization", "Bearer ovms_wrong")],
            &[("authorization", "Basic eDprZXk=")],
            &[("x-api-key", "")],
        ] {
            let refused = call(&grpc, path, Vec::new(), headers).unwrap_err();
            assert_eq!(refused.code(), Code::Unauthenticated, "{path}: {refused}");
            let challenge = refused.metadata().get("www-authenticate").unwrap();
            assert_eq!(challenge, "Bearer realm=\"ovms\"", "{path}");
        }
    }
    for path in HEALTH {
        assert_eq!(
            code(&call(&grpc, path, Vec::new(), &[])),
            Code::Ok,
            "{path}"
        );
    }
    let first = grpc.runtime.block_on(async {
        let mut client = HealthClient::new(grpc.channel.clone());
        let answers = client.watch(HealthCheckRequest::default()).await?;
        answers.into_inner().message().await
    });
    assert!(first.unwrap().is_some());
}

#[test]
fn strangers_have_half_of_the_streams() {
    let guarded = Guarded::start("", &["--max_streams=4"]);
    let grpc = Grpc::connect(&guarded.server);
    let watch = || {
        let mut client = HealthClient::new(grpc.channel.clone());
        grpc.wait(async move { client.watch(HealthCheckRequest::default()).await })
    };
    let _open = [watch().unwrap(), watch().unwrap()];
    let refused = watch().unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    let question = || {
        let mut client = ServerReflectionClient::new(grpc.channel.clone());
        let mut request = Request::new(tokio_stream::pending::<ServerReflectionRequest>());
        let key = key("user").parse().unwrap();
        request.metadata_mut().insert("x-api-key", key);
        grpc.wait(async move { client.server_reflection_info(request).await })
    };
    let _known = [question().unwrap(), question().unwrap()];
    assert_eq!(question().unwrap_err().code(), Code::Unavailable);
}

#[test]
fn only_an_administrator_manages() {
    let grpc = Grpc::connect(&SERVER);
    for name in ["none", "user", "scraper", "viewer", "root"] {
        let bearer = bearer(name);
        let headers = [("authorization", &*bearer)];
        for path in ADMIN {
            let result = call(&grpc, path, Vec::new(), &headers);
            let is_denied = code(&result) == Code::PermissionDenied;
            assert_eq!(is_denied, name != "root", "{name}: {path}: {result:?}");
        }
        for path in KNOWN {
            let result = call(&grpc, path, Vec::new(), &headers);
            let code = code(&result);
            assert!(
                !matches!(code, Code::PermissionDenied | Code::Unauthenticated),
                "{name}: {path}: {result:?}"
            );
        }
    }
    let with = |name: &str| {
        let mut request = Request::new(ovms::proto::kserve::ServerMetadataRequest {});
        let key = key(name).parse().unwrap();
        request.metadata_mut().insert("x-api-key", key);
        let mut client = grpc.client.clone();
        let answer = grpc.wait(async move { client.server_metadata(request).await });
        answer
            .unwrap()
            .extensions
            .contains(&"system_shared_memory".to_owned())
    };
    assert!(with("root"));
    assert!(!with("user"), "regions have no owners");
}

/// Returns a call about a servable: its path and its message.
fn about(name: &str) -> Vec<(&'static str, Vec<u8>)> {
    let name = name.to_owned();
    let infer = ModelInferRequest {
        model_name: name.clone(),
        ..dummy()
    };
    let spec = || tfs::spec(&name, 0);
    let kserve = [
        ("ModelInfer", infer.encode_to_vec()),
        ("ModelStreamInfer", infer.encode_to_vec()),
        (
            "ModelReady",
            ModelReadyRequest {
                name: name.clone(),
                ..ModelReadyRequest::default()
            }
            .encode_to_vec(),
        ),
        (
            "ModelMetadata",
            ModelMetadataRequest {
                name: name.clone(),
                ..ModelMetadataRequest::default()
            }
            .encode_to_vec(),
        ),
        (
            "ModelConfig",
            ModelConfigRequest {
                name: name.clone(),
                ..ModelConfigRequest::default()
            }
            .encode_to_vec(),
        ),
        (
            "ModelStatistics",
            ModelStatisticsRequest {
                name: name.clone(),
                ..ModelStatisticsRequest::default()
            }
            .encode_to_vec(),
        ),
    ];
    let kserve = kserve.map(|(method, message)| {
        let path: &'static str = Box::leak(format!("{KSERVE}{method}").into_boxed_str());
        (path, message)
    });
    use ovms::proto::tensorflow_serving::{
        GetModelMetadataRequest, GetModelStatusRequest, PredictRequest,
    };
    let tfs = [
        (
            "/tensorflow.serving.PredictionService/Predict",
            PredictRequest {
                model_spec: spec(),
                ..tfs::dummy()
            }
            .encode_to_vec(),
        ),
        (
            "/tensorflow.serving.PredictionService/GetModelMetadata",
            GetModelMetadataRequest {
                model_spec: spec(),
                metadata_field: vec!["signature_def".to_owned()],
            }
            .encode_to_vec(),
        ),
        (
            "/tensorflow.serving.ModelService/GetModelStatus",
            GetModelStatusRequest { model_spec: spec() }.encode_to_vec(),
        ),
    ];
    kserve.into_iter().chain(tfs).collect()
}

#[test]
fn rights_to_a_servable_are_asked_for_in_its_calls() {
    let grpc = Grpc::connect(&SERVER);
    let state = ["ModelReady", "GetModelStatus"];
    for (name, methods) in [
        ("none", &[][..]),
        ("runner", &["ModelInfer", "ModelStreamInfer", "Predict"]),
        (
            "reader",
            &[
                "ModelMetadata",
                "ModelConfig",
                "ModelStatistics",
                "GetModelMetadata",
            ],
        ),
    ] {
        let bearer = bearer(name);
        let headers = [("authorization", &*bearer)];
        for (path, message) in about("dummy") {
            let method = path.rsplit('/').next().unwrap();
            let may = methods.contains(&method) || (name != "none" && state.contains(&method));
            let result = call(&grpc, path, message, &headers);
            let expected = if may { Code::Ok } else { Code::NotFound };
            assert_eq!(code(&result), expected, "{name}: {path}: {result:?}");
        }
        for ((path, hidden), (_, absent)) in about("secret").into_iter().zip(about("absent")) {
            let said = |message| {
                let refused = call(&grpc, path, message, &headers).unwrap_err();
                (refused.code(), refused.message().to_owned())
            };
            assert_eq!(said(hidden), said(absent), "{name}: {path}");
        }
    }
    let index = |name: &str| {
        let mut request = Request::new(RepositoryIndexRequest::default());
        let key = key(name).parse().unwrap();
        request.metadata_mut().insert("x-api-key", key);
        let mut client = grpc.client.clone();
        let answer = grpc.wait(async move { client.repository_index(request).await });
        let models = answer.unwrap().models.into_iter();
        models.map(|model| model.name).collect::<Vec<_>>()
    };
    assert_eq!(index("root"), ["dummy", "secret"]);
    assert_eq!(index("user"), ["dummy"]);
    assert!(index("runner").is_empty());
}

#[test]
fn an_address_that_guesses_has_to_wait() {
    let guarded = Guarded::start("max_failures_per_minute = 2", &[]);
    let grpc = Grpc::connect(&guarded.server);
    let path = KNOWN[2];
    let ask = |key: &str| call(&grpc, path, Vec::new(), &[("x-api-key", key)]);
    for _ in 0..2 {
        assert_eq!(code(&ask("ovms_wrong")), Code::Unauthenticated);
    }
    let refused = ask("ovms_wrong").unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    for name in ["retry-after", "grpc-retry-pushback-ms"] {
        assert!(refused.metadata().contains_key(name), "{name}");
    }
}

#[test]
fn nothing_of_a_message_is_read_before_its_sender_is_known() {
    for path in [
        "/inference.GRPCInferenceService/ModelInfer",
        "/inference.GRPCInferenceService/ModelStreamInfer",
        "/inference.GRPCInferenceService/ModelMetadata",
        "/inference.GRPCInferenceService/RepositoryModelLoad",
        "/tensorflow.serving.PredictionService/Predict",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    ] {
        for headers in [
            &[][..],
            &[("authorization", &*bearer("wrong"))],
            &[("x-api-key", &*key("wrong"))],
        ] {
            let refused = refused_early(&SERVER, path, headers);
            assert_eq!(refused.code(), Code::Unauthenticated, "{path}: {refused}");
        }
    }
    // So is the right of a method that is about no servable.
    let headers = [("authorization", &*bearer("user"))];
    for path in ADMIN {
        let refused = refused_early(&SERVER, path, &headers);
        assert_eq!(refused.code(), Code::PermissionDenied, "{path}: {refused}");
    }
}

/// Returns inferences of a servable with tensors that no model could take.
fn broken(name: &str) -> Vec<(&'static str, Vec<u8>)> {
    use ovms::proto::tensorflow::DataType;
    let kserve = [
        ModelInferRequest {
            model_name: name.to_owned(),
            ..ModelInferRequest::default()
        },
        raw(name, "b", "FP32", &[1, 10], &[0; 3]),
        raw(name, "b", "FP32", &[-1, i64::MAX], &[]),
        raw(name, "b", "NONE", &[1, 10], &[0; 40]),
        raw(name, "unknown", "FP32", &[1, 10], &[0; 40]),
        ModelInferRequest {
            inputs: vec![input("b", "FP32", &[1, 10]), input("b", "BYTES", &[1])],
            ..raw(name, "b", "FP32", &[1, 10], &[0; 40])
        },
    ];
    let kserve = kserve.iter().flat_map(|request| {
        let message = request.encode_to_vec();
        [
            (
                "/inference.GRPCInferenceService/ModelInfer",
                message.clone(),
            ),
            ("/inference.GRPCInferenceService/ModelStreamInfer", message),
        ]
    });
    let tfs = [
        tfs::request(name, []),
        tfs::request(
            name,
            [("b", tfs::content(DataType::DtFloat, &[1, 10], &[0; 3]))],
        ),
        tfs::request(
            name,
            [("b", tfs::content(DataType::DtFloat, &[-1, i64::MAX], &[]))],
        ),
        tfs::request(
            name,
            [("b", tfs::content(DataType::DtInvalid, &[1, 10], &[0; 40]))],
        ),
        tfs::request(
            name,
            [("x", tfs::content(DataType::DtFloat, &[1, 10], &[0; 40]))],
        ),
    ];
    let path = "/tensorflow.serving.PredictionService/Predict";
    let tfs = tfs.iter().map(|request| (path, request.encode_to_vec()));
    kserve.chain(tfs).collect()
}

#[test]
fn tensors_for_a_servable_that_one_may_not_run_are_not_looked_at() {
    let grpc = Grpc::connect(&SERVER);
    for name in ["none", "reader", "user"] {
        let bearer = bearer(name);
        let headers = [("authorization", &*bearer)];
        for ((path, hidden), (_, absent)) in broken("secret").into_iter().zip(broken("absent")) {
            let said = |message| {
                let refused = call(&grpc, path, message, &headers).unwrap_err();
                (refused.code(), refused.message().to_owned())
            };
            let hidden = said(hidden);
            assert_eq!(hidden.0, Code::NotFound, "{name}: {path}: {hidden:?}");
            assert_eq!(hidden, said(absent), "{name}: {path}");
        }
    }
    // Who may run it learns what is wrong with them; on a stream from the answers.
    let bearer = bearer("root");
    let unary = broken("secret").into_iter();
    for (path, message) in unary.filter(|(path, _)| !path.ends_with("ModelStreamInfer")) {
        let refused = call(&grpc, path, message, &[("authorization", &bearer)]).unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{path}: {refused}");
    }
}
