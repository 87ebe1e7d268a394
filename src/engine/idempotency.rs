//! Idempotency keys of requests.

use crate::{
    error::{Error, Result},
    request::{InferRequest, Parameter},
};

/// The request parameter that has an idempotency key.
const KEY: &str = "idempotency_key";

/// Maximum size of a key in bytes.
const MAX_KEY_LEN: usize = 256;

/// Takes the idempotency key out of the parameters of a request.
///
/// # Errors
///
/// Fails if it is no text, or too long.
pub(super) fn take_key(request: &mut InferRequest) -> Result<Option<String>> {
    let parameters = &mut request.parameters;
    match parameters.iter().find(|(name, _)| name == KEY) {
        None => Ok(None),
        Some((_, Parameter::Text(text))) => check_key(text).map(Some),
        Some(_) => Err(Error::invalid(format!("Parameter {KEY} is no text"))),
    }
}

/// Checks an idempotency key.
///
/// # Errors
///
/// Fails if it is empty or too long.
pub(super) fn check_key(key: &str) -> Result<String> {
    match key.len() {
        1..=MAX_KEY_LEN => Ok(key.to_owned()),
        length => Err(Error::invalid(format!(
            "Idempotency key has {length} bytes; expected 1 to {MAX_KEY_LEN}"
        ))),
    }
}
