//! Parsing of numbers in strings.

use super::{
    contract::{Ask, Count, EVERY},
    elements::{Typed, element, family},
    value,
};
use crate::graph::{
    calculator::{Calculator, CalculatorContext, Contract, Emit, StepOutcome},
    error::GraphRunError,
    node::NodeSpec,
    packet::{Packet, PacketType, Payload},
};

/// Factories of this module.
pub(super) static PARSE: &[Typed] = family!(
    "StringTo",
    "Calculator",
    "Reads a number out of a string; both are side packets.",
    contract,
    |node, _| Box::new(Parse {
        width: width(&node.calculator)
    }),
    [
        ("Int", PacketType::Int),
        ("Int32", PacketType::Int),
        ("Int64", PacketType::Int),
        ("Uint", PacketType::UInt),
        ("Uint32", PacketType::UInt),
        ("Uint64", PacketType::UInt),
    ]
);

/// Number types.
#[derive(Clone, Copy)]
enum Width {
    Int32,
    Int64,
    Uint32,
    Uint64,
}

struct Parse {
    width: Width,
}

fn width(calculator: &str) -> Width {
    match calculator {
        "StringToInt64Calculator" => Width::Int64,
        "StringToUintCalculator" | "StringToUint32Calculator" => Width::Uint32,
        "StringToUint64Calculator" => Width::Uint64,
        _ => Width::Int32,
    }
}

fn contract(node: &NodeSpec) -> Result<Contract, String> {
    Ask::new(node)
        .needs(EVERY, Count::One, &PacketType::Text)
        .makes(EVERY, Count::One, &element(PARSE, node))
        .contract()
}

impl Calculator for Parse {
    fn open(&mut self, context: &mut CalculatorContext<'_>) -> Result<StepOutcome, GraphRunError> {
        let text = match context.side(0) {
            Some(Payload::Text(text)) => text.trim_ascii(),
            Some(other) => return Err(value::unlike("string", other, "side packet")),
            None => return Ok(StepOutcome::Next),
        };
        let (number, kind) = match self.width {
            Width::Int32 => (
                text.parse::<i32>().ok().map(|n| Payload::Int(n.into())),
                "int32",
            ),
            Width::Int64 => (text.parse().ok().map(Payload::Int), "int64"),
            Width::Uint32 => (
                text.parse::<u32>().ok().map(|n| Payload::UInt(n.into())),
                "uint32",
            ),
            Width::Uint64 => (text.parse().ok().map(Payload::UInt), "uint64"),
        };
        let number = number.ok_or_else(|| {
            GraphRunError::invalid(format!(
                "The string could not be parsed as an integer: expected {kind}, got {text:?}"
            ))
        })?;
        context.emit(Emit::Side(0, Packet::side(number)));
        Ok(StepOutcome::Next)
    }

    fn process(&mut self, _: &mut CalculatorContext<'_>) -> Result<StepOutcome, GraphRunError> {
        Ok(StepOutcome::Stop)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::harness::{Node, text};
    use crate::graph::packet::{PacketType, Payload::Int};

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
