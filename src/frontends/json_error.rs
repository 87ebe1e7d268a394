//! Errors of bodies that are not JSON objects. Only made after a failure, so they may take their time.

use serde::de::IgnoredAny;

use crate::error::{Error, ErrorKind};

/// Says what is wrong with a body, if it is no JSON or no object; `None` if it is one.
pub(super) fn no_object(body: &[u8]) -> Option<Error> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Some(not_json("The document is empty.", 0));
    }
    if let Err(error) = serde_json::from_slice::<IgnoredAny>(body) {
        return Some(not_json(&reason(&error), offset(body, &error)));
    }
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
    (first != Some(&b'{')).then(|| Error::invalid("Request body should be JSON object"))
}

fn not_json(reason: &str, offset: usize) -> Error {
    Error::new(
        ErrorKind::InvalidJson,
        format!("The file is not valid json - Error: {reason} Offset: {offset}"),
    )
}

/// The message without the place, which is given as an offset.
pub(super) fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// The offset in bytes of an error's line and column.
fn offset(body: &[u8], error: &serde_json::Error) -> usize {
    let before: usize = body
        .split_inclusive(|&byte| byte == b'\n')
        .take(error.line().saturating_sub(1))
        .map(<[u8]>::len)
        .sum();
    before + error.column().saturating_sub(1)
}
