//! Calls as they stand: REST by method, path, headers, and body; gRPC by service, method, and message as JSON.
//!
//! `[NAME: VALUE]` behind a path is a header. `‖` in a body divides JSON from the binary data behind it, and the header
//! with the length of the JSON is sent. `graph MESSAGE` is an inference over gRPC whose outputs are shown as text, since
//! the handlers of the fixtures answer with text. `«TEXT*N»` stands for a text N times, `«bytes HEX*N»` for such bytes, and
//! `«base64 HEX*N»` for those as messages have them.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use ovms::proto::{DESCRIPTORS, kserve::ModelInferRequest};
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, SerializeOptions};

use super::{CODES, Served};
use crate::support::{
    graphs,
    grpc::error,
    http::{self, Answer, JSON_LENGTH},
    wire::{self, Call},
};

/// Sends a call, and returns its answer in a line.
pub(super) fn send(served: &Served, call: &str) -> String {
    let (first, rest) = call.split_once(' ').unwrap_or((call, ""));
    if first == "graph" {
        let json = String::from_utf8(expanded(rest)).unwrap();
        let message = encoded(
            &pool()
                .get_message_by_name("inference.ModelInferRequest")
                .unwrap(),
            &json,
        );
        let request = ModelInferRequest::decode(message.as_slice()).unwrap();
        return graphs::reported(&served.grpc, request);
    }
    if first.contains('/') {
        return grpc(served, first, &String::from_utf8(expanded(rest)).unwrap());
    }
    let (path, mut rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let path = String::from_utf8(expanded(path)).unwrap();
    let mut headers: Vec<(String, String)> = Vec::new();
    while let Some((header, more)) = header(rest) {
        let (name, value) = header.split_once(": ").unwrap();
        headers.push((name.to_owned(), String::from_utf8(expanded(value)).unwrap()));
        rest = more;
    }
    let body = match rest.split_once('‖') {
        None => expanded(rest),
        Some((json, binary)) => {
            let json = expanded(json);
            if headers
                .iter()
                .all(|(name, _)| !name.eq_ignore_ascii_case(JSON_LENGTH))
            {
                headers.push((JSON_LENGTH.to_owned(), json.len().to_string()));
            }
            [json, expanded(binary)].concat()
        }
    };
    let headers: Vec<(&str, &str)> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    rest_line(&http::send(served.server(), first, &path, &headers, &body))
}

/// Takes a header from the front of a text.
fn header(text: &str) -> Option<(&str, &str)> {
    let (header, rest) = text.strip_prefix('[')?.split_once(']')?;
    let is_header = header
        .split_once(": ")
        .is_some_and(|(name, _)| !name.contains(['"', ' ']));
    is_header.then(|| (header, rest.trim_start()))
}

/// Returns status and text of an answer over REST.
pub(super) fn rest_line(answer: &Answer) -> String {
    let allow = answer
        .header("allow")
        .map_or(String::new(), |allow| format!("; allow: {allow}"));
    if let Some(length) = answer.header(JSON_LENGTH) {
        let (json, binary) = answer.body.split_at(length.parse().unwrap());
        let json = String::from_utf8_lossy(json);
        let hex: String = binary.iter().map(|byte| format!("{byte:02x}")).collect();
        return format!("{} {json}‖{hex}", answer.status);
    }
    let text = answer.text();
    let kind = answer.header("content-type");
    let is_error = !(200..300).contains(&answer.status);
    if is_error && kind == Some("application/json") && !text.is_empty() {
        return format!("{}{allow}", answer.error());
    }
    let kind = match kind {
        Some("application/json") => String::new(),
        Some(kind) => format!(" ({kind})"),
        None => " (no content)".to_owned(),
    };
    let line = format!("{}{kind} {text}", answer.status);
    format!("{}{allow}", line.trim_end())
}

/// Returns the refusal with the code that gRPC has for the status.
pub(super) fn with_code(line: &str) -> String {
    for (code, status) in CODES {
        if let Some(text) = line.strip_prefix(&format!("{status}: ")) {
            return format!("{code}: {text}");
        }
    }
    line.to_owned()
}

fn grpc(served: &Served, path: &str, json: &str) -> String {
    let pool = pool();
    let (service, name) = path.split_once('/').unwrap();
    let service = pool.get_service_by_name(service);
    let method = service.and_then(|service| service.methods().find(|method| method.name() == name));
    let message = method
        .as_ref()
        .map_or(Vec::new(), |method| encoded(&method.input(), json));
    let call = Call::of(&format!("/{path}"), message);
    match wire::send(served.server(), &[call]).remove(0) {
        Err(status) => error(&status),
        Ok(answer) => match method {
            None => format!("OK, {} bytes", answer.len()),
            Some(method) => {
                let answer = DynamicMessage::decode(method.output(), answer).unwrap();
                let options = SerializeOptions::new().use_proto_field_name(true);
                let json = answer.serialize_with_options(serde_json::value::Serializer, &options);
                format!("OK {}", json.unwrap())
            }
        },
    }
}

fn pool() -> DescriptorPool {
    DescriptorPool::decode(DESCRIPTORS).unwrap()
}

/// Encodes a message that is given as JSON.
fn encoded(kind: &MessageDescriptor, json: &str) -> Vec<u8> {
    let json = if json.is_empty() { "{}" } else { json };
    let mut json = serde_json::Deserializer::from_str(json);
    DynamicMessage::deserialize(kind.clone(), &mut json)
        .unwrap_or_else(|error| panic!("{}: {error}", kind.name()))
        .encode_to_vec()
}

/// Returns the bytes of a text with its repetitions.
fn expanded(text: &str) -> Vec<u8> {
    let mut pieces = text.split('«');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let (inside, rest) = piece.split_once('»').expect("`«` ends with `»`");
        bytes.extend(repeated(inside));
        bytes.extend_from_slice(rest.as_bytes());
    }
    bytes
}

fn repeated(inside: &str) -> Vec<u8> {
    let (inside, count) = inside
        .rsplit_once('*')
        .expect("`*` comes before the number");
    let count = count.parse().unwrap();
    if let Some(hex) = inside.strip_prefix("bytes ") {
        return unhexed(hex).repeat(count);
    }
    if let Some(hex) = inside.strip_prefix("base64 ") {
        return BASE64_STANDARD
            .encode(unhexed(hex).repeat(count))
            .into_bytes();
    }
    inside.repeat(count).into_bytes()
}

fn unhexed(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().filter(|digit| *digit != ' ').collect();
    let pairs = digits.chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap())
        .collect()
}
