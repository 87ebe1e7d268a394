//! Requests spelled out, for other programs to send: what goes over HTTP as it stands, and what goes
//! over gRPC as JSON, in the mapping that protobuf has for it.
//!
//! Nothing is sent here, and no connection is needed.

use std::sync::LazyLock;

use bytes::Bytes;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use serde_json::{Value as Json, json};

use super::{
    api::Api,
    connection::ClientOptions,
    error::RequestError,
    http, kserve_grpc, kserve_rest,
    message::{ModelId, Request},
    tfs_grpc, tfs_rest,
};
use crate::{
    proto::{
        DESCRIPTORS,
        kserve::{ModelMetadataRequest, RepositoryIndexRequest},
        tensorflow_serving::{GetModelMetadataRequest, GetModelStatusRequest},
    },
    request::Parameter,
};

/// Prefix of the methods of KServe's service.
const KSERVE: &str = "inference.GRPCInferenceService";

/// The messages of all services.
static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(DESCRIPTORS).expect("the build script has compiled the descriptors")
});

/// A request in the words of its transport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spelled {
    /// Over HTTP.
    Http(HttpCall),
    /// Over gRPC.
    Grpc(GrpcCall),
}

/// A request over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpCall {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// The URL, with what must be escaped escaped.
    pub url: String,
    /// The headers that the request does not have anyway.
    pub headers: Vec<(String, String)>,
    /// The body; empty if there is none.
    pub body: Bytes,
}

/// A request over gRPC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcCall {
    /// Host and port.
    pub address: String,
    /// Service and method, with a slash between them.
    pub method: String,
    /// The metadata.
    pub headers: Vec<(String, String)>,
    /// The messages as JSON; several only over a stream.
    pub messages: Vec<String>,
}

/// Spells an inference.
///
/// # Errors
///
/// Fails if the request has no form in the protocol.
pub fn infer(server: &ClientOptions, request: &Request) -> Result<Spelled, RequestError> {
    match server.api {
        Api::KserveGrpc => {
            let messages = vec![kserve_message(request)?];
            Ok(grpc(server, format!("{KSERVE}/ModelInfer"), messages))
        }
        Api::KserveRest => {
            let body = kserve_rest::request(request)?;
            let segments = kserve_rest::segments(&request.model, Some("infer"));
            let mut call = http_call(server, "POST", &segments);
            call.headers.extend(body.headers());
            call.body = body.bytes;
            Ok(Spelled::Http(call))
        }
        Api::TfsGrpc => {
            let messages = vec![predict_message(request)?];
            let method = "tensorflow.serving.PredictionService/Predict".to_owned();
            Ok(grpc(server, method, messages))
        }
        Api::TfsRest => {
            let body = tfs_rest::request(request)?;
            let segments = tfs_rest::segments(&request.model, &[]);
            let mut call = http_call(server, "POST", &segments);
            call.url.push_str(tfs_rest::PREDICT);
            call.headers.push(json_type());
            call.body = body;
            Ok(Spelled::Http(call))
        }
    }
}

/// Spells requests over one stream, which only KServe over gRPC has.
///
/// # Errors
///
/// Fails if a request has no form in the protocol.
pub fn stream(server: &ClientOptions, requests: &[Request]) -> Result<Spelled, RequestError> {
    let messages = requests.iter().map(kserve_message);
    let messages = messages.collect::<Result<_, _>>()?;
    Ok(grpc(server, format!("{KSERVE}/ModelStreamInfer"), messages))
}

/// Spells the question for the inputs and outputs of a model.
///
/// # Errors
///
/// Fails if the version has no form in the protocol.
pub fn metadata(server: &ClientOptions, model: &ModelId) -> Result<Spelled, RequestError> {
    Ok(match server.api {
        Api::KserveGrpc => {
            let message = ModelMetadataRequest {
                name: model.name.clone(),
                version: model.version.clone().unwrap_or_default(),
            };
            let message = text("inference.ModelMetadataRequest", &message);
            grpc(server, format!("{KSERVE}/ModelMetadata"), vec![message])
        }
        Api::KserveRest => get(server, &kserve_rest::segments(model, None)),
        Api::TfsGrpc => {
            let message = GetModelMetadataRequest {
                model_spec: Some(tfs_grpc::spec(model)?),
                metadata_field: vec![tfs_grpc::SIGNATURES.to_owned()],
            };
            let message = text("tensorflow.serving.GetModelMetadataRequest", &message);
            let method = "tensorflow.serving.PredictionService/GetModelMetadata".to_owned();
            grpc(server, method, vec![message])
        }
        Api::TfsRest => get(server, &tfs_rest::segments(model, &["metadata"])),
    })
}

