//! Counting source.

use super::prelude::*;

/// Factories of this module.
pub(super) static FACTORIES: &[Factory] = &[Factory {
    name: "CountingSourceCalculator",
    about: "Sends numbers in a row, each at the time that it is, in batches, until MAX_COUNT of them.",
    contract: |ask| {
        let node = ask.node;
        let has = |tag| node.side_inputs.find(tag, 0).is_some();
        ask.gives(EVERY, Count::One, &PacketType::Int)
            .demand(has("MAX_COUNT") || has("ERROR_COUNT"), || {
                "expected the side packet MAX_COUNT or ERROR_COUNT".to_owned()
            })
            .needs("ERROR_ON_OPEN", Count::Optional, &PacketType::Bool)
            .needs("MAX_COUNT", Count::Optional, &PacketType::Int)
            .needs("ERROR_COUNT", Count::Optional, &PacketType::Int)
            .needs("BATCH_SIZE", Count::Optional, &PacketType::Int)
            .needs("INITIAL_VALUE", Count::Optional, &PacketType::Int)
            .needs("INCREMENT", Count::Optional, &PacketType::Int)
    },
    make: |_, _| Box::new(Counting::default()),
}];

/// Maximum number of packets of a batch, created at once.
const MAX_BATCH: i32 = 1 << 16;

#[derive(Default)]
struct Counting {
    max: Option<i32>,
    error: Option<i32>,
    size: i32,
    next: i32,
    step: i32,
    batches: i32,
}

impl Calculator for Counting {
    fn open(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        if value::side_as(context, "ERROR_ON_OPEN", value::flag)? == Some(true) {
            return Err(GraphRunError::new(AbseilCode::NotFound, "expected error"));
        }
        self.error = value::at_least(context, "ERROR_COUNT", 0)?;
        self.max = value::at_least(context, "MAX_COUNT", 0)?;
        self.size = value::at_least(context, "BATCH_SIZE", 1)?.unwrap_or(1);
        if self.size > MAX_BATCH {
            let size = self.size;
            return Err(GraphRunError::invalid(format!(
                "side packet BATCH_SIZE: expected at most {MAX_BATCH}, got {size}"
            )));
        }
        self.next = value::side_as(context, "INITIAL_VALUE", value::int)?.unwrap_or(0);
        self.step = value::at_least(context, "INCREMENT", 1)?.unwrap_or(1);
        Ok(StepOutcome::Next)
    }

    fn process(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        if self.error.is_some_and(|error| self.batches >= error) {
            return Err(GraphRunError::internal("expected error"));
        }
        if self.max.is_some_and(|max| self.batches >= max) {
            return Ok(StepOutcome::Stop);
        }
        for _ in 0..self.size {
            let value = i64::from(self.next);
            let packet = Packet::new(Payload::Int(value), Timestamp::new(value));
            context.send_packet(0, packet);
            self.next = self.next.checked_add(self.step).ok_or_else(|| {
                let text = format!("counted to the highest int, {}", i32::MAX);
                GraphRunError::new(AbseilCode::OutOfRange, text)
            })?;
        }
        self.batches += 1;
        Ok(StepOutcome::Next)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::harness::{Node, text};
    use crate::graph::calculators::packet::Payload::{Bool, Int};

    const SIDES: [&str; 6] = [
        "MAX_COUNT:max",
        "ERROR_COUNT:error",
        "BATCH_SIZE:size",
        "INITIAL_VALUE:first",
        "INCREMENT:step",
        "ERROR_ON_OPEN:open",
    ];

    fn node(given: &[(&str, i64)]) -> Node {
        let named = |name: &str| given.iter().any(|(known, _)| *known == name);
        let sides: Vec<&str> = SIDES
            .into_iter()
            .filter(|side| side.split_once(':').is_some_and(|(_, name)| named(name)))
            .collect();
        let node = Node::of("CountingSourceCalculator")
            .outputs(&["o"])
            .side_inputs(&sides);
        given
            .iter()
            .fold(node, |node, (name, value)| node.side(name, Int(*value)))
    }

    #[test]
    fn it_counts_to_the_end() {
        let mut run = node(&[("max", 2)]).start();
        assert_eq!(run.at(0, &[]), ["o 0 @0"]);
        assert_eq!(run.at(1, &[]), ["o 1 @1"]);
        assert!(!run.stopped());
        assert!(run.at(2, &[]).is_empty());
        assert!(run.stopped());
    }

    #[test]
    fn it_counts_in_batches_and_steps() {
        let mut run = node(&[("max", 2), ("size", 2), ("first", -5), ("step", 10)]).start();
        assert_eq!(run.at(0, &[]), ["o -5 @-5", "o 5 @5"]);
        assert_eq!(run.at(1, &[]), ["o 15 @15", "o 25 @25"]);
    }

    #[test]
    fn it_fails_when_it_should() {
        let mut run = node(&[("error", 1)]).start();
        assert_eq!(run.at(0, &[]), ["o 0 @0"]);
        assert_eq!(run.error_at(1, &[]), "INTERNAL: expected error");
        let failing = Node::of("CountingSourceCalculator")
            .outputs(&["o"])
            .side_inputs(&["MAX_COUNT:max", "ERROR_ON_OPEN:open"])
            .side("max", Int(1))
            .side("open", Bool(true));
        assert_eq!(failing.fails_to_open(), "NOT_FOUND: expected error");
        let mut run = node(&[("max", 2), ("first", i32::MAX.into())]).start();
        assert_eq!(
            run.error_at(0, &[]),
            "OUT_OF_RANGE: counted to the highest int, 2147483647"
        );
    }

    #[test]
    fn side_packets_are_validated() {
        assert_eq!(
            node(&[]).refused(),
            "expected the side packet MAX_COUNT or ERROR_COUNT"
        );
        for (name, value, tag, least) in [
            ("max", -1, "MAX_COUNT", 0),
            ("error", -1, "ERROR_COUNT", 0),
            ("size", 0, "BATCH_SIZE", 1),
            ("step", 0, "INCREMENT", 1),
        ] {
            let given = if name == "max" {
                vec![(name, value)]
            } else {
                vec![("max", 1), (name, value)]
            };
            assert_eq!(
                node(&given).fails_to_open(),
                format!("INTERNAL: side packet {tag}: expected at least {least}, got {value}")
            );
        }
        assert_eq!(
            node(&[("max", 1 << 31)]).fails_to_open(),
            "INVALID_ARGUMENT: side packet MAX_COUNT: expected an int from -2147483648 to 2147483647, \
             got 2147483648"
        );
        assert_eq!(
            node(&[("max", 1), ("size", 65_537)]).fails_to_open(),
            "INVALID_ARGUMENT: side packet BATCH_SIZE: expected at most 65536, got 65537"
        );
        let text = Node::of("CountingSourceCalculator")
            .outputs(&["o"])
            .side_inputs(&["MAX_COUNT:max"])
            .side("max", text("x"));
        assert_eq!(
            text.fails_to_open(),
            "INVALID_ARGUMENT: side packet MAX_COUNT: expected int, got string"
        );
    }
}
