//! Calculators that pass packets on unchanged.

use super::prelude::*;
use crate::{graph::calculators::node::Ports, proto::mediapipe::BypassCalculatorOptions};

/// Factories of this module.
pub(super) static FACTORIES: &[Factory] = &[
    Factory {
        name: "PassThroughCalculator",
        about: "Passes each input to the output with the same tag and index; side packets likewise.",
        contract: |ask| {
            ask.by_hand(|node| {
                check_same("streams", &node.inputs, &node.outputs)?;
                if !node.side_outputs.is_empty() {
                    check_same("side packets", &node.side_inputs, &node.side_outputs)?;
                }
                let same = |count| (0..count).map(PacketType::SameAsInput).collect();
                Ok(Contract {
                    outputs: same(node.outputs.len()),
                    side_outputs: same(node.side_outputs.len()),
                    offset: Some(0),
                    ..Contract::any(node)
                })
            })
        },
        make: |node, _| {
            let straight = |count| (0..count).map(|place| (place, place)).collect();
            Box::new(Forward {
                ways: straight(node.outputs.len()),
                side: straight(node.side_outputs.len()),
                silent: None,
            })
        },
    },
    Factory {
        name: "AddHeaderCalculator",
        about: "Passes DATA on; the header that HEADER stands for has no meaning here.",
        contract: |ask| {
            let node = ask.node;
            let headers =
                node.inputs.tagged("HEADER").count() + node.side_inputs.tagged("HEADER").count();
            ask.takes("DATA", Count::One, &PacketType::Any)
                .takes("HEADER", Count::Optional, &PacketType::Any)
                .needs("HEADER", Count::Optional, &PacketType::Any)
                .demand(headers == 1, || {
                    "expected HEADER either as an input stream or as an input side packet"
                        .to_owned()
                })
                .gives_same("", "DATA")
                .settles()
        },
        make: |node, _| {
            Box::new(Forward {
                ways: vec![(node.inputs.find("DATA", 0).unwrap_or_default(), 0)],
                silent: node.inputs.find("HEADER", 0),
                ..Forward::default()
            })
        },
    },
    Factory {
        name: "BypassCalculator",
        about: "Passes the inputs that the options name to the outputs that they name, and drops the others.",
        contract: |ask| {
            ask.by_hand(|node| {
                let ways = ways(node)?;
                let mut contract = Contract::any(node);
                for (from, to) in ways {
                    contract.outputs[to] = PacketType::SameAsInput(from);
                }
                contract.offset = Some(0);
                Ok(contract)
            })
        },
        make: |node, _| {
            Box::new(Forward {
                ways: ways(node).unwrap_or_default(),
                ..Forward::default()
            })
        },
    },
];

#[derive(Default)]
struct Forward {
    /// Pairs of inputs and their outputs.
    ways: Vec<(usize, usize)>,
    /// Pairs of input and output side packets.
    side: Vec<(usize, usize)>,
    /// Input that must not receive packets.
    silent: Option<usize>,
}

impl Calculator for Forward {
    fn open(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        for (from, to) in &self.side {
            context.emit(Emit::Side(*to, context.side[*from].clone()));
        }
        Ok(StepOutcome::Next)
    }

    fn process(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        if let Some(silent) = self.silent
            && context.input(silent).is_some()
        {
            let port = &context.node.inputs[silent];
            return Err(GraphRunError::invalid(format!(
                "input stream {} must have no packets, got one at {}",
                port.at.tag, context.at
            )));
        }
        for (from, to) in &self.ways {
            context.forward(*from, *to);
        }
        if context.inputs.is_empty() {
            return Ok(StepOutcome::Stop);
        }
        Ok(StepOutcome::Next)
    }
}

/// Checks that inputs and outputs have the same tags and indexes.
fn check_same(what: &str, inputs: &Ports, outputs: &Ports) -> Result<(), String> {
    if inputs
        .iter()
        .map(|port| &port.at)
        .eq(outputs.iter().map(|port| &port.at))
    {
        return Ok(());
    }
    Err(format!(
        "input and output {what} must have the same tags and indexes, got inputs [{}] and outputs \
         [{}]",
        places(inputs),
        places(outputs)
    ))
}

fn places(ports: &Ports) -> String {
    let places: Vec<String> = ports.iter().map(|port| port.at.to_string()).collect();
    places.join(", ")
}

/// Reads the mapping of inputs to outputs.
fn ways(node: &NodeSpec) -> Result<Vec<(usize, usize)>, String> {
    let options: BypassCalculatorOptions = node.options.get().unwrap_or_default();
    let (from, to) = (options.pass_input_stream, options.pass_output_stream);
    let (inputs, outputs) = (from.len(), to.len());
    if inputs != outputs {
        return Err(format!(
            "expected as many pass_input_stream as pass_output_stream, got {inputs} and {outputs}"
        ));
    }
    let pairs = from.iter().zip(&to);
    let ways = pairs.map(|(from, to)| {
        Ok((
            place(&node.inputs, from, "pass_input_stream")?,
            place(&node.outputs, to, "pass_output_stream")?,
        ))
    });
    ways.collect()
}

