//! Thinning of a stream to one packet per period.

use super::prelude::*;
use crate::proto::mediapipe::{
    PacketThinnerCalculatorOptions, packet_thinner_calculator_options::ThinnerType,
};

/// Factories of this module.
pub(super) static FACTORIES: &[Factory] = &[Factory {
    name: "PacketThinnerCalculator",
    about: "Passes one packet of each period on: the first after a pause, or the nearest to its middle.",
    contract: |ask| {
        let node = ask.node;
        let options: PacketThinnerCalculatorOptions = node.options.get().unwrap_or_default();
        let Thinner {
            start,
            end,
            is_async,
            ..
        } = Thinner::new(node);
        ask.takes(EVERY, Count::One, &PacketType::Any)
            .needs("PERIOD", Count::Optional, &PacketType::Int)
            .gives(EVERY, Count::One, &PacketType::SameAsInput(0))
            .demand(options.period() >= 1, || {
                format!("period: expected at least 1, got {}", options.period())
            })
            .demand(start < end, || {
                format!("expected a start_time before the end_time, got {start} and {end}")
            })
            .settles_if(is_async)
    },
    make: |node, _| Box::new(Thinner::new(node)),
}];

struct Thinner {
    output: Output,
    is_async: bool,
    period: i64,
    start: Timestamp,
    end: Timestamp,
    /// Gives packets the time of their period; only `SYNC`.
    moves: bool,
    /// Timestamp before which packets are dropped; only `ASYNC`.
    next: Timestamp,
    /// Best packet of the period; only `SYNC`.
    saved: Option<Packet>,
}

impl Thinner {
    fn new(node: &NodeSpec) -> Self {
        let options: PacketThinnerCalculatorOptions = node.options.get().unwrap_or_default();
        let is_async = options.thinner_type() == ThinnerType::Async;
        let first = match is_async {
            true => Timestamp::MIN,
            false => Timestamp::new(0),
        };
        let start = options.start_time.map_or(first, Timestamp::new);
        Self {
            output: Output::new(0),
            is_async,
            period: options.period(),
            start,
            end: options.end_time.map_or(Timestamp::MAX, Timestamp::new),
            moves: options.sync_output_timestamps(),
            next: start,
            saved: None,
        }
    }

    /// Returns the middle of the period of a timestamp.
    fn middle(&self, at: Timestamp) -> Timestamp {
        let (start, period) = (i128::from(self.start.value()), i128::from(self.period));
        let since = i128::from(at.value()) - start;
        let middle = (since + period / 2) / period * period + start;
        i64::try_from(middle).map_or(Timestamp::MAX, Timestamp::new)
    }

    /// Returns the distance of a time to the middle of its period.
    fn distance(&self, at: Timestamp) -> u64 {
        at.value().abs_diff(self.middle(at).value())
    }

    fn time(&self, at: Timestamp) -> Timestamp {
        if self.moves { self.middle(at) } else { at }
    }

    fn flush(&mut self, context: &mut CalculatorContext<'_>) {
        if let Some(saved) = self.saved.take() {
            let saved = saved.moved(self.time(saved.at()));
            self.output.send(context, saved);
        }
    }

    fn pause(&mut self, context: &mut CalculatorContext<'_>, packet: Packet) {
        let at = packet.at();
        if at >= self.next {
            self.next = Timestamp::new(at.value().saturating_add(self.period));
            self.output.send(context, packet);
            self.output.raise(context, self.next.min(Timestamp::MAX));
        }
    }

    fn choose(&mut self, context: &mut CalculatorContext<'_>, packet: Packet) {
        let at = packet.at();
        if let Some(saved) = &self.saved {
            let before = saved.at();
            if self.middle(before) == self.middle(at) {
                // Of two equally good packets the later is taken.
                if self.distance(at) <= self.distance(before) {
                    self.saved = Some(packet);
                }
                return;
            }
            self.flush(context);
        }
        let bound = self.time(at);
        self.output.raise(context, bound);
        self.saved = Some(packet);
    }
}

impl Calculator for Thinner {
    fn open(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        if let Some(period) = value::side(context, "PERIOD") {
            self.period = value::long(period, "side packet PERIOD")?;
            let period = self.period;
            if period < 1 {
                return Err(GraphRunError::internal(format!(
                    "side packet PERIOD: expected at least 1, got {period}"
                )));
            }
        }
        self.output.raise(context, self.start);
        Ok(StepOutcome::Next)
    }

