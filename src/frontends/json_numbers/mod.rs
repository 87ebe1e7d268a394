//! JSON lists of numbers, truth values, and strings straight into the bytes of a tensor.
//!
//! [`Cursor`] goes through a JSON text by hand, for readers that know what they look for;
//! [`Elements`] takes one value after another off it, nested in lists, and packs the elements as a
//! type. There is no tree between: a number goes from the text to its place in one step.
//!
//! What is read here is correct JSON. A reader that meets an error asks `json_error` whether the
//! text as a whole is JSON at all, which is slower and says where it ends to be.

mod cursor;
mod elements;
mod number;

use std::borrow::Cow;

pub(super) use cursor::Cursor;
pub(super) use elements::{Elements, Rules, is_base64};

use crate::{
    error::Error,
    tensor::{DataType, values::ValueError},
};

/// Why a text cannot be the elements of a tensor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum JsonError {
    /// It is no JSON.
    #[error("malformed JSON")]
    Syntax,
    /// Lists within lists within lists.
    #[error("recursion limit exceeded")]
    Deep,
    /// Lists of one level differ in length, or values are not all as deep as each other.
    #[error("the lists are not rectangular")]
    Ragged,
    /// A single value where a list belongs.
    #[error("expected a list")]
    NoList,
    /// Something that is no element of any type.
    #[error("found {found}, expected {expected}")]
    Kind {
        /// Kind of value found.
        found: &'static str,
        /// Kind of value expected.
        expected: Cow<'static, str>,
    },
    /// Strings and other elements in one list.
    #[error("strings and other values are mixed")]
    Mixed,
    /// A string that is not what it says it is.
    #[error("a string cannot be read: {0}")]
    Text(String),
    /// `b64` is not base64.
    #[error("`b64` is not base64: {0}")]
    Base64(base64::DecodeError),
    /// Two members of an object with the same name.
    #[error("`{0}` is there twice")]
    Twice(String),
    /// A value of another type or beyond the range of the type.
    #[error(transparent)]
    Value(#[from] ValueError),
}

/// The error of a body as a whole, unless its reader knows better. If it is no JSON at all, the client gets the
/// words of `json_error` instead.
impl From<JsonError> for Error {
    fn from(error: JsonError) -> Self {
        Self::invalid(format!("Invalid JSON structure. - {error}"))
    }
}

impl JsonError {
    fn kind(found: &'static str, dtype: DataType) -> Self {
        Self::Kind {
            found,
            expected: Cow::Owned(format!("a list of {dtype} values")),
        }
    }
}

#[cfg(test)]
mod tests;