/// Finds a port by `TAG`, `TAG:index` or `:index`.
fn place(ports: &Ports, text: &str, option: &str) -> Result<usize, String> {
    let (tag, index) = text.split_once(':').unwrap_or((text, "0"));
    let found = index.parse().ok().and_then(|index| ports.find(tag, index));
    found.ok_or_else(|| {
        let known = places(ports);
        format!("{option}: \"{text}\" is not among the streams of the node, which are [{known}]")
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::harness::{Node, list};
    use crate::{
        graph::calculators::packet::{PacketType, Payload::Int},
        proto::mediapipe::BypassCalculatorOptions,
    };

    #[test]
    fn pass_through_passes_all_that_is_there() {
        let node = Node::of("PassThroughCalculator")
            .inputs(&["a", "B:b"])
            .outputs(&["c", "B:d"])
            .side_inputs(&["S:s"])
            .side_outputs(&["S:t"]);
        let contract = node.contract().unwrap();
        assert_eq!(contract.offset, Some(0));
        assert_eq!(contract.outputs[1], PacketType::SameAsInput(1));
        let mut run = node.side("s", Int(3)).start();
        assert_eq!(run.opened(), ["side t 3"]);
        assert_eq!(
            run.at(0, &[("a", Int(1)), ("b", list(&[2]))]),
            ["c 1 @0", "d [2] @0"]
        );
        assert_eq!(run.at(1, &[("b", Int(2))]), ["d 2 @1"]);
        assert!(run.close().is_empty());
    }

    #[test]
    fn pass_through_wants_its_ports_alike() {
        let node = Node::of("PassThroughCalculator")
            .inputs(&["a"])
            .outputs(&["B:b"]);
        assert_eq!(
            node.contract().unwrap_err(),
            "input and output streams must have the same tags and indexes, got inputs [:0] and outputs \
             [B:0]"
        );
        let node = Node::of("PassThroughCalculator")
            .side_inputs(&["s"])
            .side_outputs(&["t", "u"]);
        assert_eq!(
            node.contract().unwrap_err(),
            "input and output side packets must have the same tags and indexes, got inputs [:0] and \
             outputs [:0, :1]"
        );
        let node = Node::of("PassThroughCalculator").side_inputs(&["s"]);
        node.contract().unwrap();
    }

    #[test]
    fn a_header_has_no_packets() {
        let node = Node::of("AddHeaderCalculator")
            .inputs(&["DATA:a", "HEADER:h"])
            .outputs(&["o"]);
        node.contract().unwrap();
        let mut run = node.start();
        assert_eq!(run.at(0, &[("a", Int(1))]), ["o 1 @0"]);
        assert_eq!(
            run.error_at(1, &[("a", Int(1)), ("h", Int(2))]),
            "INVALID_ARGUMENT: input stream HEADER must have no packets, got one at 1"
        );
        let node = Node::of("AddHeaderCalculator")
            .inputs(&["DATA:a"])
            .outputs(&["o"]);
        assert_eq!(
            node.contract().unwrap_err(),
            "expected HEADER either as an input stream or as an input side packet"
        );
        let node = node.side_inputs(&["HEADER:h"]);
        node.contract().unwrap();
    }

    #[test]
    fn a_bypass_passes_what_options_name() {
        let options = |from: &[&str], to: &[&str]| BypassCalculatorOptions {
            pass_input_stream: from.iter().map(ToString::to_string).collect(),
            pass_output_stream: to.iter().map(ToString::to_string).collect(),
        };
        let node = Node::of("BypassCalculator")
            .inputs(&["A:a", "x", "y"])
            .outputs(&["B:0:b", "B:1:c"]);
        let good = node.clone().options(&options(&["A", ":1"], &["B:1", "B"]));
        assert_eq!(
            good.contract().unwrap().outputs,
            [PacketType::SameAsInput(1), PacketType::SameAsInput(2)]
        );
        let mut run = good.start();
        assert_eq!(
            run.at(0, &[("a", Int(1)), ("x", Int(2)), ("y", Int(3))]),
            ["c 1 @0", "b 3 @0"]
        );
        assert!(run.at(1, &[("x", Int(2))]).is_empty());

        let bad = node.clone().options(&options(&["A"], &[]));
        assert_eq!(
            bad.contract().unwrap_err(),
            "expected as many pass_input_stream as pass_output_stream, got 1 and 0"
        );
        let bad = node.options(&options(&["C"], &["B"]));
        assert_eq!(
            bad.contract().unwrap_err(),
            "pass_input_stream: \"C\" is not among the streams of the node, which are [:0, :1, A:0]"
        );
    }
}
