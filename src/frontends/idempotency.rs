//! Idempotency keys of requests to sequences, beside the request itself.

use hyper::{
    HeaderMap,
    header::{HeaderName, HeaderValue},
};

/// The header, and the metadata of a gRPC call, that has the key.
static HEADER: HeaderName = HeaderName::from_static("ovms-idempotency-key");

/// The key of a request, as its transport has it.
#[derive(Debug, Default)]
pub(super) struct IdempotencyKey(Option<HeaderValue>);

impl IdempotencyKey {
    /// Finds the key of a request.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        Self(headers.get(&HEADER).cloned())
    }

    /// Returns the key, if there is one; empty if it is no text.
    pub(super) fn text(&self) -> Option<&str> {
        let value = self.0.as_ref()?;
        Some(value.to_str().unwrap_or_default())
    }
}
