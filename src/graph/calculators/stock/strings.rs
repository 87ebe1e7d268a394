//! Parsing of numbers in strings.

use super::elements::variants;
use super::prelude::*;

/// Factories of this module.
pub(super) static PARSE: &[Factory] = variants!(
    "StringTo",
    "Calculator",
    "Reads a number out of a string; both are side packets.",
    contract,
    |_, _| Box::new(Parse),
    ["Int", "Int32", "Int64", "Uint", "Uint32", "Uint64"]
);

struct Parse;

fn contract<'a>(ask: Ask<'a>, element: &PacketType) -> Ask<'a> {
    ask.needs(EVERY, Count::One, &PacketType::Text)
        .makes(EVERY, Count::One, element)
}

impl Calculator for Parse {
    fn open(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        let text = match context.side(0) {
            Some(Payload::Text(text)) => text.trim_ascii(),
            Some(other) => return Err(value::unlike("string", other, "side packet")),
            None => return Ok(StepOutcome::Next),
        };
        let (number, kind) = match context.node.calculator.as_str() {
            "StringToInt64Calculator" => (text.parse().ok().map(Payload::Int), "int64"),
            "StringToUintCalculator" | "StringToUint32Calculator" => {
                let number = text.parse::<u32>().ok();
                (number.map(|number| Payload::UInt(number.into())), "uint32")
            }
            "StringToUint64Calculator" => (text.parse().ok().map(Payload::UInt), "uint64"),
            _ => {
                let number = text.parse::<i32>().ok();
                (number.map(|number| Payload::Int(number.into())), "int32")
            }
        };
        let number = number.ok_or_else(|| {
            GraphRunError::invalid(format!(
                "The string could not be parsed as an integer: expected {kind}, got {text:?}"
            ))
        })?;
        context.emit(Emit::Side(0, Packet::side(number)));
        Ok(StepOutcome::Next)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::harness::{Node, text};
    use crate::graph::calculators::packet::{PacketType, Payload::Int};

    fn node(kind: &str, value: &str) -> Node {
        Node::of(&format!("StringTo{kind}Calculator"))
            .side_inputs(&["s"])
            .side_outputs(&["n"])
            .side("s", text(value))
    }

    #[test]
    fn numbers_are_read() {
        for (kind, value, number) in [
            ("Int", "-2147483648", "-2147483648"),
            ("Int32", " +7 ", "7"),
            ("Int64", "9223372036854775807", "9223372036854775807"),
            ("Uint", "4294967295", "4294967295"),
            ("Uint32", "0", "0"),
            ("Uint64", "18446744073709551615", "18446744073709551615"),
        ] {
            let node = node(kind, value);
            let wanted = if kind.starts_with('U') {
                PacketType::UInt
            } else {
                PacketType::Int
            };
            assert_eq!(node.contract().unwrap().side_outputs, [wanted]);
            let mut run = node.start();
            assert_eq!(run.opened(), [format!("side n {number}")]);
            run.at(0, &[]);
            assert!(run.stopped());
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for (kind, value, name) in [
            ("Int", "2147483648", "int32"),
            ("Int64", "1.5", "int64"),
            ("Uint32", "4294967296", "uint32"),
            ("Uint64", "-1", "uint64"),
            ("Int", "", "int32"),
        ] {
            assert_eq!(
                node(kind, value).fails_to_open(),
                format!(
                    "INVALID_ARGUMENT: The string could not be parsed as an integer: expected {name}, \
                     got \"{value}\""
                )
            );
        }
        let number = node("Int", "1").side_inputs(&["t"]).side("t", Int(1));
        assert_eq!(
            number.fails_to_open(),
            "INVALID_ARGUMENT: side packet: expected string, got int"
        );
        assert_eq!(
            node("Int", "1").side_inputs(&[]).refused(),
            "expected exactly one input side packet, got 0"
        );
    }
}
