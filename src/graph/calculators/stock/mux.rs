//! Calculators that merge several streams into one, and split them again.

use super::prelude::*;

/// Factories of this module.
pub(super) static FACTORIES: &[Factory] = &[
    Factory {
        name: "MuxCalculator",
        about: "Passes on the packets of the INPUT that SELECT names.",
        contract: mux,
        make: |_, _| Box::new(send_selected),
    },
    Factory {
        name: "ImmediateMuxCalculator",
        about: "Passes on the packets of all inputs as they come, without those that come too late.",
        contract: |ask| {
            let outputs = ask.node.outputs.len();
            let mut ask = ask
                .takes(EVERY, Count::Some, &PacketType::Any)
                .demand(outputs == 1 || outputs == 2, || {
                    format!("expected one or two output streams, got {outputs}")
                })
                .gives(EVERY, Count::Any, &PacketType::Any)
                .settles();
            if let [_, finished] = &mut ask.contract.outputs[..] {
                *finished = PacketType::Bool;
            }
            ask
        },
        make: |node, _| {
            Box::new(ImmediateMux {
                output: Output::new(0),
                finished: (node.outputs.len() > 1).then(|| Output::new(1)),
            })
        },
    },
    Factory {
        name: "MergeCalculator",
        about: "Passes on the packets of all inputs; of several at a time, that of the lowest index.",
        contract: |ask| {
            ask.takes("", Count::Some, &PacketType::Any)
                .gives("", Count::One, &PacketType::Any)
                .settles()
        },
        make: |_, _| Box::new(send_first),
    },
    Factory {
        name: "RoundRobinDemuxCalculator",
        about: "Gives packets to its OUTPUTs in turn, and reports in SELECT to which.",
        contract: |ask| {
            ask.takes(EVERY, Count::One, &PacketType::Any)
                .gives("OUTPUT", Count::Some, &PacketType::SameAsInput(0))
                .gives("SELECT", Count::Optional, &PacketType::Int)
                .settles()
        },
        make: |_, _| Box::new(RoundRobin::default()),
    },
];

