//! Loopback of the result for the previous packet.

use std::collections::VecDeque;

use super::prelude::*;

/// Factories of this module.
pub(super) static FACTORIES: &[Factory] = &[Factory {
    name: "PreviousLoopbackCalculator",
    about: "With each packet of MAIN, gives what came back on LOOP at the time of the one before.",
    contract: |ask| {
        let node = ask.node;
        let back = node.inputs.find("LOOP", 0).unwrap_or_default();
        ask.takes("MAIN", Count::One, &PacketType::Any)
            .takes("LOOP", Count::One, &PacketType::Any)
            .gives("PREV_LOOP", Count::One, &PacketType::SameAsInput(back))
            .handler("ImmediateInputStreamHandler")
            .wants_bounds()
    },
    make: |node, _| {
        Box::new(Loopback {
            main: node.inputs.find("MAIN", 0).unwrap_or_default(),
            back: node.inputs.find("LOOP", 0).unwrap_or_default(),
            output: Output::new(0),
            wanted: VecDeque::new(),
            loops: VecDeque::new(),
            main_settled: Timestamp::UNSTARTED,
            loop_settled: Timestamp::UNSTARTED,
            previous: None,
        })
    },
}];

struct Loopback {
    main: usize,
    back: usize,
    output: Output,
    /// Timestamps of MAIN, and, except for the first, the timestamp of the LOOP packet to pair
    /// with.
    wanted: VecDeque<(Timestamp, Option<Timestamp>)>,
    loops: VecDeque<Packet>,
    main_settled: Timestamp,
    loop_settled: Timestamp,
    previous: Option<Timestamp>,
}

impl Loopback {
    fn take(&mut self, context: &CalculatorContext<'_>) {
        let at = settled(context, self.main);
        if at > self.main_settled {
            self.main_settled = at;
            let wants = if context.inputs[self.main].is_empty() {
                // A later bound implies an earlier one.
                if matches!(self.wanted.back(), Some((_, None))) {
                    self.wanted.pop_back();
                }
                None
            } else {
                self.previous.replace(at)
            };
            self.wanted.push_back((at, wants));
        }
        let packet = &context.inputs[self.back];
        if !packet.is_empty() {
            self.loops.push_back(packet.clone());
        }
        self.loop_settled = self.loop_settled.max(settled(context, self.back));
    }
}

impl Calculator for Loopback {
    fn process(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        self.take(context);
        while let Some((at, wants)) = self.wanted.front().copied() {
            let Some(wants) = wants else {
                self.wanted.pop_front();
                self.output.raise(context, at.next_allowed());
                continue;
            };
            while self.loops.front().is_some_and(|packet| packet.at() < wants) {
                self.loops.pop_front();
            }
            match self.loops.front() {
                Some(packet) if packet.at() == wants => {
                    let packet = packet.moved(at);
                    self.loops.pop_front();
                    self.output.send(context, packet);
                }
                None if self.loop_settled < wants => break,
                // There was no packet at that timestamp.
                _ => self.output.raise(context, at.next_allowed()),
            }
            self.wanted.pop_front();
        }
        Ok(StepOutcome::Next)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::harness::Node;
    use crate::graph::calculators::{
        packet::{PacketType, Payload::Int},
        timestamp::Timestamp,
    };

    fn node() -> Node {
        Node::of("PreviousLoopbackCalculator")
            .inputs(&["MAIN:m", "LOOP:l"])
            .outputs(&["PREV_LOOP:p"])
    }

    #[test]
    fn what_came_back_of_the_packet_before() {
        let contract = node().contract().unwrap();
        assert_eq!(contract.handler, Some("ImmediateInputStreamHandler"));
        assert!(contract.wants_bounds);
        assert_eq!(contract.outputs, [PacketType::SameAsInput(0)]);
        let mut run = node().start();
        assert_eq!(
            run.at(0, &[("m", Int(1))]),
            ["p bound 1"],
            "there is none yet"
        );
        assert!(run.at(0, &[("l", Int(10))]).is_empty());
        assert_eq!(run.at(5, &[("m", Int(2))]), ["p 10 @5"]);
        assert!(
            run.at(7, &[("m", Int(3))]).is_empty(),
            "waits for what 5 gives"
        );
        assert_eq!(run.at(5, &[("l", Int(20))]), ["p 20 @7"]);
        assert!(run.at(7, &[("l", Int(30))]).is_empty());
        assert_eq!(
            run.bound(9, &[("m", Timestamp::DONE)]),
            ["p closed"],
            "nothing will be asked any more"
        );
    }

    #[test]
    fn nothing_may_come_back() {
        let mut run = node().start();
        run.at(0, &[("m", Int(1))]);
        run.at(5, &[("m", Int(2))]);
        assert_eq!(run.bound(0, &[("l", Timestamp::new(1))]), ["p bound 6"]);
        run.at(8, &[("m", Int(3))]);
        assert_eq!(
            run.at(6, &[("l", Int(9))]),
            ["p bound 9"],
            "a packet of another time is not it"
        );
    }

    #[test]
    fn bounds_pass() {
        let mut run = node().start();
        assert_eq!(run.bound(3, &[("m", Timestamp::new(4))]), ["p bound 4"]);
        run.at(4, &[("m", Int(1))]);
        assert!(run.at(5, &[("m", Int(2))]).is_empty());
        assert!(run.bound(6, &[("m", Timestamp::new(7))]).is_empty());
        assert!(run.bound(8, &[("m", Timestamp::new(9))]).is_empty());
        assert_eq!(run.at(4, &[("l", Int(3))]), ["p 3 @5", "p bound 9"]);
    }

    #[test]
    fn ports_are_validated() {
        assert_eq!(
            node().inputs(&["MAIN:m"]).refused(),
            "expected exactly one input stream LOOP, got 0"
        );
        assert_eq!(
            node().inputs(&["LOOP:l"]).refused(),
            "expected exactly one input stream MAIN, got 0"
        );
        assert_eq!(
            node().outputs(&["p"]).refused(),
            "expected exactly one output stream PREV_LOOP, got 0"
        );
    }
}
