//! Calculators that combine several inputs.

use super::prelude::*;
use crate::proto::mediapipe::PacketClonerCalculatorOptions;

/// Factories of this module.
pub(super) static FACTORIES: &[Factory] = &[
    Factory {
        name: "PacketClonerCalculator",
        about: "Whenever the last input or TICK has a packet, repeats the latest of each other input.",
        contract: cloner,
        make: |node, _| {
            let repeated = repeated(node).into_iter();
            Box::new(Cloner {
                options: node.options.get().unwrap_or_default(),
                tick: tick(node),
                latest: repeated.map(|place| (place, None)).collect(),
            })
        },
    },
    Factory {
        name: "PacketPresenceCalculator",
        about: "Reports in PRESENCE whether PACKET has a packet, at each time that is settled.",
        contract: |ask| {
            ask.takes("PACKET", Count::One, &PacketType::Any)
                .gives("PRESENCE", Count::One, &PacketType::Bool)
                .settles()
                .wants_bounds()
        },
        make: |_, _| Box::new(send_presence),
    },
    Factory {
        name: "PacketInnerJoinCalculator",
        about: "Passes the inputs on at times at which all of them have a packet.",
        contract: |ask| {
            ask.takes(EVERY, Count::Some, &PacketType::Any)
                .gives_same(EVERY, EVERY)
                .settles()
        },
        make: |_, _| Box::new(send_complete),
    },
    Factory {
        name: "MakePairCalculator",
        about: "Makes a list of two of the packets of its two inputs.",
        contract: pair,
        make: |_, _| Box::new(send_pair),
    },
    Factory {
        name: "ValueOrDefaultCalculator",
        about: "With each TICK, passes IN on, or the side packet where IN has nothing, and reports in FLAG which.",
        contract: |ask| {
            let node = ask.node;
            let input = node.inputs.find("IN", 0).unwrap_or_default();
            ask.takes("IN", Count::One, &PacketType::Any)
                .takes("TICK", Count::One, &PacketType::Any)
                .needs(EVERY, Count::One, &PacketType::Any)
                .gives("OUT", Count::One, &PacketType::SameAsInput(input))
                .gives("FLAG", Count::Optional, &PacketType::Bool)
                .settles()
        },
        make: |_, _| Box::new(send_value_or_default),
    },
];

struct Cloner {
    options: PacketClonerCalculatorOptions,
    tick: usize,
    /// Repeated inputs, in the order of the outputs, with their latest packets.
    latest: Vec<(usize, Option<Packet>)>,
}

fn tick(node: &NodeSpec) -> usize {
    let last = node.inputs.len().saturating_sub(1);
    node.inputs.find("TICK", 0).unwrap_or(last)
}

/// Returns the inputs that are repeated, in the order of the outputs.
fn repeated(node: &NodeSpec) -> Vec<usize> {
    let tick = tick(node);
    (0..node.inputs.len())
        .filter(|place| *place != tick)
        .collect()
}

