//! Settings of a model written by `--add_to_config`.

use std::path::Path;

use ovms::config::{self, Defaults, Flags, ModelEntry};
use serde_json::Value;

use crate::error::Failure;

/// Key and value of a setting.
type Setting = (&'static str, Value);

/// Collects the settings of a model from the flags, by key of its entry.
pub(super) fn of(flags: &Flags) -> Result<Vec<Setting>, Failure> {
    let given = flags.given().into_iter();
    let given = given.filter(|(flag, _)| flag.is_key());
    given
        .map(|(flag, value)| Ok((flag.name, in_file(flag.name, value)?)))
        .collect()
}

/// Returns a setting in the form of the file, where a text with an object is that object.
fn in_file(key: &str, value: Value) -> Result<Value, Failure> {
    let Some(text) = value.as_str() else {
        return Ok(value);
    };
    let object = serde_json::from_str(text).ok().filter(Value::is_object);
    match key {
        "model_version_policy" | "plugin_config" => object.ok_or_else(|| {
            Failure::usage_verbatim(format!(
                "error parsing options - --{key}: found `{text}`; expected a JSON object"
            ))
        }),
        // One for each tensor.
        "shape" | "layout" => Ok(object.unwrap_or(value)),
        _ => Ok(value),
    }
}

/// Rejects settings that the server would reject.
pub(super) fn check(
    before: Option<&[u8]>,
    after: &str,
    path: &Path,
    name: &str,
) -> Result<(), Failure> {
    let parse = |content: &[u8]| config::parse(content, path, &Defaults::default());
    let refused = |error: &dyn std::error::Error| {
        let text = format!("the settings of model `{name}` are refused");
        Err(Failure::usage(text).caused_by(error))
    };
    match parse(after.as_bytes()) {
        Ok(config) => {
            let reason = config.models.iter().find_map(|entry| match entry {
                ModelEntry::Refused(it) if it.name == name => Some(&it.reason),
                _ => None,
            });
            reason.map_or(Ok(()), |reason| refused(reason))
        }
        // It was no better before.
        Err(_) if before.is_some_and(|before| parse(before).is_err()) => Ok(()),
        Err(error) => refused(&error),
    }
}
