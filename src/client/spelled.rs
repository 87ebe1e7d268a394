//! Requests spelled out, for other programs to send: what goes over HTTP as it stands, and what goes
//! over gRPC as JSON, in the mapping that protobuf has for it.
//!
//! Nothing is sent here, and no connection is needed.

use bytes::Bytes;
use serde_json::{Value as Json, json};

use super::{
    address::Api,
    connection::SEQUENCES,
    error::RequestError,
    events,
    http::{self, HttpBody, to_json},
    kserve_grpc, kserve_rest,
    message::{ModelId, Request},
    options::ClientOptions,
    tfs, tfs_grpc, tfs_rest,
};
use crate::{
    proto::kserve::RepositoryIndexRequest,
    request::Parameter,
    tls::{ClientTls, ClientTlsOptions},
};

/// A request in the words of its transport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spelled {
    /// Call over HTTP.
    Http(HttpCall),
    /// Call over gRPC.
    Grpc(GrpcCall),
}

/// A request over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpCall {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// The URL, with what must be escaped escaped.
    pub url: String,
    /// Path of the Unix socket, if it goes over one.
    pub unix_socket: Option<String>,
    /// Settings of TLS, if it goes over that.
    pub tls: Option<ClientTlsOptions>,
    /// The headers that the request does not have anyway.
    pub headers: Vec<(String, String)>,
    /// The body; empty if there is none.
    pub body: Bytes,
    /// Marks a call whose answer comes piece by piece.
    pub has_events: bool,
}

/// A request over gRPC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcCall {
    /// Host and port, or the path of a Unix socket.
    pub address: String,
    /// Marks an address that is the path of a Unix socket.
    pub is_unix_socket: bool,
    /// Settings of TLS, if it goes over that.
    pub tls: Option<ClientTlsOptions>,
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
            Ok(grpc(server, kserve_grpc::INFER, messages))
        }
        Api::KserveRest => {
            let segments = http::segments(&request.model, Some("infer"));
            let call = http_call(server, "POST", &segments);
            Ok(with_body(call, kserve_rest::http_body(request)?))
        }
        Api::TfsGrpc => {
            let messages = vec![predict_message(request)?];
            Ok(grpc(server, tfs_grpc::PREDICT, messages))
        }
        Api::TfsRest => {
            let segments = tfs_rest::segments(&request.model, &[]);
            let mut call = http_call(server, "POST", &segments);
            call.url.push_str(tfs_rest::PREDICT);
            Ok(with_body(call, tfs_rest::http_body(request)?))
        }
    }
}

/// Spells requests over a stream: over gRPC one for all, over REST one for each.
///
/// # Errors
///
/// Fails if a request has no form in the protocol, or the protocol has no streams.
pub fn stream(server: &ClientOptions, requests: &[Request]) -> Result<Vec<Spelled>, RequestError> {
    match server.api {
        Api::KserveGrpc => {
            let messages = requests.iter().map(kserve_message);
            let messages = messages.collect::<Result<_, _>>()?;
            Ok(vec![grpc(server, kserve_grpc::STREAM, messages)])
        }
        Api::KserveRest => {
            let spelled = requests.iter().map(|request| {
                let segments = http::segments(&request.model, Some(events::VERB));
                let mut call = http_call(server, "POST", &segments);
                call.has_events = true;
                Ok(with_body(call, events::body(request)?))
            });
            spelled.collect()
        }
        api @ (Api::TfsGrpc | Api::TfsRest) => {
            let what = "streams";
            Err(RequestError::NoField { api, what })
        }
    }
}

/// Spells the question for the live sequences of a model.
///
/// # Errors
///
/// Fails if the protocol is not over HTTP.
pub fn sequences(server: &ClientOptions, model: &ModelId) -> Result<Spelled, RequestError> {
    match server.api {
        Api::KserveRest | Api::TfsRest => Ok(get(server, &tfs_rest::segments(model, &[SEQUENCES]))),
        api @ (Api::KserveGrpc | Api::TfsGrpc) => {
            let what = "lists of sequences";
            Err(RequestError::NoField { api, what })
        }
    }
}