fn cloner(ask: Ask<'_>) -> Ask<'_> {
    let (repeated, count) = (repeated(ask.node), ask.node.inputs.len());
    ask.takes(EVERY, Count::Some, &PacketType::Any)
        .demand(!repeated.is_empty(), || {
            format!("expected at least one input stream besides the one that ticks, got {count}")
        })
        .gives_each(EVERY, repeated)
}

impl Calculator for Cloner {
    fn process(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        for (place, latest) in &mut self.latest {
            let packet = &context.inputs[*place];
            if !packet.is_empty() {
                *latest = Some(packet.clone());
            }
        }
        if context.inputs[self.tick].is_empty() {
            return Ok(StepOutcome::Next);
        }
        let bound = context.at.next_allowed();
        let reported = self.options.output_packets_only_when_all_inputs_received();
        let is_whole = reported || self.options.output_only_when_all_inputs_received();
        if is_whole && self.latest.iter().any(|(_, latest)| latest.is_none()) {
            if reported {
                for output in 0..self.latest.len() {
                    context.emit(Emit::Bound(output, bound));
                }
            }
            return Ok(StepOutcome::Next);
        }
        for (output, (_, latest)) in self.latest.iter().enumerate() {
            match latest {
                Some(packet) => context.send_packet(output, packet.moved(context.at)),
                None => context.emit(Emit::Bound(output, bound)),
            }
        }
        Ok(StepOutcome::Next)
    }
}

fn send_presence(context: &mut CalculatorContext<'_>) -> StepResult {
    let there = context.input(0).is_some();
    context.send(0, Payload::Bool(there));
    Ok(StepOutcome::Next)
}

fn send_complete(context: &mut CalculatorContext<'_>) -> StepResult {
    if context.inputs.iter().all(|packet| !packet.is_empty()) {
        for place in 0..context.inputs.len() {
            context.forward(place, place);
        }
    }
    Ok(StepOutcome::Next)
}

fn pair(ask: Ask<'_>) -> Ask<'_> {
    let list = PacketType::List(Box::new(PacketType::Any));
    ask.takes(EVERY, Count::Exactly(2), &PacketType::Any)
        .gives(EVERY, Count::One, &list)
        .settles()
}

fn send_pair(context: &mut CalculatorContext<'_>) -> StepResult {
    // No value can express that one of them is missing.
    if let (Some(one), Some(other)) = (context.input(0), context.input(1)) {
        let pair = vec![one.clone(), other.clone()];
        context.send(0, Payload::List(pair));
    }
    Ok(StepOutcome::Next)
}

fn send_value_or_default(context: &mut CalculatorContext<'_>) -> StepResult {
    let node = context.node;
    if value::tagged(context, "TICK").is_none() {
        return Ok(StepOutcome::Next);
    }
    let (input, output) = (node.inputs.find("IN", 0), node.outputs.find("OUT", 0));
    let (input, output) = (input.unwrap_or_default(), output.unwrap_or_default());
    if !context.forward(input, output) {
        context.send_packet(output, context.side[0].moved(context.at));
        if let Some(flag) = node.outputs.find("FLAG", 0) {
            context.send(flag, Payload::Bool(true));
        }
    }
    Ok(StepOutcome::Next)
}

#[cfg(test)]
mod tests {
    use super::super::tests::harness::{Node, text};
    use crate::{
        graph::calculators::{
            packet::{PacketType, Payload::Int},
            timestamp::Timestamp,
        },
        proto::mediapipe::PacketClonerCalculatorOptions,
    };

    fn cloner() -> Node {
        Node::of("PacketClonerCalculator")
            .inputs(&["a", "b", "tick"])
            .outputs(&["x", "y"])
    }

    #[test]
    fn the_latest_is_repeated() {
        assert_eq!(cloner().contract().unwrap().offset, None);
        let mut run = cloner().start();
        assert!(run.at(0, &[("a", Int(1))]).is_empty());
        assert_eq!(run.at(1, &[("tick", Int(0))]), ["x 1 @1", "y bound 2"]);
        assert_eq!(
            run.at(2, &[("b", Int(2)), ("tick", Int(0))]),
            ["x 1 @2", "y 2 @2"]
        );
        assert_eq!(run.at(3, &[("tick", Int(0))]), ["x 1 @3", "y 2 @3"]);
    }

    #[test]
    fn tick_may_be_reported_by_its_tag() {
        let node = Node::of("PacketClonerCalculator")
            .inputs(&["TICK:t", "VALUE:v"])
            .outputs(&["VALUE:o"]);
        assert_eq!(
            node.contract().unwrap().outputs,
            [PacketType::SameAsInput(1)]
        );
        let mut run = node.start();
        assert!(run.at(0, &[("v", Int(1))]).is_empty());
        assert_eq!(run.at(1, &[("t", Int(0))]), ["o 1 @1"]);
    }

    #[test]
    fn nothing_may_be_sent_until_all_are_there() {
        let options = |only, packets| PacketClonerCalculatorOptions {
            output_only_when_all_inputs_received: Some(only),
            output_packets_only_when_all_inputs_received: Some(packets),
        };
        let mut run = cloner().options(&options(true, false)).start();
        assert!(run.at(0, &[("a", Int(1)), ("tick", Int(0))]).is_empty());
        assert_eq!(
            run.at(1, &[("b", Int(2)), ("tick", Int(0))]),
            ["x 1 @1", "y 2 @1"]
        );
        let mut run = cloner().options(&options(false, true)).start();
        assert_eq!(
            run.at(0, &[("a", Int(1)), ("tick", Int(0))]),
            ["x bound 1", "y bound 1"]
        );
        assert_eq!(
            run.at(1, &[("b", Int(2)), ("tick", Int(0))]),
            ["x 1 @1", "y 2 @1"]
        );
    }

    #[test]
    fn a_cloner_needs_something_to_repeat() {
        assert_eq!(
            cloner().inputs(&["tick"]).refused(),
            "expected at least one input stream besides the one that ticks, got 1"
        );
        assert_eq!(
            cloner().outputs(&["x"]).refused(),
            "expected exactly 2 output streams, got 1"
        );
    }

    #[test]
    fn presence_is_reported_at_each_time() {
        let node = Node::of("PacketPresenceCalculator")
            .inputs(&["PACKET:a"])
            .outputs(&["PRESENCE:p"]);
        let contract = node.contract().unwrap();
        assert!(contract.wants_bounds);
        assert_eq!(contract.offset, Some(0));
        let mut run = node.start();
        assert_eq!(run.at(0, &[("a", Int(1))]), ["p true @0"]);
        assert_eq!(run.bound(1, &[("a", Timestamp::new(2))]), ["p false @1"]);
        assert_eq!(
            node.inputs(&["a"]).refused(),
            "expected exactly one input stream PACKET, got 0"
        );
    }

    #[test]
    fn joined_are_only_complete_times() {
        let node = Node::of("PacketInnerJoinCalculator")
            .inputs(&["a", "b"])
            .outputs(&["x", "y"]);
        let mut run = node.start();
        assert!(run.at(0, &[("a", Int(1))]).is_empty());
        assert_eq!(
            run.at(1, &[("a", Int(1)), ("b", Int(2))]),
            ["x 1 @1", "y 2 @1"]
        );
        assert_eq!(
            node.clone().outputs(&["x"]).refused(),
            "expected exactly 2 output streams, got 1"
        );
        assert_eq!(
            node.inputs(&[]).outputs(&[]).refused(),
            "expected at least one input stream, got 0"
        );
    }

    #[test]
    fn pairs_are_lists_of_two() {
        let node = Node::of("MakePairCalculator")
            .inputs(&["a", "b"])
            .outputs(&["p"]);
        let mut run = node.start();
        assert_eq!(
            run.at(0, &[("a", Int(1)), ("b", text("x"))]),
            ["p [1, \"x\"] @0"]
        );
        assert!(run.at(1, &[("a", Int(1))]).is_empty());
        assert_eq!(
            node.inputs(&["a"]).refused(),
            "expected exactly 2 input streams, got 1"
        );
    }

    #[test]
    fn a_default_stands_in() {
        let node = Node::of("ValueOrDefaultCalculator")
            .inputs(&["IN:a", "TICK:t"])
            .side_inputs(&["s"])
            .outputs(&["OUT:o", "FLAG:f"])
            .side("s", Int(9));
        let mut run = node.start();
        assert_eq!(run.at(0, &[("a", Int(1)), ("t", Int(0))]), ["o 1 @0"]);
        assert_eq!(run.at(1, &[("t", Int(0))]), ["o 9 @1", "f true @1"]);
        assert!(run.at(2, &[("a", Int(1))]).is_empty());
        assert_eq!(
            node.clone().side_inputs(&[]).refused(),
            "expected exactly one input side packet, got 0"
        );
        assert_eq!(
            node.inputs(&["IN:a"]).refused(),
            "expected exactly one input stream TICK, got 0"
        );
    }
}
