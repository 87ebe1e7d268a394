//! Resampling of packets to a steady rate.

use super::prelude::*;
use crate::{graph::calculators::node::Ports, proto::mediapipe::PacketResamplerCalculatorOptions};

/// Timestamps are in microseconds here.
const SECOND: f64 = 1_000_000.0;

/// Maximum number of packets that one packet can become when a gap in the input is filled.
const MAX_FILLED: i64 = 1 << 16;

/// Factories of this module.
pub(super) static FACTORIES: &[Factory] = &[Factory {
    name: "PacketResamplerCalculator",
    about: "Sends packets at the option frame_rate: in each period the one that is nearest to its time.",
    contract: |ask| {
        let node = ask.node;
        let options: PacketResamplerCalculatorOptions = node.options.get().unwrap_or_default();
        let rate = options.frame_rate();
        let tag = |ports: &Ports| ports.find("DATA", 0).map_or("", |_| "DATA");
        ask.takes(tag(&node.inputs), Count::One, &PacketType::Any)
            .gives(tag(&node.outputs), Count::One, &PacketType::SameAsInput(0))
            .demand(rate > 0.0 && rate <= SECOND, || {
                format!("frame_rate: expected more than 0 and at most {SECOND}, got {rate}")
            })
            .demand(options.jitter() == 0.0, || {
                "jitter: expected none, because there is no secure source of random numbers for it"
                    .to_owned()
            })
            .demand(!options.use_input_frame_rate(), || {
                "use_input_frame_rate: expected false, because streams have no video header here"
                    .to_owned()
            })
    },
    make: |node, _| {
        Box::new(Resampler {
            options: node.options.get().unwrap_or_default(),
            output: Output::new(0),
            first: None,
            last: None,
            period: 0,
        })
    },
}];

struct Resampler {
    options: PacketResamplerCalculatorOptions,
    output: Output,
    /// Timestamp of the first period.
    first: Option<Timestamp>,
    last: Option<Packet>,
    /// Next period.
    period: i64,
}

/// Converts seconds to timestamp units.
fn units(seconds: f64) -> i64 {
    // The conversion saturates at the range of the type.
    (seconds * SECOND).round() as i64
}

impl Resampler {
    fn period_of(&self, first: Timestamp, at: Timestamp) -> i64 {
        let since = (i128::from(at.value()) - i128::from(first.value())) as f64;
        (since / SECOND * self.options.frame_rate()).round() as i64
    }

    fn time_of(&self, first: Timestamp, period: i64) -> Timestamp {
        first.offset(units(period as f64 / self.options.frame_rate()))
    }

    /// Returns the timestamp of the first period if this is the first packet.
    fn begin(&self, at: Timestamp) -> Timestamp {
        let base = self.options.base_timestamp.map(Timestamp::new);
        base.map_or(at, |base| self.time_of(base, self.period_of(base, at)))
    }

    fn send(&mut self, context: &mut CalculatorContext<'_>, packet: &Packet, at: Timestamp) {
        let margin = match self.options.round_limits() {
            true => ((SECOND / self.options.frame_rate()) as i64) / 2,
            false => 0,
        };
        let (start, end) = (self.options.start_time, self.options.end_time);
        let begun = start.is_none_or(|start| at.value() >= start.saturating_sub(margin));
        let ended = end.is_some_and(|end| at.value() >= end.saturating_add(margin));
        if begun && !ended && at >= self.output.bound() {
            self.output.send(context, packet.moved(at));
        }
    }
}

impl Calculator for Resampler {
    fn process(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        let packet = context.inputs[0].clone();
        if packet.is_empty() {
            return Ok(StepOutcome::Next);
        }
        let at = packet.at();
        if !at.is_ordinary() {
            return Err(GraphRunError::internal(format!(
                "expected packets of ordinary times, got one at {at}"
            )));
        }
        let first = self.first.unwrap_or_else(|| self.begin(at));
        self.first = Some(first);
        let period = self.period_of(first, at);
        if period.saturating_sub(self.period) > MAX_FILLED {
            return Err(GraphRunError::new(
                AbseilCode::ResourceExhausted,
                format!("expected a gap of at most {MAX_FILLED} periods, got one up to {at}"),
            ));
        }
        if period >= self.period {
            while period > self.period
                && let Some(last) = self.last.clone()
            {
                self.send(context, &last, self.time_of(first, self.period));
                self.period += 1;
            }
            let target = self.time_of(first, self.period);
            if at >= target {
                let nearer = self.last.as_ref().filter(|last| {
                    at.value().abs_diff(target.value()) > target.value().abs_diff(last.at().value())
                });
                let chosen = nearer.unwrap_or(&packet).clone();
                self.send(context, &chosen, target);
                self.period += 1;
            }
            let bound = self.time_of(first, self.period);
            self.output.raise(context, bound);
        }
        self.last = Some(packet);
        Ok(StepOutcome::Next)
    }

