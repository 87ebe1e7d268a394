//! What is wrong with a body that could not be read. Only reached after a failure, so it may take
//! its time.

use crate::{
    error::Error,
    frontends::{json_fault::no_object, json_numbers::Fault},
};

pub(super) use crate::frontends::json_fault::reason;

/// Why a body was not read to its end.
#[derive(Debug)]
pub(super) enum Unread {
    /// The text as such, or the elements of an input.
    Text(Fault),
    /// It is no request.
    Request(Error),
}

impl From<Fault> for Unread {
    fn from(fault: Fault) -> Self {
        Self::Text(fault)
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
        Unread::Text(fault) => Error::invalid(format!("{} - {fault}", not_an_array().message())),
        Unread::Request(error) => error,
    }
}

/// The fault of anything in `inputs` that is not what it should be.
pub(super) fn not_an_array() -> Error {
    Error::invalid("Could not parse input content. Not valid ndarray detected")
}