    fn process(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        let packet = context.inputs[0].clone();
        if context.at >= self.end {
            self.flush(context);
            self.output.close(context);
        } else if context.at < self.start || packet.is_empty() {
            // Outside of any period.
        } else if self.is_async {
            self.pause(context, packet);
        } else {
            self.choose(context, packet);
        }
        Ok(StepOutcome::Next)
    }

    fn close(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        self.flush(context);
        Ok(StepOutcome::Next)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::harness::{Node, text};
    use crate::{
        graph::calculators::packet::Payload::Int,
        proto::mediapipe::{
            PacketThinnerCalculatorOptions, packet_thinner_calculator_options::ThinnerType,
        },
    };

    fn options(kind: ThinnerType, period: i64) -> PacketThinnerCalculatorOptions {
        PacketThinnerCalculatorOptions {
            thinner_type: Some(kind.into()),
            period: Some(period),
            ..Default::default()
        }
    }

    fn node() -> Node {
        Node::of("PacketThinnerCalculator")
            .inputs(&["a"])
            .outputs(&["o"])
    }

    fn run(node: &Node, times: &[i64]) -> Vec<String> {
        let mut run = node.start();
        let mut reported: Vec<String> = run.opened().to_vec();
        for at in times {
            reported.extend(run.at(*at, &[("a", Int(*at))]));
        }
        reported.extend(run.close());
        reported
    }

    #[test]
    fn a_pause_follows_each_packet() {
        let node = node().options(&options(ThinnerType::Async, 10));
        assert_eq!(node.contract().unwrap().offset, Some(0));
        assert_eq!(
            run(&node, &[0, 5, 9, 10, 19, 25]),
            [
                "o bound -9223372036854775805",
                "o 0 @0",
                "o bound 10",
                "o 10 @10",
                "o bound 20",
                "o 25 @25",
                "o bound 35"
            ]
            .map(|reported| reported.replace("-9223372036854775805", "Timestamp::Min()"))
        );
    }

    #[test]
    fn packets_outside_are_dropped() {
        let mut limits = options(ThinnerType::Async, 1);
        limits.start_time = Some(5);
        limits.end_time = Some(8);
        let node = node().options(&limits);
        assert_eq!(
            run(&node, &[4, 5, 8, 9]),
            ["o bound 5", "o 5 @5", "o closed"],
            "a bound that a packet gives is not sent again"
        );
    }

    #[test]
    fn the_nearest_to_the_middle_is_chosen() {
        let node = node().options(&options(ThinnerType::Sync, 10));
        assert_eq!(node.contract().unwrap().offset, None);
        assert_eq!(
            run(&node, &[2, 8, 11, 12, 21, 26]),
            [
                "o bound 0",
                "o 2 @0",
                "o bound 10",
                "o 11 @10",
                "o bound 20",
                "o 21 @20",
                "o bound 30",
                "o 26 @30"
            ]
        );
    }

    #[test]
    fn times_may_stay() {
        let mut stay = options(ThinnerType::Sync, 10);
        stay.sync_output_timestamps = Some(false);
        stay.end_time = Some(20);
        let node = node().options(&stay);
        assert_eq!(
            run(&node, &[2, 9, 12, 20]),
            [
                "o bound 0",
                "o bound 2",
                "o 2 @2",
                "o bound 9",
                "o 9 @9",
                "o closed"
            ]
        );
    }

    #[test]
    fn the_period_may_come_as_a_side_packet() {
        let node = node()
            .options(&options(ThinnerType::Sync, 1))
            .side_inputs(&["PERIOD:p"]);
        let ten = node.clone().side("p", Int(10));
        assert_eq!(
            run(&ten, &[1, 2, 11]),
            ["o bound 0", "o 1 @0", "o bound 10", "o 11 @10"]
        );
        assert_eq!(
            node.clone().side("p", Int(0)).fails_to_open(),
            "INTERNAL: side packet PERIOD: expected at least 1, got 0"
        );
        assert_eq!(
            node.side("p", text("x")).fails_to_open(),
            "INVALID_ARGUMENT: side packet PERIOD: expected int64, got string"
        );
    }

    #[test]
    fn options_are_validated() {
        assert_eq!(
            node().options(&options(ThinnerType::Async, 0)).refused(),
            "period: expected at least 1, got 0"
        );
        let mut limits = options(ThinnerType::Sync, 1);
        limits.end_time = Some(0);
        assert_eq!(
            node().options(&limits).refused(),
            "expected a start_time before the end_time, got 0 and 0"
        );
        assert_eq!(
            node().inputs(&["a", "b"]).refused(),
            "expected exactly one input stream, got 2"
        );
    }
}