    fn close(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        if let (Some(first), Some(last)) = (self.first, self.last.take())
            && self.options.flush_last_packet()
            && self.period_of(first, last.at()) == self.period
        {
            let at = self.time_of(first, self.period);
            self.send(context, &last, at);
        }
        Ok(StepOutcome::Next)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::harness::Node;
    use crate::{
        graph::calculators::{packet::Payload::Int, timestamp::Timestamp},
        proto::mediapipe::PacketResamplerCalculatorOptions,
    };

    fn rate(frame_rate: f64) -> PacketResamplerCalculatorOptions {
        PacketResamplerCalculatorOptions {
            frame_rate: Some(frame_rate),
            ..Default::default()
        }
    }

    fn node() -> Node {
        Node::of("PacketResamplerCalculator")
            .inputs(&["a"])
            .outputs(&["o"])
    }

    /// Runs the calculator with packets at these milliseconds; returns only packets.
    fn run(options: &PacketResamplerCalculatorOptions, times: &[i64]) -> Vec<String> {
        let mut run = node().options(options).start();
        let mut reported = Vec::new();
        for at in times {
            reported.extend(run.at(*at * 1000, &[("a", Int(*at))]));
        }
        reported.extend(run.close());
        reported.retain(|reported| !reported.contains("bound"));
        reported
    }

    #[test]
    fn packets_are_repeated_in_gaps() {
        assert_eq!(
            run(&rate(10.0), &[0, 340]),
            ["o 0 @0", "o 0 @100000", "o 0 @200000", "o 340 @300000"]
        );
    }

    #[test]
    fn of_many_the_nearest_is_sent() {
        assert_eq!(
            run(&rate(10.0), &[0, 30, 60, 95, 120, 190, 260]),
            ["o 0 @0", "o 95 @100000", "o 190 @200000", "o 260 @300000"]
        );
        let mut kept = rate(10.0);
        kept.flush_last_packet = Some(false);
        assert_eq!(
            run(&kept, &[0, 30, 60, 95, 120, 190, 260]),
            ["o 0 @0", "o 95 @100000", "o 190 @200000"]
        );
    }

    #[test]
    fn bounds_are_the_next_period() {
        let mut run = node().options(&rate(10.0)).start();
        assert_eq!(run.at(0, &[("a", Int(1))]), ["o 1 @0", "o bound 100000"]);
        assert!(run.at(30_000, &[("a", Int(2))]).is_empty());
    }

    #[test]
    fn times_are_counted_from_a_base_and_kept_within_limits() {
        let mut options = rate(10.0);
        options.base_timestamp = Some(20_000);
        assert_eq!(
            run(&options, &[0, 110, 210]),
            ["o 0 @20000", "o 110 @120000", "o 210 @220000"]
        );
        let mut options = rate(10.0);
        options.start_time = Some(60_000);
        options.end_time = Some(240_000);
        assert_eq!(
            run(&options, &[0, 100, 200, 300]),
            ["o 100 @100000", "o 200 @200000"]
        );
        options.round_limits = Some(true);
        assert_eq!(
            run(&options, &[0, 100, 200, 300]),
            ["o 100 @100000", "o 200 @200000"]
        );
        options.end_time = Some(260_000);
        assert_eq!(
            run(&options, &[0, 100, 200, 300]),
            ["o 100 @100000", "o 200 @200000", "o 300 @300000"]
        );
    }

    #[test]
    fn options_and_ports_are_validated() {
        for frame_rate in [-1.0, 0.0, 1_000_001.0] {
            assert_eq!(
                node().options(&rate(frame_rate)).refused(),
                format!("frame_rate: expected more than 0 and at most 1000000, got {frame_rate}")
            );
        }
        assert_eq!(
            node().refused(),
            "frame_rate: expected more than 0 and at most 1000000, got -1",
            "it has to be set"
        );
        let mut options = rate(1.0);
        options.jitter = Some(0.5);
        assert_eq!(
            node().options(&options).refused(),
            "jitter: expected none, because there is no secure source of random numbers for it"
        );
        let mut options = rate(1.0);
        options.use_input_frame_rate = Some(true);
        assert_eq!(
            node().options(&options).refused(),
            "use_input_frame_rate: expected false, because streams have no video header here"
        );
        let tagged = node()
            .inputs(&["DATA:a"])
            .outputs(&["DATA:o"])
            .options(&rate(1.0));
        tagged.contract().unwrap();
        assert_eq!(
            tagged.inputs(&["a", "b"]).refused(),
            "expected exactly one input stream without tag, got 2"
        );
    }

    #[test]
    fn times_out_of_reach_are_refused() {
        let mut run = node().options(&rate(1_000_000.0)).start();
        run.at(0, &[("a", Int(1))]);
        assert_eq!(
            run.error_at(100_000, &[("a", Int(1))]),
            "RESOURCE_EXHAUSTED: expected a gap of at most 65536 periods, got one up to 100000"
        );
        let mut run = node().options(&rate(1.0)).start();
        assert_eq!(
            run.error_at(Timestamp::PRE_STREAM.value(), &[("a", Int(1))]),
            "INTERNAL: expected packets of ordinary times, got one at Timestamp::PreStream()"
        );
    }
}
