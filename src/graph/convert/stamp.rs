//! Timestamps of requests.

use crate::{
    error::{Error, Result},
    graph::timestamp::Timestamp,
    request::{InferRequest, Parameter},
};

/// Parameter of requests and responses with the timestamp of their packets.
pub const TIMESTAMP: &str = "OVMS_MP_TIMESTAMP";

/// Returns the explicit timestamp of a request, if any.
///
/// # Errors
///
/// Fails if it is not a signed 64-bit integer, or is one of the special timestamp values.
pub fn timestamp(request: &InferRequest) -> Result<Option<Timestamp>> {
    let mut parameters = request.parameters.iter();
    match parameters.find(|(name, _)| name == TIMESTAMP) {
        None => Ok(None),
        Some((_, Parameter::Int(value))) => ordinary(Timestamp::new(*value)).map(Some),
        Some(_) => Err(malformed(&format!(
            "Invalid timestamp format in request parameter {TIMESTAMP}. Should be int64"
        ))),
    }
}

/// Returns the timestamp of a request without an explicit one: one after that of the last accepted
/// request, or zero.
///
/// # Errors
///
/// Fails if there is no timestamp after the last.
pub fn following(last: Option<Timestamp>) -> Result<Timestamp> {
    let next = |last: Timestamp| Timestamp::new(last.value().saturating_add(1));
    ordinary(last.map_or(Timestamp::new(0), next))
}

fn ordinary(at: Timestamp) -> Result<Timestamp> {
    if at.is_ordinary() {
        Ok(at)
    } else {
        Err(malformed(&at.to_string()))
    }
}

fn malformed(reason: &str) -> Error {
    Error::invalid(format!("Malformed packet timestamp - {reason}"))
}
