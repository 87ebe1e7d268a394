//! Spans of requests: which requests have one, and what it has. Names and attributes are those of OpenTelemetry's
//! semantic conventions, where these have any.

use std::sync::Arc;

use axum::http::{Method, Request};
use tonic::Code;

use super::{
    Peer, Protocol,
    writer::{MAX_TEXT_LEN, Record},
};
use crate::{
    text::cut_bytes,
    trace::{TraceSpan, Tracer},
};

/// Paths of gRPC services whose calls have spans; health and reflection have none.
const SERVICES: [&str; 2] = ["/inference.", "/tensorflow.serving."];

/// Ends of the paths that probes call.
const PROBES: [&str; 3] = ["/ServerLive", "/ServerReady", "/ModelReady"];

/// Begins the span of a request, if it is sampled and no probe.
pub(super) fn begin<B>(
    tracer: &Arc<Tracer>,
    protocol: Protocol,
    peer: Peer,
    request: &Request<B>,
) -> Option<TraceSpan> {
    let path = request.uri().path();
    if !has_span(protocol, path) {
        return None;
    }
    let mut span = tracer.begin(request.headers())?;
    match protocol {
        Protocol::Grpc => {
            let call = path.trim_start_matches('/');
            let (service, method) = call.split_once('/').unwrap_or((call, ""));
            span.named(cut_bytes(call, MAX_TEXT_LEN));
            span.set("rpc.system", "grpc");
            span.set("rpc.service", cut_bytes(service, MAX_TEXT_LEN));
            span.set("rpc.method", cut_bytes(method, MAX_TEXT_LEN));
        }
        Protocol::Http => {
            let sent = request.method().as_str();
            let known = known_method(request.method());
            // As the conventions name spans of other methods.
            let method = known.unwrap_or("HTTP");
            let route = route(path);
            span.named(match &route {
                Some(route) => format!("{method} {route}"),
                None => method.to_owned(),
            });
            span.set("http.request.method", known.unwrap_or("_OTHER"));
            if known.is_none() {
                let sent = cut_bytes(sent, MAX_TEXT_LEN);
                span.set("http.request.method_original", sent);
            }
            span.set("url.path", cut_bytes(path, MAX_TEXT_LEN));
            if let Some(route) = route {
                span.set("http.route", route);
            }
        }
    }
    span.set("ovms.api", api(path));
    span.set("client.address", peer.source().to_string());
    Some(span)
}

/// Returns the name of a method that HTTP defines; any other is the client's own word.
fn known_method(method: &Method) -> Option<&'static str> {
    const KNOWN: [&str; 9] = [
        "GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "CONNECT", "TRACE",
    ];
    KNOWN.into_iter().find(|known| *method == **known)
}

/// Records the outcome of a request in its span.
pub(super) fn end(span: &mut TraceSpan, record: &Record) {
    if let Some(model) = &record.model {
        span.set("ovms.servable", model.clone());
    }
    if let Some(version) = record.version {
        span.set("ovms.version", version);
    }
    let status = record.status;
    match record.protocol {
        Protocol::Http => {
            span.set("http.response.status_code", i64::from(status));
            if status >= 499 {
                span.failed(&format!("HTTP {status}"));
            }
        }
        Protocol::Grpc => {
            span.set("rpc.grpc.status_code", i64::from(status));
            let code = Code::from(i32::from(status));
            if is_error(code) {
                span.failed(&format!("gRPC {code:?}"));
            }
        }
    }
}

/// Returns whether a code says that the server has failed, or that the client left.
fn is_error(code: Code) -> bool {
    matches!(
        code,
        Code::Cancelled
            | Code::Unknown
            | Code::DeadlineExceeded
            | Code::Unimplemented
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss
    )
}

/// Returns whether requests to a path have spans.
fn has_span(protocol: Protocol, path: &str) -> bool {
    match protocol {
        Protocol::Grpc => {
            SERVICES.iter().any(|service| path.starts_with(service))
                && !PROBES.iter().any(|method| path.ends_with(method))
        }
        Protocol::Http => {
            let path = path.strip_prefix("//").map_or(path, |_| &path[1..]);
            let versioned = ["/v1/", "/v2/", "/v3/"];
            let is_versioned = versioned.iter().any(|version| path.starts_with(version));
            // A servable may be named so.
            let lists = ["/v1/models", "/v2/models", "/v3/models"];
            let is_probe = path.starts_with("/v2/health/")
                || (path.strip_suffix("/ready")).is_some_and(|above| !lists.contains(&above));
            path == "/v2" || (is_versioned && !is_probe)
        }
    }
}

