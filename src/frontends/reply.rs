//! Errors as each protocol has them, and the one place where a request's error is logged.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

use super::{gzip, shortened};
use crate::{
    budget::{Budget, OVERHEAD},
    error::{Error, Result, chain},
    task,
};

/// The longest text of a gRPC status, in bytes. It travels in a header: percent-encoding may make
/// three bytes of each, and clients refuse headers of more than 8 KiB.
const LONGEST_TEXT: usize = 2048;

impl From<Error> for tonic::Status {
    fn from(error: Error) -> Self {
        log(&error);
        Self::new(
            error.kind().grpc(),
            shortened(error.message(), LONGEST_TEXT),
        )
    }
}

/// An HTTP response with a body of `{"error": text}`.
impl IntoResponse for Error {
    fn into_response(self) -> Response {
        log(&self);
        let status =
            StatusCode::from_u16(self.kind().http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::json!({ "error": self.message() }).to_string();
        json(status, body)
    }
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

/// Makes a good answer of what has a JSON form.
pub(super) fn serialized(value: &impl Serialize) -> Result<Response> {
    serde_json::to_vec(value)
        .map(|body| json(StatusCode::OK, body))
        .map_err(|error| Error::internal("Internal server error").with_source(error))
}

/// How many times larger than its tensors an answer as JSON may get while it is written: a byte takes four,
/// in a buffer that doubles.
pub(super) const JSON_GROWTH: usize = 8;

/// The same of one that may have its tensors as binary data behind the JSON.
pub(super) const BINARY_GROWTH: usize = 4;

/// A good answer with a JSON body, and perhaps binary data behind it, before it is handed to the
/// server.
pub(super) struct Whole {
    pub(super) body: Vec<u8>,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
}

/// Writes an answer of tensors of so many bytes, packed if its client wants that. The body has the charge for
/// it, as much as it takes.
///
/// # Errors
///
/// Fails if the answer cannot be written, or the budget has no room for it.
pub(super) async fn written(
    request: &HeaderMap,
    budget: &Budget,
    bytes: usize,
    growth: usize,
    write: impl FnOnce() -> Result<Whole> + Send + 'static,
) -> Result<Response> {
    let compress = gzip::wished(request);
    let mut charge = budget.charge(bytes * growth)?;
    let write = move || {
        let mut whole = write()?;
        if compress {
            gzip::pack(&mut whole);
        }
        let size = whole.body.capacity() + OVERHEAD;
        charge.grow(size)?;
        charge.shrink(size);
        let mut response = json(StatusCode::OK, charge.keep(whole.body.into()));
        response.headers_mut().extend(whole.headers);
        Ok(response)
    };
    task::sized("encode", bytes, write).await
}

/// Errors of clients are logged at a low level, ours with their causes.
fn log(error: &Error) {
    if error.kind().http() == 500 {
        tracing::error!("{}", chain(error));
    } else {
        tracing::debug!("{}", chain(error));
    }
}
