//! Errors of bodies that could not be parsed. Only made after a failure, so they may take their time.

use crate::{
    error::Error,
    frontends::{json_error::no_object, json_numbers::JsonError},
};

pub(super) use crate::frontends::json_error::reason;

/// Why a body was not read to its end.
#[derive(Debug)]
pub(super) enum Unread {
    /// The text as such, or the elements of an input.
    Text(JsonError),
    /// It is no request.
    Request(Error),
}

impl From<JsonError> for Unread {
    fn from(error: JsonError) -> Self {
        Self::Text(error)
    }
}

impl From<Error> for Unread {
    fn from(error: Error) -> Self {
        Self::Request(error)
    }
}

/// Says what is wrong with a body. That it is no JSON comes first, wherever that shows.
pub(super) fn explain(body: &[u8], unread: Unread) -> Error {
    if let Some(error) = no_object(body) {
        return error;
    }
    match unread {
        Unread::Text(failure) => {
            Error::invalid(format!("{} - {failure}", not_an_array().message()))
        }
        Unread::Request(error) => error,
    }
}

/// The error of anything in `inputs` that is not what it should be.
pub(super) fn not_an_array() -> Error {
    Error::invalid("Could not parse input content. Not valid ndarray detected")
}
