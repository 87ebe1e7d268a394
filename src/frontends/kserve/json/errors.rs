//! Errors of bodies that could not be parsed. Only made after a failure, so they may take their time.

use crate::{
    error::Error,
    frontends::{json_error::no_object, json_numbers::JsonError},
};

pub(super) use crate::frontends::json_error::reason;

/// Why a body was not read to its end.
#[derive(Debug)]
pub(super) struct Unread(Error);

impl From<JsonError> for Unread {
    fn from(error: JsonError) -> Self {
        let text = format!("{} - {error}", not_an_array().message());
        Self(Error::invalid(text))
    }
}

impl From<Error> for Unread {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

/// Says what is wrong with a body. That it is no JSON comes first, wherever that shows.
pub(super) fn explain(body: &[u8], Unread(error): Unread) -> Error {
    no_object(body).unwrap_or(error)
}

/// The error of anything in `inputs` that is not what it should be.
pub(super) fn not_an_array() -> Error {
    Error::invalid("Could not parse input content. Not valid ndarray detected")
}
