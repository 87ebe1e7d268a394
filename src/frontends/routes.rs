//! Common parts of the paths of the HTTP ports: which port has them, their methods, and answers for what is not there.

use axum::{
    handler::Handler,
    http::header,
    response::{IntoResponse, Response},
    routing::{MethodRouter, get, post},
};

use super::guard::RestShared;
use crate::error::{Error, ErrorKind, Result};

/// The port that the paths are those of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpPort {
    /// Everything.
    Rest,
    /// Probes, figures, states, and reloads.
    Management,
}

/// Returns the methods of a path that is only read.
pub(super) fn get_only<T: 'static>(handler: impl Handler<T, RestShared>) -> Route {
    get(handler).fallback(|| async { not_allowed("GET, HEAD, OPTIONS") })
}

/// Returns the methods of a path that only acts.
pub(super) fn post_only<T: 'static>(handler: impl Handler<T, RestShared>) -> Route {
    post(handler).fallback(|| async { not_allowed("POST, OPTIONS") })
}

/// The methods of a path, with what answers them.
pub(super) type Route = MethodRouter<RestShared>;

/// Makes the answer for a method that a path has not; `allow` is those that it has.
pub(super) fn not_allowed(allow: &'static str) -> Response {
    let error = Error::new(ErrorKind::MethodNotAllowed, "Unsupported method");
    ([(header::ALLOW, allow)], error).into_response()
}

/// A number that no version has: folders of versions are named by digits.
pub(super) const NO_NUMBER: i64 = -1;

/// Reads a version of a path; `Ok(None)` is the default version.
pub(super) fn version(text: &str) -> Result<Option<i64>> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(unknown_path());
    }
    match text.parse::<i64>() {
        Ok(0) => Ok(None),
        Ok(number) => Ok(Some(number)),
        // All digits and no i64. The look-up refuses it, as pipelines and graphs take any version.
        Err(_) => Ok(Some(NO_NUMBER)),
    }
}

/// The answer for a path that is not in the table.
pub(super) fn unknown_path() -> Error {
    Error::new(ErrorKind::NotFound, "Invalid request URL")
}
