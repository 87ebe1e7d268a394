//! Gate: passes or drops packets.

use super::prelude::*;
use crate::proto::mediapipe::{GateCalculatorOptions, gate_calculator_options::GateState};

/// Factories of this module.
pub(super) static FACTORIES: &[Factory] = &[Factory {
    name: "GateCalculator",
    about: "Passes its inputs on while ALLOW says so, or DISALLOW does not, or the options do.",
    contract: |ask| {
        let node = ask.node;
        let controls = [&node.inputs, &node.side_inputs]
            .map(|ports| ports.tagged("ALLOW").count() + ports.tagged("DISALLOW").count());
        ask.demand(controls.iter().sum::<usize>() <= 1, || {
            "expected at most one of ALLOW and DISALLOW, either as an input stream or as an input side \
             packet"
                .to_owned()
        })
        .takes("", Count::Any, &PacketType::Any)
        .takes("ALLOW", Count::Optional, &PacketType::Bool)
        .takes("DISALLOW", Count::Optional, &PacketType::Bool)
        .needs("ALLOW", Count::Optional, &PacketType::Bool)
        .needs("DISALLOW", Count::Optional, &PacketType::Bool)
        .gives_same("", "")
        .gives("STATE_CHANGE", Count::Optional, &PacketType::Bool)
        .settles()
    },
    make: |node, _| {
        let options: GateCalculatorOptions = node.options.get().unwrap_or_default();
        let allow = node.inputs.find("ALLOW", 0).map(|place| (place, true));
        let disallow = || node.inputs.find("DISALLOW", 0).map(|place| (place, false));
        Box::new(Gate {
            was: match options.initial_gate_state() {
                GateState::GateUninitialized => None,
                GateState::GateAllow => Some(true),
                GateState::GateDisallow => Some(false),
            },
            control: allow.or_else(disallow),
            fixed: None,
            closed: false,
            options,
        })
    },
}];

struct Gate {
    options: GateCalculatorOptions,
    /// Control input: its index, and whether `true` opens the gate.
    control: Option<(usize, bool)>,
    /// State fixed by a side packet.
    fixed: Option<bool>,
    was: Option<bool>,
    closed: bool,
}

impl Gate {
    fn allows(&self, context: &CalculatorContext<'_>) -> Result<bool, GraphRunError> {
        if let Some((place, opens)) = self.control {
            let what = &context.node.inputs[place].at.tag;
            return match context.input(place) {
                Some(payload) => Ok(value::flag(payload, what)? == opens),
                None => Ok(self.options.empty_packets_as_allow()),
            };
        }
        Ok(self.fixed.unwrap_or_else(|| self.options.allow()))
    }
}

impl Calculator for Gate {
    fn open(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        let allow = value::side_as(context, "ALLOW", value::flag)?;
        let disallow = value::side_as(context, "DISALLOW", value::flag)?;
        self.fixed = allow.or(disallow.map(|disallow| !disallow));
        Ok(StepOutcome::Next)
    }

