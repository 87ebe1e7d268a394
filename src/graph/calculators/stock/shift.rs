//! Packets with the timestamps of later or earlier ones.

use std::collections::VecDeque;

use super::prelude::*;
use crate::proto::mediapipe::SequenceShiftCalculatorOptions;

/// Maximum shift of a stream, in packets, all of them kept.
const MAX_SHIFT: i32 = 100_000;

/// Factories of this module.
pub(super) static FACTORIES: &[Factory] = &[Factory {
    name: "SequenceShiftCalculator",
    about: "Sends each packet at the time of the one that is packet_offset places behind it.",
    contract: |ask| {
        let node = ask.node;
        let options: SequenceShiftCalculatorOptions = node.options.get().unwrap_or_default();
        let by = options.packet_offset();
        ask.takes(EVERY, Count::One, &PacketType::Any)
            .gives(EVERY, Count::One, &PacketType::SameAsInput(0))
            .demand((-MAX_SHIFT..=MAX_SHIFT).contains(&by), || {
                format!(
                    "packet_offset: expected {} to {MAX_SHIFT}, got {by}",
                    -MAX_SHIFT
                )
            })
            .settles_if(by == 0)
    },
    make: |node, _| {
        let options: SequenceShiftCalculatorOptions = node.options.get().unwrap_or_default();
        Box::new(Shift {
            size: options.packet_offset().unsigned_abs() as usize,
            options,
            packets: VecDeque::new(),
            times: VecDeque::new(),
        })
    },
}];

struct Shift {
    options: SequenceShiftCalculatorOptions,
    size: usize,
    /// Packets waiting for a later timestamp.
    packets: VecDeque<Packet>,
    /// Timestamps waiting for a later packet.
    times: VecDeque<Timestamp>,
}

impl Calculator for Shift {
    fn process(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        let (at, packet) = (context.at, context.inputs[0].clone());
        if packet.is_empty() {
            return Ok(StepOutcome::Next);
        }
        if self.options.packet_offset() > 0 {
            self.packets.push_back(packet);
            if self.packets.len() > self.size
                && let Some(earlier) = self.packets.pop_front()
            {
                context.send_packet(0, earlier.moved(at));
            } else if self.options.emit_empty_packets_before_first_packet() {
                context.emit(Emit::Bound(0, at.next_allowed()));
            }
        } else {
            self.times.push_back(at);
            if self.times.len() > self.size
                && let Some(earlier) = self.times.pop_front()
            {
                context.send_packet(0, packet.moved(earlier));
            }
        }
        Ok(StepOutcome::Next)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::harness::Node;
    use crate::{
        graph::calculators::packet::Payload::Int, proto::mediapipe::SequenceShiftCalculatorOptions,
    };

    fn run(by: i32, empty: bool) -> Vec<String> {
        let node = node(by, empty);
        let mut run = node.start();
        [1, 2, 4, 7]
            .iter()
            .flat_map(|at| run.at(*at, &[("a", Int(*at * 10))]))
            .collect()
    }

    fn node(by: i32, empty: bool) -> Node {
        Node::of("SequenceShiftCalculator")
            .inputs(&["a"])
            .outputs(&["o"])
            .options(&SequenceShiftCalculatorOptions {
                packet_offset: Some(by),
                emit_empty_packets_before_first_packet: Some(empty),
            })
    }

    #[test]
    fn packets_take_the_times_of_others() {
        assert_eq!(run(-1, false), ["o 20 @1", "o 40 @2", "o 70 @4"]);
        assert_eq!(run(-2, true), ["o 40 @1", "o 70 @2"]);
        assert_eq!(run(0, false), ["o 10 @1", "o 20 @2", "o 40 @4", "o 70 @7"]);
        assert_eq!(run(1, false), ["o 10 @2", "o 20 @4", "o 40 @7"]);
        assert_eq!(
            run(2, true),
            ["o bound 2", "o bound 3", "o 10 @4", "o 20 @7"]
        );
        assert_eq!(node(0, false).contract().unwrap().offset, Some(0));
        assert_eq!(node(1, false).contract().unwrap().offset, None);
    }

    #[test]
    fn the_default_is_one_back() {
        let node = Node::of("SequenceShiftCalculator")
            .inputs(&["a"])
            .outputs(&["o"]);
        let mut run = node.start();
        assert!(run.at(0, &[("a", Int(1))]).is_empty());
        assert_eq!(run.at(5, &[("a", Int(2))]), ["o 2 @0"]);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        for by in [i32::MIN, -100_001, 100_001, i32::MAX] {
            assert_eq!(
                node(by, false).refused(),
                format!("packet_offset: expected -100000 to 100000, got {by}")
            );
        }
        assert_eq!(
            node(1, false).inputs(&[]).refused(),
            "expected exactly one input stream, got 0"
        );
    }
}