/// Spells the question for the inputs and outputs of a model.
///
/// # Errors
///
/// Fails if the version has no form in the protocol.
pub fn metadata(server: &ClientOptions, model: &ModelId) -> Result<Spelled, RequestError> {
    Ok(match server.api {
        Api::KserveGrpc => {
            let message = kserve_grpc::metadata_request(model);
            let message = to_json("inference.ModelMetadataRequest", &message);
            grpc(server, kserve_grpc::METADATA, vec![message])
        }
        Api::KserveRest => get(server, &http::segments(model, None)),
        Api::TfsGrpc => {
            let message = tfs_grpc::metadata_request(model)?;
            let message = to_json("tensorflow.serving.GetModelMetadataRequest", &message);
            grpc(server, tfs_grpc::METADATA, vec![message])
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
        (Api::KserveRest, _) => Spelled::Http(http_call(server, "POST", &kserve_rest::INDEX)),
        (Api::TfsGrpc, Some(model)) => {
            let message = tfs_grpc::status_request(model)?;
            let message = to_json("tensorflow.serving.GetModelStatusRequest", &message);
            grpc(server, tfs_grpc::STATUS, vec![message])
        }
        (Api::KserveGrpc, _) | (Api::TfsGrpc, None) => {
            let message = RepositoryIndexRequest::default();
            let message = to_json("inference.RepositoryIndexRequest", &message);
            grpc(server, kserve_grpc::INDEX, vec![message])
        }
        (Api::TfsRest, Some(model)) => get(server, &tfs_rest::segments(model, &[])),
        (Api::TfsRest, None) => get(server, &tfs::CONFIG),
    })
}

fn kserve_message(request: &Request) -> Result<String, RequestError> {
    let mut message = kserve_grpc::message(request)?;
    message.parameters.clear();
    let text = to_json("inference.ModelInferRequest", &message);
    let parameters = request.parameters.iter();
    let parameters = parameters.map(|(key, value)| (key.as_str(), parameter(value).to_string()));
    Ok(with_members(text, "parameters", parameters))
}

fn predict_message(request: &Request) -> Result<String, RequestError> {
    let mut message = tfs_grpc::message(request)?;
    let inputs = std::mem::take(&mut message.inputs);
    let text_of_all = to_json("tensorflow.serving.PredictRequest", &message);
    let inputs = inputs.iter();
    let inputs = inputs.map(|(name, it)| (name.as_str(), to_json("tensorflow.TensorProto", it)));
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
        Parameter::Empty => json!({}),
    }
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

fn grpc(server: &ClientOptions, path: &str, messages: Vec<String>) -> Spelled {
    Spelled::Grpc(GrpcCall {
        address: unix_socket(server).unwrap_or_else(|| server.address.authority()),
        is_unix_socket: server.address.unix_socket().is_some(),
        tls: tls(server),
        method: path.trim_start_matches('/').to_owned(),
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
        unix_socket: unix_socket(server),
        tls: tls(server),
        headers: headers(server),
        body: Bytes::new(),
        has_events: false,
    }
}

fn unix_socket(server: &ClientOptions) -> Option<String> {
    let path = server.address.unix_socket()?;
    Some(path.display().to_string())
}

fn tls(server: &ClientOptions) -> Option<ClientTlsOptions> {
    let options = server.tls.as_ref().map(ClientTls::options);
    let options = options.cloned().unwrap_or_default();
    server.address.is_tls().then_some(options)
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

fn with_body(mut call: HttpCall, body: HttpBody) -> Spelled {
    let headers = body.headers.into_iter();
    call.headers
        .extend(headers.map(|(name, value)| (name.to_owned(), value)));
    call.body = body.bytes;
    Spelled::Http(call)
}
