//! The times of requests.

use crate::{
    error::{Error, Result},
    graph::Timestamp,
    request::{InferRequest, Parameter},
};

/// The parameter of requests and responses that is the time of their packets.
pub const TIMESTAMP: &str = "OVMS_MP_TIMESTAMP";

/// Returns the time that a request gives its packets itself, if it does.
///
/// # Errors
///
/// Fails if it is no whole number of 64 bits with a sign, or a number that means something else
/// than a time.
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

/// Returns the time of a request that gives none: one after that of the last that was accepted, or
/// zero.
///
/// # Errors
///
/// Fails if there is no time after the last.
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
