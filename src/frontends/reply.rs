//! Errors as each protocol has them, and the one place where a request's error is logged.

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::Response,
};
use serde::Serialize;

use crate::{
    budget::{Charge, OVERHEAD},
    error::{Error, Result, chain},
};

/// The longest text of a gRPC status, in bytes. It travels in a header: percent-encoding may make
/// three bytes of each, and clients refuse headers of more than 8 KiB.
const LONGEST_TEXT: usize = 2048;

/// Turns an error into a gRPC status.
pub(super) fn status(error: &Error) -> tonic::Status {
    log(error);
    tonic::Status::new(error.kind().grpc(), shortened(error.message()))
}

/// Cuts the end off a text that no header can take, such as one with a name of a megabyte.
fn shortened(text: &str) -> String {
    if text.len() <= LONGEST_TEXT {
        return text.to_owned();
    }
    let end = (0..=LONGEST_TEXT)
        .rev()
        .find(|&end| text.is_char_boundary(end));
    format!("{}…", &text[..end.unwrap_or(0)])
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

/// Makes a good answer of what has a JSON form.
pub(super) fn serialized(value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => json(StatusCode::OK, body),
        Err(error) => response(&Error::internal("Internal server error").with_source(error)),
    }
}

/// Returns how many times larger than its tensors an answer may get while it is written: as JSON, a byte
/// takes four, in a buffer that doubles.
pub(super) const fn growth(binary: bool) -> usize {
    if binary { 4 } else { 8 }
}

/// A good answer with a JSON body, and perhaps binary data behind it, before it is handed to the
/// server.
pub(super) struct Whole {
    pub(super) body: Vec<u8>,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
}

impl Whole {
    /// Makes the HTTP response, whose body has the charge, as much of it as it takes.
    ///
    /// # Errors
    ///
    /// Fails if the body has become larger than the charge, and the budget has nothing left.
    pub(super) fn into_response(self, mut charge: Charge) -> Result<Response> {
        let size = self.body.capacity() + OVERHEAD;
        charge.grow(size)?;
        charge.shrink(size);
        let mut response = json(StatusCode::OK, charge.keep(self.body.into()));
        response.headers_mut().extend(self.headers);
        Ok(response)
    }
}

/// Errors of clients are logged at a low level, ours with their causes.
fn log(error: &Error) {
    if error.kind().http() == 500 {
        tracing::error!("{}", chain(error));
    } else {
        tracing::debug!("{}", chain(error));
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_TEXT, shortened};

    #[test]
    fn only_a_text_that_is_too_long_is_cut() {
        let longest = "x".repeat(LONGEST_TEXT);
        assert_eq!(shortened(&longest), longest);
        assert_eq!(shortened(&format!("{longest}y")), format!("{longest}…"));
        // Not within a character.
        let wide = format!("x{}", "ü".repeat(LONGEST_TEXT));
        assert_eq!(shortened(&wide).len(), LONGEST_TEXT - 1 + "…".len());
    }
}
