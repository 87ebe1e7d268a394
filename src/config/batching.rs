//! `dynamic_batching`: `off`, `auto`, or an object with a maximum and a delay.

use std::time::Duration;

use jsonc_parser::ast;
use serde_json::Value;

use super::file::Node;
use crate::openvino::Batching;

/// Range of `max_batch`.
const ROWS: (i64, i64) = (2, 1024);

/// Range of `max_delay_us`.
const DELAY: (i64, i64) = (0, 1_000_000);

/// A text that says nothing of batching.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "dynamic_batching is in wrong format - found `{0}`; expected off, auto, or a JSON object such as \
     {{\"max_batch\":8,\"max_delay_us\":500}}, with max_batch from {low} to {high} and max_delay_us up \
     to {delay}",
    low = ROWS.0, high = ROWS.1, delay = DELAY.1
)]
pub struct ParseBatchingError(pub String);

/// Reads the text of the flag.
pub(super) fn parse(text: &str) -> Result<Batching, ParseBatchingError> {
    word(text.trim())
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

fn object(text: &str) -> Option<Batching> {
    let Value::Object(object) = serde_json::from_str(text).ok()? else {
        return None;
    };
    let known = ["max_batch", "max_delay_us"];
    if !object.keys().all(|key| known.contains(&key.as_str())) {
        return None;
    }
    let within = |value: &Value, (low, high)| {
        let number = value.as_i64()?;
        (low..=high).contains(&number).then_some(number)
    };
    let rows = within(object.get("max_batch")?, ROWS)?;
    let delay = match object.get("max_delay_us") {
        Some(delay) => within(delay, DELAY)?,
        None => 0,
    };
    up_to(rows, delay)
}

/// Reads the key of the configuration file; `None` after an error.
pub(super) fn read(node: &Node<'_>) -> Option<Batching> {
    match node.value() {
        ast::Value::StringLit(text) => {
            let known = word(&text.value);
            known.or_else(|| node.refuse("\"off\", \"auto\", or an object with max_batch"))
        }
        ast::Value::Object(_) => {
            let fields = node.fields(&["max_batch", "max_delay_us"], &["max_batch"])?;
            let delay = match fields.get("max_delay_us") {
                Some(delay) => delay.whole(DELAY.0, DELAY.1),
                None => Some(0),
            };
            let rows = fields.get("max_batch")?.whole(ROWS.0, ROWS.1);
            up_to(rows?, delay?)
        }
        _ => node.refuse("\"off\", \"auto\", or an object with max_batch"),
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

    use super::parse;
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
            assert_eq!(parse(text), Ok(expected), "{text}");
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
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        insta::assert_snapshot!(
            parse("on").unwrap_err(),
            @r#"dynamic_batching is in wrong format - found `on`; expected off, auto, or a JSON object such as {"max_batch":8,"max_delay_us":500}, with max_batch from 2 to 1024 and max_delay_us up to 1000000"#
        );
    }
}