/// Returns the API of a path.
fn api(path: &str) -> &'static str {
    let tensorflow = ["/tensorflow.", "/v1/", "//v1/"];
    match tensorflow.iter().any(|prefix| path.starts_with(prefix)) {
        true => "TensorFlowServing",
        false => "KServe",
    }
}

/// Returns a path below `models` without what is in its place: all requests of a kind have the same route.
fn route(path: &str) -> Option<String> {
    let path = path.strip_prefix("//").map_or(path, |_| &path[1..]);
    let fixed = [
        "/v1/config",
        "/v1/config/reload",
        "/v2",
        "/v2/repository/index",
    ];
    if fixed.contains(&path) {
        return Some(path.to_owned());
    }
    let (api, rest) = path.strip_prefix('/')?.split_once("/models/")?;
    if !["v1", "v2"].contains(&api) {
        return None;
    }
    let mut route = format!("/{api}/models");
    let mut parts = rest.split('/');
    let action = |part: &str| match part.split_once(':') {
        Some((_, action @ ("predict" | "classify" | "regress"))) => format!(":{action}"),
        _ => String::new(),
    };
    route.push_str("/{model}");
    route.push_str(&action(parts.next()?));
    while let Some(part) = parts.next() {
        let place = match part {
            "versions" => "/versions/{version}",
            "labels" => "/labels/{label}",
            "sequences" if parts.clone().next().is_none() => {
                route.push_str("/sequences");
                continue;
            }
            "sequences" => "/sequences/{id}",
            "infer" | "generate" | "generate_stream" | "config" | "stats" | "metadata" => {
                route.push('/');
                route.push_str(part);
                continue;
            }
            _ => return None,
        };
        route.push_str(place);
        route.push_str(&action(parts.next()?));
    }
    Some(route)
}

#[cfg(test)]
mod tests {
    use axum::http::Method;

    use super::{Protocol, has_span, known_method, route};

    #[test]
    fn words_of_clients_are_no_methods() {
        assert_eq!(known_method(&Method::PATCH), Some("PATCH"));
        for word in ["get", "FROBNICATE", &"A".repeat(100_000)] {
            let method = word.parse().unwrap();
            assert_eq!(known_method(&method), None, "{}", word.len());
        }
    }

    #[test]
    fn routes_have_no_names_of_their_requests() {
        for (path, expected) in [
            ("/v2/models/m/infer", Some("/v2/models/{model}/infer")),
            (
                "/v2/models/m/versions/3/generate_stream",
                Some("/v2/models/{model}/versions/{version}/generate_stream"),
            ),
            ("/v1/models/m:predict", Some("/v1/models/{model}:predict")),
            (
                "//v1/models/m/versions/1:predict",
                Some("/v1/models/{model}/versions/{version}:predict"),
            ),
            (
                "/v1/models/m/sequences/17",
                Some("/v1/models/{model}/sequences/{id}"),
            ),
            (
                "/v1/models/m/versions/2/sequences",
                Some("/v1/models/{model}/versions/{version}/sequences"),
            ),
            ("/v1/models/m:x", Some("/v1/models/{model}")),
            ("/v2/models/m/any/thing", None),
            ("/v1/config/reload", Some("/v1/config/reload")),
            ("/v1/config/other", None),
            ("/v2", Some("/v2")),
            ("/v2/models/ready", Some("/v2/models/{model}")),
            ("/x/models/m", None),
        ] {
            assert_eq!(route(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn probes_have_no_spans() {
        for (protocol, path, expected) in [
            (
                Protocol::Grpc,
                "/inference.GRPCInferenceService/ModelInfer",
                true,
            ),
            (
                Protocol::Grpc,
                "/inference.GRPCInferenceService/ModelReady",
                false,
            ),
            (Protocol::Grpc, "/grpc.health.v1.Health/Check", false),
            (
                Protocol::Grpc,
                "/tensorflow.serving.PredictionService/Predict",
                true,
            ),
            (Protocol::Http, "/v2/models/m/infer", true),
            (Protocol::Http, "//v1/models/m:predict", true),
            (Protocol::Http, "/v2", true),
            (Protocol::Http, "/v2/models/ready", true),
            (Protocol::Http, "/v1/models/ready", true),
            (Protocol::Http, "/v2/models/m/ready", false),
            (Protocol::Http, "/v2/models/ready/ready", false),
            (Protocol::Http, "/v2/models/models/ready", false),
            (Protocol::Http, "/v2/models/m/versions/1/ready", false),
            (Protocol::Http, "/v20", false),
            (Protocol::Http, "/v2/health/live", false),
            (Protocol::Http, "/metrics", false),
            (Protocol::Http, "/", false),
        ] {
            assert_eq!(has_span(protocol, path), expected, "{path}");
        }
    }
}
