//! `dynamic_batching`: `off`, `auto`, or an object with a maximum, a delay, and a limit of memory.

use std::time::Duration;

use jsonc_parser::ast;
use serde_json::Value;

use super::file::Node;
use crate::{
    byte_size::{ByteSize, ByteText},
    openvino::Batching,
};

/// Range of `max_batch`.
const ROWS: (i64, i64) = (2, 1024);

/// Range of `max_delay_us`.
const DELAY: (i64, i64) = (0, 1_000_000);

/// Keys of the object.
const KEYS: [&str; 3] = ["max_batch", "max_delay_us", "max_bytes"];

/// Forms of the setting, as errors name them.
const FORMS: &str = "\"off\", \"auto\", or an object with max_batch";

/// Batching of a model, as it is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct BatchingSetting {
    pub(super) mode: Batching,
    /// Maximum memory of compiled models, in bytes.
    pub(super) max_bytes: Option<usize>,
}

impl From<Batching> for BatchingSetting {
    fn from(mode: Batching) -> Self {
        Self {
            mode,
            max_bytes: None,
        }
    }
}

/// A text that says nothing of batching.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "dynamic_batching is in wrong format - found `{0}`; expected off, auto, or a JSON object such as \
     {{\"max_batch\":8,\"max_delay_us\":500}}, with max_batch from {low} to {high} or auto, max_delay_us up \
     to {delay} beside a number, and max_bytes such as 512M",
    low = ROWS.0, high = ROWS.1, delay = DELAY.1
)]
pub struct ParseBatchingError(pub String);

/// Reads the text of the flag.
pub(super) fn parse(text: &str) -> Result<BatchingSetting, ParseBatchingError> {
    word(text.trim())
        .map(Into::into)
        .or_else(|| object(text))
        .ok_or_else(|| ParseBatchingError(text.to_owned()))
}

/// Reads one of the words.
fn word(text: &str) -> Option<Batching> {
    match text {
        "off" => Some(Batching::Off),
        "auto" => Some(Batching::Auto),
        _ => None,
    }
}

fn object(text: &str) -> Option<BatchingSetting> {
    let Value::Object(object) = serde_json::from_str(text).ok()? else {
        return None;
    };
    if !object.keys().all(|key| KEYS.contains(&key.as_str())) {
        return None;
    }
    let within = |value: &Value, (low, high)| {
        let number = value.as_i64()?;
        (low..=high).contains(&number).then_some(number)
    };
    let delay = object.get("max_delay_us");
    let rows = object.get("max_batch")?;
    let mode = match (rows.as_str(), delay) {
        (Some("auto"), None) => Batching::Auto,
        (_, None) => up_to(within(rows, ROWS)?, 0)?,
        (_, Some(delay)) => up_to(within(rows, ROWS)?, within(delay, DELAY)?)?,
    };
    let max_bytes = match object.get("max_bytes") {
        Some(bytes) => Some(bytes_of(bytes)?),
        None => None,
    };
    Some(BatchingSetting { mode, max_bytes })
}

/// Reads a number of bytes.
fn bytes_of(value: &Value) -> Option<usize> {
    let text = serde_json::from_value::<ByteText>(value.clone()).ok()?;
    ByteSize::try_from(text).ok().map(ByteSize::get)
}

/// Reads the key of the configuration file; `None` after an error.
pub(super) fn read(node: &Node<'_>) -> Option<BatchingSetting> {
    match node.value() {
        ast::Value::StringLit(text) => {
            let known = word(&text.value).map(Into::into);
            known.or_else(|| node.refuse(FORMS))
        }
        ast::Value::Object(_) => {
            let fields = node.fields(&KEYS, &["max_batch"])?;
            let max_bytes = match fields.get("max_bytes") {
                Some(bytes) => Some(usize::try_from(bytes.bytes()?).unwrap_or(usize::MAX)),
                None => None,
            };
            let delay = fields.get("max_delay_us");
            let rows = fields.get("max_batch")?;
            let mode = match (rows.value(), delay) {
                (ast::Value::StringLit(text), None) if text.value == "auto" => Batching::Auto,
                (ast::Value::StringLit(text), Some(delay)) if text.value == "auto" => {
                    return delay
                        .refuse("no max_delay_us where max_batch is auto, which waits for nobody");
                }
                (ast::Value::StringLit(_), _) => {
                    let (low, high) = ROWS;
                    return rows
                        .refuse(format!("a whole number from {low} to {high}, or \"auto\""));
                }
                (_, delay) => {
                    let delay = match delay {
                        Some(delay) => delay.whole(DELAY.0, DELAY.1),
                        None => Some(0),
                    };
                    up_to(rows.whole(ROWS.0, ROWS.1)?, delay?)?
                }
            };
            Some(BatchingSetting { mode, max_bytes })
        }
        _ => node.refuse(FORMS),
    }
}

fn up_to(rows: i64, delay: i64) -> Option<Batching> {
    Some(Batching::UpTo {
        rows: usize::try_from(rows).ok()?,
        delay: Duration::from_micros(u64::try_from(delay).ok()?),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BatchingSetting, parse};
    use crate::openvino::Batching;

    #[test]
    fn texts_are_words_or_objects() {
        let up_to = |rows, micros| Batching::UpTo {
            rows,
            delay: Duration::from_micros(micros),
        };
        for (text, expected) in [
            ("off", Batching::Off),
            (" auto ", Batching::Auto),
            (r#"{"max_batch": 8}"#, up_to(8, 0)),
            (r#"{"max_batch":2,"max_delay_us":500}"#, up_to(2, 500)),
        ] {
            assert_eq!(parse(text), Ok(expected.into()), "{text}");
        }
        for (text, mode, bytes) in [
            (
                r#"{"max_batch":"auto","max_bytes":"1M"}"#,
                Batching::Auto,
                1 << 20,
            ),
            (r#"{"max_batch":8,"max_bytes":0}"#, up_to(8, 0), 0),
        ] {
            let max_bytes = Some(bytes);
            assert_eq!(
                parse(text),
                Ok(BatchingSetting { mode, max_bytes }),
                "{text}"
            );
        }
        for text in [
            "",
            "on",
            "8",
            "[]",
            "{}",
            r#"{"max_batch":1}"#,
            r#"{"max_batch":1025}"#,
            r#"{"max_batch":"8"}"#,
            r#"{"max_batch":8,"max_delay_us":-1}"#,
            r#"{"max_batch":8,"max_delay":1}"#,
            r#"{"max_batch":"auto","max_delay_us":1}"#,
            r#"{"max_batch":"off"}"#,
            r#"{"max_batch":8,"max_bytes":"1X"}"#,
            r#"{"max_batch":8,"max_bytes":-1}"#,
            r#"{"max_bytes":"1M"}"#,
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        insta::assert_snapshot!(
            parse("on").unwrap_err(),
            @r#"dynamic_batching is in wrong format - found `on`; expected off, auto, or a JSON object such as {"max_batch":8,"max_delay_us":500}, with max_batch from 2 to 1024 or auto, max_delay_us up to 1000000 beside a number, and max_bytes such as 512M"#
        );
    }
}