fn mux(ask: Ask<'_>) -> Ask<'_> {
    let node = ask.node;
    let by_stream = node.inputs.find("SELECT", 0).is_some();
    let by_side = node.side_inputs.find("SELECT", 0).is_some();
    let ask = ask
        .takes("INPUT", Count::Some, &PacketType::Any)
        .takes("SELECT", Count::Optional, &PacketType::Int)
        .needs("SELECT", Count::Optional, &PacketType::Int)
        .demand(by_stream != by_side, || {
            "expected SELECT either as an input stream or as an input side packet".to_owned()
        })
        .gives("OUTPUT", Count::One, &PacketType::SameAsInput(0))
        .settles();
    match by_stream {
        true => ask.handler("MuxInputStreamHandler"),
        false => ask,
    }
}

fn send_selected(context: &mut CalculatorContext<'_>) -> StepResult {
    let select = value::tagged(context, "SELECT").or_else(|| value::side(context, "SELECT"));
    let Some(select) = select else {
        return Ok(StepOutcome::Next);
    };
    let select = value::int(select, "SELECT")?;
    let inputs: Vec<usize> = context.node.inputs.tagged("INPUT").collect();
    let chosen = usize::try_from(select).ok();
    let Some(place) = chosen.and_then(|select| inputs.get(select)) else {
        return Err(GraphRunError::internal(format!(
            "SELECT: expected 0 to {}, got {select}",
            inputs.len() - 1
        )));
    };
    context.forward(*place, 0);
    Ok(StepOutcome::Next)
}

struct ImmediateMux {
    output: Output,
    /// Output with one packet for each that arrived.
    finished: Option<Output>,
}

impl Calculator for ImmediateMux {
    fn process(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        let inputs = context.inputs;
        for packet in inputs.iter().filter(|packet| !packet.is_empty()) {
            if packet.at() >= self.output.bound() {
                self.output.send(context, packet.clone());
            }
            if let Some(finished) = &mut self.finished {
                let at = context.at.max(finished.bound());
                finished.send(context, Packet::new(Payload::Bool(true), at));
            }
        }
        Ok(StepOutcome::Next)
    }
}

fn send_first(context: &mut CalculatorContext<'_>) -> StepResult {
    if let Some(place) = context.inputs.iter().position(|packet| !packet.is_empty()) {
        context.forward(place, 0);
    }
    Ok(StepOutcome::Next)
}

#[derive(Default)]
struct RoundRobin {
    next: usize,
}

impl Calculator for RoundRobin {
    fn process(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        // Ports are sorted by tag, so those of OUTPUT come before SELECT.
        if context.forward(0, self.next) {
            if let Some(select) = context.node.outputs.find("SELECT", 0) {
                context.send(select, Payload::Int(self.next as i64));
            }
            self.next = (self.next + 1) % context.node.outputs.tagged("OUTPUT").count();
        }
        Ok(StepOutcome::Next)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::harness::{Node, text};
    use crate::graph::calculators::packet::{PacketType, Payload::Int};

    #[test]
    fn a_mux_follows_its_selection() {
        let node = Node::of("MuxCalculator")
            .inputs(&["INPUT:0:a", "INPUT:1:b", "SELECT:s"])
            .outputs(&["OUTPUT:o"]);
        let contract = node.contract().unwrap();
        assert_eq!(contract.handler, Some("MuxInputStreamHandler"));
        assert_eq!(contract.inputs[2], PacketType::Int);
        let mut run = node.start();
        assert_eq!(run.at(0, &[("b", Int(5)), ("s", Int(1))]), ["o 5 @0"]);
        assert_eq!(run.at(1, &[("a", Int(6)), ("s", Int(0))]), ["o 6 @1"]);
        assert!(run.at(2, &[("s", Int(0))]).is_empty());
        assert_eq!(
            run.error_at(3, &[("a", Int(6)), ("s", Int(2))]),
            "INTERNAL: SELECT: expected 0 to 1, got 2"
        );
        assert_eq!(
            run.error_at(4, &[("s", Int(-1))]),
            "INTERNAL: SELECT: expected 0 to 1, got -1"
        );
        assert_eq!(
            run.error_at(5, &[("s", text("x"))]),
            "INVALID_ARGUMENT: SELECT: expected int, got string"
        );
    }

    #[test]
    fn a_mux_can_be_set_once() {
        let node = Node::of("MuxCalculator")
            .inputs(&["INPUT:0:a", "INPUT:1:b"])
            .side_inputs(&["SELECT:s"])
            .outputs(&["OUTPUT:o"])
            .side("s", Int(1));
        assert_eq!(node.contract().unwrap().handler, None);
        let mut run = node.start();
        assert_eq!(run.at(0, &[("a", Int(1)), ("b", Int(2))]), ["o 2 @0"]);
    }

    #[test]
    fn a_mux_needs_one_selection() {
        let node = Node::of("MuxCalculator")
            .inputs(&["INPUT:a"])
            .outputs(&["OUTPUT:o"]);
        let text = "expected SELECT either as an input stream or as an input side packet";
        assert_eq!(node.refused(), text);
        let node = node
            .inputs(&["INPUT:a", "SELECT:s"])
            .side_inputs(&["SELECT:t"]);
        assert_eq!(node.refused(), text);
        let node = Node::of("MuxCalculator")
            .inputs(&["SELECT:s"])
            .outputs(&["OUTPUT:o"]);
        assert_eq!(
            node.refused(),
            "expected at least one input stream INPUT, got 0"
        );
    }

    #[test]
    fn an_immediate_mux_drops_what_is_late() {
        let node = Node::of("ImmediateMuxCalculator")
            .inputs(&["a", "b"])
            .outputs(&["o", "done"]);
        assert_eq!(node.contract().unwrap().outputs[1], PacketType::Bool);
        let mut run = node.start();
        assert_eq!(run.at(5, &[("a", Int(1))]), ["o 1 @5", "done true @5"]);
        assert_eq!(run.at(3, &[("b", Int(2))]), ["done true @6"]);
        assert_eq!(
            run.at(8, &[("a", Int(3)), ("b", Int(4))]),
            ["o 3 @8", "done true @8", "done true @9"]
        );
        let node = node.outputs(&["o", "p", "q"]);
        assert_eq!(node.refused(), "expected one or two output streams, got 3");
        let node = node.inputs(&[]).outputs(&["o"]);
        assert_eq!(node.refused(), "expected at least one input stream, got 0");
    }

    #[test]
    fn merging_prefers_the_lowest_index() {
        let node = Node::of("MergeCalculator")
            .inputs(&["a", "b"])
            .outputs(&["o"]);
        assert_eq!(node.contract().unwrap().offset, Some(0));
        let mut run = node.start();
        assert_eq!(run.at(0, &[("b", Int(2))]), ["o 2 @0"]);
        assert_eq!(run.at(1, &[("a", Int(1)), ("b", Int(2))]), ["o 1 @1"]);
        let node = node.inputs(&[]);
        assert_eq!(
            node.refused(),
            "expected at least one input stream without tag, got 0"
        );
    }

    #[test]
    fn outputs_take_turns() {
        let node = Node::of("RoundRobinDemuxCalculator")
            .inputs(&["a"])
            .outputs(&["OUTPUT:0:x", "OUTPUT:1:y", "SELECT:s"]);
        let mut run = node.start();
        assert_eq!(run.at(0, &[("a", Int(7))]), ["x 7 @0", "s 0 @0"]);
        assert_eq!(run.at(1, &[("a", Int(8))]), ["y 8 @1", "s 1 @1"]);
        assert_eq!(run.at(2, &[("a", Int(9))]), ["x 9 @2", "s 0 @2"]);
        let node = node.outputs(&["SELECT:s"]);
        assert_eq!(
            node.refused(),
            "expected at least one output stream OUTPUT, got 0"
        );
    }
}
