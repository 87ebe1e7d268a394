//! Errors as each protocol has them, and the one place where a request's fault is logged.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};

use crate::error::{Error, chain};

/// Turns an error into a gRPC status.
pub(super) fn status(error: &Error) -> tonic::Status {
    log(error);
    tonic::Status::new(error.kind().grpc(), error.message())
}

/// Turns an error into an HTTP response with a body of `{"error": text}`.
pub(super) fn response(error: &Error) -> Response {
    log(error);
    let status =
        StatusCode::from_u16(error.kind().http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = serde_json::json!({ "error": error.message() }).to_string();
    json(status, body)
}

/// Makes an HTTP response with a JSON body.
pub(super) fn json(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

/// A client's fault is nothing to wake anybody for; ours is, with its causes.
fn log(error: &Error) {
    if error.kind().http() == 500 {
        tracing::error!("{}", chain(error));
    } else {
        tracing::debug!("{}", chain(error));
    }
}
