//! Settings of a model written by `--add_to_config`.

use std::path::Path;

use ovms::config::{self, Defaults, ModelEntry};
use serde_json::{Value, json};

use crate::{
    error::{Failure, FailureKind},
    serve::args::model,
};

/// Key and value of a setting.
type Setting = (&'static str, Value);

/// Collects the settings of a model from the flags, by key of its entry.
pub(super) fn of(flags: &model::Args, cache_dir: Option<&Path>) -> Result<Vec<Setting>, Failure> {
    let mut settings = Vec::new();
    let texts = [
        ("batch_size", &flags.batch_size),
        ("shape", &flags.shape),
        ("layout", &flags.layout),
        ("mean", &flags.mean),
        ("scale", &flags.scale),
        ("color_format", &flags.color_format),
        ("precision", &flags.precision),
        ("model_version_policy", &flags.model_version_policy),
        ("target_device", &flags.target_device),
        ("plugin_config", &flags.plugin_config),
    ];
    for (key, text) in texts {
        let Some(text) = text else {
            continue;
        };
        let object = || {
            serde_json::from_str::<Value>(text)
                .ok()
                .filter(Value::is_object)
        };
        let value = match key {
            "model_version_policy" | "plugin_config" => object().ok_or_else(|| {
                Failure::usage_verbatim(format!(
                    "error parsing options - --{key}: found `{text}`; expected a JSON object"
                ))
            })?,
            // One for each tensor.
            "shape" | "layout" if text.trim_start().starts_with('{') => {
                object().unwrap_or_else(|| text.as_str().into())
            }
            _ => text.as_str().into(),
        };
        settings.push((key, value));
    }
    if flags.nireq != 0 {
        settings.push(("nireq", flags.nireq.into()));
    }
    if flags.inference_timeout_ms != 0 {
        settings.push(("inference_timeout_ms", flags.inference_timeout_ms.into()));
    }
    if flags.stateful {
        settings.push(("stateful", true.into()));
    }
    let others = [
        (
            "idle_sequence_cleanup",
            flags.idle_sequence_cleanup.map(Value::from),
        ),
        (
            "low_latency_transformation",
            flags.low_latency_transformation.map(Value::from),
        ),
        (
            "max_sequence_number",
            flags.max_sequence_number.map(Value::from),
        ),
        (
            "drain_sequences_seconds",
            flags.drain_sequences_seconds.map(Value::from),
        ),
        (
            "cache_dir",
            cache_dir.map(|path| json!(path.to_string_lossy())),
        ),
    ];
    let others = others.into_iter();
    settings.extend(others.filter_map(|(key, value)| Some((key, value?))));
    Ok(settings)
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
        Err(Failure::new(FailureKind::Usage, text).caused_by(error))
    };
    match parse(after.as_bytes()) {
        Ok(config) => {
            let reason = config.models.iter().find_map(|entry| match entry {
                ModelEntry::Refused {
                    name: found,
                    reason,
                    ..
                } if found == name => Some(reason),
                _ => None,
            });
            reason.map_or(Ok(()), |reason| refused(reason))
        }
        // It was no better before.
        Err(_) if before.is_some_and(|before| parse(before).is_err()) => Ok(()),
        Err(error) => refused(&error),
    }
}
