//! What is wrong with a body that could not be read. Only reached after a failure, so it may take
//! its time.

use serde::de::IgnoredAny;
use serde_json::Value;

use crate::error::{Error, ErrorKind};

/// Says what is wrong with a body that serde refused.
pub(super) fn explain(body: &[u8], error: &serde_json::Error) -> Error {
    if body.iter().all(u8::is_ascii_whitespace) {
        return not_json("The document is empty.", 0);
    }
    if let Err(error) = serde_json::from_slice::<IgnoredAny>(body) {
        return not_json(&reason(&error), offset(body, &error));
    }
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
    if first != Some(&b'{') {
        return Error::invalid("Request body should be JSON object");
    }
    let Ok(Value::Object(object)) = serde_json::from_slice::<Value>(body) else {
        // Nested deeper than anything that is looked at here.
        return Error::invalid(format!("{} - {}", not_an_array().message(), reason(error)));
    };
    match object.get("inputs") {
        None | Some(Value::Null) => {
            return Error::invalid("Invalid JSON structure, missing inputs");
        }
        Some(Value::Array(_)) => {}
        Some(_) => return not_an_array(),
    }
    if let Some(Value::Array(outputs)) = object.get("outputs") {
        let named = |output: &Value| output.get("name").is_some_and(Value::is_string);
        if !outputs.iter().all(named) {
            return Error::invalid("Could not parse output content.");
        }
    }
    Error::invalid(format!("{} - {}", not_an_array().message(), reason(error)))
}

/// The fault of anything in `inputs` that is not what it should be.
pub(super) fn not_an_array() -> Error {
    Error::invalid("Could not parse input content. Not valid ndarray detected")
}

fn not_json(reason: &str, offset: usize) -> Error {
    Error::new(
        ErrorKind::InvalidJson,
        format!("The file is not valid json - Error: {reason} Offset: {offset}"),
    )
}

/// The message without the place, which is given as an offset.
fn reason(error: &serde_json::Error) -> String {
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
