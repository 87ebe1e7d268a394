//! Options of inputs and outputs: one for whichever there is, or some by name.

use serde_json::{Map, Value};

use crate::openvino::PerTensor;

/// Reads one option for whichever tensor there is, or a JSON object of options by name. An empty
/// text sets nothing. `error` makes the error of a text that is neither.
pub(super) fn parse<T, E>(
    text: &str,
    one: impl Fn(&str) -> Result<T, E>,
    error: impl Fn(String) -> E,
) -> Result<PerTensor<T>, E> {
    if text.trim().is_empty() {
        return Ok(PerTensor::Unset);
    }
    if !text.trim_start().starts_with('{') {
        return one(text).map(PerTensor::Anonymous);
    }
    let object: Map<String, Value> =
        serde_json::from_str(text).map_err(|_| error(text.to_owned()))?;
    let options = object.into_iter().map(|(name, value)| match value {
        Value::String(option) => Ok((name, one(&option)?)),
        _ => Err(error(text.to_owned())),
    });
    options.collect::<Result<_, _>>().map(PerTensor::Named)
}