/// Spells the question for the states of a model, or of all models.
///
/// KServe has states in its list of all models alone.
///
/// # Errors
///
/// Fails if the version has no form in the protocol.
pub fn status(server: &ClientOptions, model: Option<&ModelId>) -> Result<Spelled, RequestError> {
    Ok(match (server.api, model) {
        (Api::KserveRest, _) => {
            Spelled::Http(http_call(server, "POST", &["v2", "repository", "index"]))
        }
        (Api::TfsGrpc, Some(model)) => {
            let message = GetModelStatusRequest {
                model_spec: Some(tfs_grpc::spec(model)?),
            };
            let message = text("tensorflow.serving.GetModelStatusRequest", &message);
            let method = "tensorflow.serving.ModelService/GetModelStatus".to_owned();
            grpc(server, method, vec![message])
        }
        (Api::KserveGrpc, _) | (Api::TfsGrpc, None) => {
            let message = RepositoryIndexRequest::default();
            let message = text("inference.RepositoryIndexRequest", &message);
            grpc(server, format!("{KSERVE}/RepositoryIndex"), vec![message])
        }
        (Api::TfsRest, Some(model)) => get(server, &tfs_rest::segments(model, &[])),
        (Api::TfsRest, None) => get(server, &["v1", "config"]),
    })
}

fn kserve_message(request: &Request) -> Result<String, RequestError> {
    let mut message = kserve_grpc::message(request)?;
    message.parameters.clear();
    let text = text("inference.ModelInferRequest", &message);
    let parameters = request.parameters.iter();
    let parameters = parameters.map(|(key, value)| (key.as_str(), parameter(value).to_string()));
    Ok(with_members(text, "parameters", parameters))
}

fn predict_message(request: &Request) -> Result<String, RequestError> {
    let mut message = tfs_grpc::message(request)?;
    let inputs = std::mem::take(&mut message.inputs);
    let text_of_all = text("tensorflow.serving.PredictRequest", &message);
    let inputs = inputs.iter();
    let inputs = inputs.map(|(name, it)| (name.as_str(), text("tensorflow.TensorProto", it)));
    Ok(with_members(text_of_all, "inputs", inputs))
}

fn parameter(value: &Parameter) -> Json {
    match value {
        Parameter::Bool(value) => json!({ "bool_param": value }),
        // Numbers that JSON programs may not hold exactly are texts.
        Parameter::Int(value) => json!({ "int64_param": value.to_string() }),
        Parameter::UInt(value) => json!({ "uint64_param": value.to_string() }),
        Parameter::Double(value) => json!({ "double_param": value }),
        Parameter::Text(value) => json!({ "string_param": value }),
    }
}

/// Writes a message as JSON.
fn text(name: &str, message: &impl Message) -> String {
    let descriptor = POOL.get_message_by_name(name);
    let descriptor = descriptor.expect("the descriptors have all messages of the services");
    let message = DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice());
    let message = message.expect("what was encoded with the same descriptor");
    let mut out = Vec::new();
    let mut json = serde_json::Serializer::new(&mut out);
    let options = SerializeOptions::new().use_proto_field_name(true);
    let written = message.serialize_with_options(&mut json, &options);
    written.expect("messages have texts for keys");
    String::from_utf8(out).expect("JSON is UTF-8")
}

/// Adds a map to an object, in the order given, which the messages of a pool do not keep.
fn with_members<'a>(
    mut object: String,
    key: &str,
    members: impl Iterator<Item = (&'a str, String)>,
) -> String {
    let members: Vec<_> = members
        .map(|(name, value)| format!("{}:{value}", json!(name)))
        .collect();
    if members.is_empty() {
        return object;
    }
    object.pop();
    let comma = if object.len() > 1 { "," } else { "" };
    object.extend([comma, "\"", key, "\":{", &members.join(","), "}}"]);
    object
}

fn grpc(server: &ClientOptions, method: String, messages: Vec<String>) -> Spelled {
    Spelled::Grpc(GrpcCall {
        address: server.address.to_string(),
        method,
        headers: headers(server),
        messages,
    })
}

fn get(server: &ClientOptions, segments: &[&str]) -> Spelled {
    Spelled::Http(http_call(server, "GET", segments))
}

fn http_call(server: &ClientOptions, method: &'static str, segments: &[&str]) -> HttpCall {
    HttpCall {
        method,
        url: http::url(&server.address, segments),
        headers: headers(server),
        body: Bytes::new(),
    }
}

fn headers(server: &ClientOptions) -> Vec<(String, String)> {
    let headers = server.headers.iter();
    let text = |value: &reqwest::header::HeaderValue| {
        String::from_utf8_lossy(value.as_bytes()).into_owned()
    };
    headers
        .map(|(name, value)| (name.to_string(), text(value)))
        .collect()
}

fn json_type() -> (String, String) {
    ("Content-Type".to_owned(), "application/json".to_owned())
}
