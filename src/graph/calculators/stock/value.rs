//! Accessors for packet values, as needed by calculators.

use super::prelude::*;

/// Reads an `int`: 32 bits in graphs; wider values are accepted if they fit.
pub(super) fn int(payload: &Payload, what: &str) -> Result<i32, GraphRunError> {
    let fits = match payload {
        Payload::Int(value) => i32::try_from(*value).ok(),
        Payload::UInt(value) => i32::try_from(*value).ok(),
        other => return Err(unlike("int", other, what)),
    };
    let (low, high) = (i32::MIN, i32::MAX);
    let text = || format!("{what}: expected an int from {low} to {high}, got {payload:?}");
    fits.ok_or_else(|| GraphRunError::invalid(text()))
}

/// Reads an `int64`.
pub(super) fn long(payload: &Payload, what: &str) -> Result<i64, GraphRunError> {
    match payload {
        Payload::Int(value) => Ok(*value),
        other => Err(unlike("int64", other, what)),
    }
}

/// Reads a `bool`.
pub(super) fn flag(payload: &Payload, what: &str) -> Result<bool, GraphRunError> {
    match payload {
        Payload::Bool(value) => Ok(*value),
        other => Err(unlike("bool", other, what)),
    }
}

/// Reads a list.
pub(super) fn list<'a>(payload: &'a Payload, what: &str) -> Result<&'a [Payload], GraphRunError> {
    match payload {
        Payload::List(list) => Ok(list),
        other => Err(unlike("a list", other, what)),
    }
}

/// Returns the error for a value of another type.
pub(super) fn unlike(expected: &str, got: &Payload, what: &str) -> GraphRunError {
    GraphRunError::invalid(format!("{what}: expected {expected}, got {}", got.kind()))
}

/// Finds a side packet by tag, if it is named and given.
pub(super) fn side<'a>(context: &'a CalculatorContext<'_>, tag: &str) -> Option<&'a Payload> {
    let place = context.node.side_inputs.find(tag, 0)?;
    context.side(place)
}

/// Reads a side packet by tag, if it is named and given.
pub(super) fn side_as<T>(
    context: &CalculatorContext<'_>,
    tag: &str,
    read: fn(&Payload, &str) -> Result<T, GraphRunError>,
) -> Result<Option<T>, GraphRunError> {
    let payload = side(context, tag);
    payload
        .map(|payload| read(payload, &format!("side packet {tag}")))
        .transpose()
}

/// Reads an `int` side packet with a minimum value.
pub(super) fn at_least(
    context: &CalculatorContext<'_>,
    tag: &str,
    least: i32,
) -> Result<Option<i32>, GraphRunError> {
    match side_as(context, tag, int)? {
        Some(value) if value < least => Err(GraphRunError::internal(format!(
            "side packet {tag}: expected at least {least}, got {value}"
        ))),
        other => Ok(other),
    }
}

/// Returns the value on an input with a tag, if there is such an input and value.
pub(super) fn tagged<'a>(context: &CalculatorContext<'a>, tag: &str) -> Option<&'a Payload> {
    let inputs: &'a [Packet] = context.inputs;
    let place = context.node.inputs.find(tag, 0)?;
    inputs.get(place).and_then(Packet::payload)
}

#[cfg(test)]
mod tests {
    use super::{flag, int, list, long};
    use crate::graph::calculators::packet::Payload;

    #[test]
    fn ints_are_held_to_their_range() {
        assert_eq!(int(&Payload::Int(-3), "x").unwrap(), -3);
        assert_eq!(int(&Payload::UInt(7), "x").unwrap(), 7);
        assert_eq!(
            int(&Payload::Int(1 << 31), "SELECT").unwrap_err().message,
            "SELECT: expected an int from -2147483648 to 2147483647, got 2147483648"
        );
        assert_eq!(long(&Payload::Int(1 << 40), "x").unwrap(), 1 << 40);
    }

    #[test]
    fn other_kinds_are_named() {
        let text = Payload::Text("a".to_owned());
        let messages = [
            int(&text, "x").unwrap_err().message,
            long(&text, "x").unwrap_err().message,
            flag(&text, "x").unwrap_err().message,
            list(&text, "x").unwrap_err().message,
        ];
        assert_eq!(
            messages,
            [
                "x: expected int, got string",
                "x: expected int64, got string",
                "x: expected bool, got string",
                "x: expected a list, got string"
            ]
        );
    }
}
