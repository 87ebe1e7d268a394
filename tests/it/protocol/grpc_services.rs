//! Further services of the gRPC port: health, reflection, deadlines, and unimplemented calls.

use std::time::Duration;

use ovms::proto::tensorflow::DataType;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

use crate::support::{
    Server, busy,
    grpc::{Grpc, dummy, error},
    tfs,
};

#[test]
fn the_health_service_knows_the_server_and_its_services() {
    let grpc = Grpc::connect(Server::shared("dummy"));
    let health = |service: &str| {
        let request = HealthCheckRequest {
            service: service.to_owned(),
        };
        let answer = grpc.wait(HealthClient::new(grpc.channel.clone()).check(request));
        answer.map_or_else(
            |status| error(&status),
            |answer| answer.status().as_str_name().to_owned(),
        )
    };
    assert_eq!(health(""), "SERVING");
    assert_eq!(health("inference.GRPCInferenceService"), "SERVING");
    assert_eq!(health("tensorflow.serving.PredictionService"), "SERVING");
    assert_eq!(health("tensorflow.serving.ModelService"), "SERVING");
    assert_eq!(health("stranger"), "NotFound: service not registered");
}

#[test]
fn reflection_lists_the_services_and_describes_them() {
    let server = Server::shared("dummy");
    let grpc = Grpc::connect(server);
    let listed = ask_reflection(&grpc, MessageRequest::ListServices(String::new()));
    let MessageResponse::ListServicesResponse(listed) = listed else {
        panic!("{listed:?}");
    };
    let mut names: Vec<&str> = listed
        .service
        .iter()
        .map(|service| service.name.as_str())
        .collect();
    names.sort_unstable();
    insta::assert_snapshot!(names.join("\n"), @"
    grpc.health.v1.Health
    grpc.reflection.v1.ServerReflection
    inference.GRPCInferenceService
    tensorflow.serving.ModelService
    tensorflow.serving.PredictionService
    ");

    let symbol = MessageRequest::FileContainingSymbol("inference.ModelInferRequest".to_owned());
    let described = ask_reflection(&grpc, symbol);
    let MessageResponse::FileDescriptorResponse(described) = described else {
        panic!("{described:?}");
    };
    assert!(!described.file_descriptor_proto.is_empty());
}

fn ask_reflection(grpc: &Grpc, question: MessageRequest) -> MessageResponse {
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(question),
    };
    let mut client = ServerReflectionClient::new(grpc.channel.clone());
    grpc.runtime
        .block_on(async move {
            let stream = futures::stream::iter([request]);
            client
                .server_reflection_info(stream)
                .await?
                .into_inner()
                .message()
                .await
        })
        .expect("reflection answers")
        .and_then(|answer| answer.message_response)
        .expect("there is an answer to each question")
}

#[test]
fn a_deadline_that_passes_is_answered_and_the_server_serves_on() {
    let server = busy::shared();
    let grpc = Grpc::connect(&server);
    let request = busy::request(busy::SECONDS);
    let status = post(
        &grpc,
        &server,
        "/inference.GRPCInferenceService/ModelInfer",
        "150m",
        &request,
    );
    insta::assert_snapshot!(status, @"grpc-status 4: the%20client's%20deadline%20of%20150ms%20passed");
    let steps = tfs::content(DataType::DtInt64, &[1], &busy::SECONDS.to_le_bytes());
    let x = tfs::content(DataType::DtFloat, &[64, 64], &[0; 64 * 64 * 4]);
    let request = tfs::request("busy", [("steps", steps), ("x", x)]);
    let predict = "/tensorflow.serving.PredictionService/Predict";
    let status = post(&grpc, &server, predict, "150m", &request);
    insta::assert_snapshot!(status, @"grpc-status 4: the%20client's%20deadline%20of%20150ms%20passed");
    busy::check(3, &grpc.infer(busy::request(3)));
}

#[test]
fn a_deadline_that_is_kept_changes_nothing() {
    let mut request = tonic::Request::new(dummy());
    request.set_timeout(Duration::from_secs(30));
    let grpc = Grpc::connect(Server::shared("dummy"));
    assert!(grpc.wait(grpc.client.clone().model_infer(request)).is_ok());
}

#[test]
fn unknown_services_and_methods_are_unimplemented() {
    let server = Server::shared("dummy");
    let grpc = Grpc::connect(server);
    for path in [
        "/inference.GRPCInferenceService/Nothing",
        "/stranger.Service/Method",
        "/",
    ] {
        let status = post(&grpc, server, path, "10S", &dummy());
        assert!(status.starts_with("grpc-status 12"), "{path}: {status}");
    }
    grpc.check_serves();
}

/// Sends a message without a gRPC library, which would enforce the deadline itself. Returns the
/// status of a trailers-only response.
fn post(
    grpc: &Grpc,
    server: &Server,
    path: &str,
    timeout: &str,
    message: &impl prost::Message,
) -> String {
    let message = message.encode_to_vec();
    let mut body = vec![0];
    body.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
    body.extend_from_slice(&message);
    let answer = grpc.runtime.block_on(async {
        ovms::https::plain()
            .unwrap()
            .http2_prior_knowledge()
            .build()
            .unwrap()
            .post(format!("http://127.0.0.1:{}{path}", server.port))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("grpc-timeout", timeout)
            .body(body)
            .send()
            .await
            .expect("the server answers")
    });
    let header = |name: &str| {
        let value = answer
            .headers()
            .get(name)
            .map(|value| value.to_str().unwrap().to_owned());
        value.unwrap_or_default()
    };
    format!(
        "grpc-status {}: {}",
        header("grpc-status"),
        header("grpc-message")
    )
}