    fn process(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        let allow = self.allows(context)?;
        if let Some(change) = context.node.outputs.find("STATE_CHANGE", 0)
            && self.was.is_some_and(|was| was != allow)
        {
            context.send(change, Payload::Bool(allow));
        }
        self.was = Some(allow);
        // Untagged inputs have the same indices as untagged outputs.
        let data = context.node.inputs.tagged("").count();
        if allow {
            for place in 0..data {
                context.forward(place, place);
            }
        } else if self.fixed.is_some() && !self.closed {
            // The state is final: consumers of these outputs need not wait.
            self.closed = true;
            for place in 0..data {
                context.emit(Emit::Close(place));
            }
        }
        Ok(StepOutcome::Next)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::harness::Node;
    use crate::{
        graph::calculators::packet::{
            PacketType,
            Payload::{Bool, Int},
        },
        proto::mediapipe::{GateCalculatorOptions, gate_calculator_options::GateState},
    };

    fn gate(control: &str) -> Node {
        Node::of("GateCalculator")
            .inputs(&["a", "b", control])
            .outputs(&["x", "y", "STATE_CHANGE:change"])
    }

    #[test]
    fn a_stream_opens_and_shuts_it() {
        let node = gate("ALLOW:c");
        assert_eq!(node.contract().unwrap().offset, Some(0));
        let mut run = node.start();
        let step = |control| [("a", Int(1)), ("b", Int(2)), ("c", Bool(control))];
        assert_eq!(run.at(0, &step(true)), ["x 1 @0", "y 2 @0"]);
        assert_eq!(run.at(1, &step(false)), ["change false @1"]);
        assert!(run.at(2, &step(false)).is_empty());
        assert!(run.at(3, &[("a", Int(1))]).is_empty(), "no word means no");
        assert_eq!(
            run.at(4, &step(true)),
            ["change true @4", "x 1 @4", "y 2 @4"]
        );

        let mut run = gate("DISALLOW:c").start();
        assert!(run.at(0, &step(true)).is_empty());
        assert_eq!(
            run.at(1, &step(false)),
            ["change true @1", "x 1 @1", "y 2 @1"]
        );
        assert_eq!(
            run.error_at(2, &[("c", Int(1))]),
            "INVALID_ARGUMENT: DISALLOW: expected bool, got int"
        );
    }

    #[test]
    fn no_word_can_mean_yes() {
        let options = GateCalculatorOptions {
            empty_packets_as_allow: Some(true),
            ..Default::default()
        };
        let mut run = gate("ALLOW:c").options(&options).start();
        assert_eq!(run.at(0, &[("a", Int(1))]), ["x 1 @0"]);
        assert_eq!(
            run.at(1, &[("a", Int(1)), ("c", Bool(false))]),
            ["change false @1"]
        );
    }

    #[test]
    fn a_side_packet_decides_for_good() {
        let node = Node::of("GateCalculator").inputs(&["a"]).outputs(&["x"]);
        let allow = node.clone().side_inputs(&["ALLOW:s"]);
        let mut run = allow.clone().side("s", Bool(true)).start();
        assert_eq!(run.at(0, &[("a", Int(1))]), ["x 1 @0"]);
        let mut run = allow.clone().side("s", Bool(false)).start();
        assert_eq!(run.at(0, &[("a", Int(1))]), ["x closed"]);
        assert!(run.at(1, &[("a", Int(1))]).is_empty());
        let asked = allow.contract().unwrap().side_inputs;
        assert_eq!(asked, [(PacketType::Bool, false)], "it has to be given");

        let disallow = node.side_inputs(&["DISALLOW:s"]);
        let mut run = disallow.clone().side("s", Bool(false)).start();
        assert_eq!(run.at(0, &[("a", Int(1))]), ["x 1 @0"]);
        assert_eq!(
            disallow.side("s", Int(0)).fails_to_open(),
            "INVALID_ARGUMENT: side packet DISALLOW: expected bool, got int"
        );
    }

    #[test]
    fn options_decide_if_nothing_else_does() {
        let node = Node::of("GateCalculator")
            .inputs(&["a"])
            .outputs(&["x", "STATE_CHANGE:change"]);
        assert!(node.start().at(0, &[("a", Int(1))]).is_empty());
        let options = GateCalculatorOptions {
            allow: Some(true),
            initial_gate_state: Some(GateState::GateDisallow.into()),
            ..Default::default()
        };
        let mut run = node.options(&options).start();
        assert_eq!(run.at(0, &[("a", Int(1))]), ["change true @0", "x 1 @0"]);
    }

    #[test]
    fn one_control_and_as_many_outputs_as_inputs() {
        let text = "expected at most one of ALLOW and DISALLOW, either as an input stream or as an \
                    input side packet";
        let node = gate("ALLOW:c");
        assert_eq!(node.clone().side_inputs(&["ALLOW:s"]).refused(), text);
        assert_eq!(node.clone().side_inputs(&["DISALLOW:s"]).refused(), text);
        let both = node.clone().inputs(&["a", "ALLOW:c", "DISALLOW:d"]);
        assert_eq!(both.refused(), text);
        assert_eq!(
            node.outputs(&["x"]).refused(),
            "expected exactly 2 output streams without tag, got 1"
        );
    }
}
