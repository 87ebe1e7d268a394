//! Flow limiters: packets that arrive faster than they are processed are dropped.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::prelude::*;
use crate::proto::mediapipe::FlowLimiterCalculatorOptions;

/// Maximum number of packets of an auxiliary input that wait for the main one.
const MAX_QUEUE: usize = 10_000;

/// Factories of this module.
pub(super) static FACTORIES: &[Factory] = &[
    Factory {
        name: "FlowLimiterCalculator",
        about: "Lets so many packets through until FINISHED says that they are done; the newest wait.",
        contract: queued,
        make: |node, _| {
            let options: FlowLimiterCalculatorOptions = node.options.get().unwrap_or_default();
            let (outputs, allow) = outputs(node);
            Box::new(Limiter {
                max_in_flight: usize::try_from(options.max_in_flight()).unwrap_or(1),
                queues: vec![VecDeque::new(); outputs.len()],
                outputs,
                allow,
                in_flight: VecDeque::new(),
                allowed: BTreeMap::from([(Timestamp::UNSET, true)]),
                options,
            })
        },
    },
    Factory {
        name: "RealTimeFlowLimiterCalculator",
        about: "Lets so many packets through until FINISHED says that they are done; none waits.",
        contract,
        make: |node, _| {
            let (outputs, allow) = outputs(node);
            Box::new(RealTime {
                max_in_flight: 1,
                in_flight: 0,
                outputs,
                allow,
                changes: 0,
                sent: BTreeSet::new(),
                dropped: Timestamp::UNSET,
            })
        },
    },
];

fn contract(ask: Ask<'_>) -> Ask<'_> {
    ask.takes("", Count::Some, &PacketType::Any)
        .takes("FINISHED", Count::One, &PacketType::Any)
        .uses("MAX_IN_FLIGHT", &PacketType::Int)
        .gives_same("", "")
        .gives("ALLOW", Count::Optional, &PacketType::Bool)
        .handler("ImmediateInputStreamHandler")
}

fn queued(ask: Ask<'_>) -> Ask<'_> {
    let options: FlowLimiterCalculatorOptions = ask.node.options.get().unwrap_or_default();
    let (flight, queue) = (options.max_in_flight(), options.max_in_queue());
    let ask = ask
        .demand(flight >= 1, || {
            format!("max_in_flight: expected at least 1, got {flight}")
        })
        .demand(queue >= 0, || {
            format!("max_in_queue: expected at least 0, got {queue}")
        });
    contract(ask).wants_bounds()
}

/// Reads the side packet.
fn max_in_flight(context: &CalculatorContext<'_>) -> Result<Option<usize>, GraphRunError> {
    let given = value::at_least(context, "MAX_IN_FLIGHT", 1)?;
    Ok(given.and_then(|given| usize::try_from(given).ok()))
}

fn outputs(node: &NodeSpec) -> (Vec<Output>, Option<Output>) {
    let outputs = node.outputs.tagged("").map(Output::new);
    let allow = node.outputs.find("ALLOW", 0).map(Output::new);
    (outputs.collect(), allow)
}

/// Returns the lowest timestamp that an input has yet to decide on.
fn next(context: &CalculatorContext<'_>, place: usize, queue: &VecDeque<Packet>) -> Timestamp {
    let head = queue.front().map(Packet::at);
    head.unwrap_or_else(|| settled(context, place).next_allowed())
}

/// Limiter with a queue. The first input decides; the others follow by its timestamps.
struct Limiter {
    options: FlowLimiterCalculatorOptions,
    max_in_flight: usize,
    outputs: Vec<Output>,
    allow: Option<Output>,
    queues: Vec<VecDeque<Packet>>,
    in_flight: VecDeque<Timestamp>,
    /// Decisions by their first timestamp: whether packets from then on pass or are dropped.
    allowed: BTreeMap<Timestamp, bool>,
}

impl Limiter {
    fn decide(&mut self, context: &mut CalculatorContext<'_>, at: Timestamp, allow: bool) {
        if let Some(output) = &mut self.allow {
            output.send(context, Packet::new(Payload::Bool(allow), at));
        }
        self.allowed.insert(at, allow);
    }

    fn forget_finished(&mut self, context: &CalculatorContext<'_>) {
        let finished = context.node.inputs.find("FINISHED", 0);
        let done = finished.map_or(Timestamp::UNSET, |place| settled(context, place));
        let timeout = self.options.in_flight_timeout();
        let latest = settled(context, 0);
        let has_timeout = timeout > 0 && latest.is_ordinary() && latest < Timestamp::MAX;
        let is_late = |at: &Timestamp| latest.value().saturating_sub(at.value()) > timeout;
        let is_over = |at: &Timestamp| *at <= done || (has_timeout && is_late(at));
        while self.in_flight.front().is_some_and(is_over) {
            self.in_flight.pop_front();
        }
    }

    fn release(&mut self, context: &mut CalculatorContext<'_>) {
        while self.in_flight.len() < self.max_in_flight
            && let Some(packet) = self.queues[0].pop_front()
        {
            let at = packet.at();
            self.outputs[0].send(context, packet);
            self.decide(context, at, true);
            self.in_flight.push_back(at);
        }
        let most = usize::try_from(self.options.max_in_queue()).unwrap_or(0);
        while self.queues[0].len() > most
            && let Some(packet) = self.queues[0].pop_front()
        {
            self.decide(context, packet.at(), false);
        }
        let bound = next(context, 0, &self.queues[0]);
        self.outputs[0].raise(context, bound);
        if self.queues[0].is_empty()
            && let Some(allow) = &mut self.allow
        {
            allow.raise(context, bound);
        }
    }

    fn follow(&mut self, context: &mut CalculatorContext<'_>) {
        let decided = self.outputs[0].bound();
        for place in 1..self.outputs.len() {
            let (queue, output) = (&mut self.queues[place], &mut self.outputs[place]);
            while queue.front().is_some_and(|packet| packet.at() < decided)
                && let Some(packet) = queue.pop_front()
            {
                let before = self.allowed.range(..=packet.at()).next_back();
                if before.is_none_or(|(_, allowed)| *allowed) {
                    output.send(context, packet);
                }
            }
            output.raise(context, next(context, place, queue));
        }
    }

    /// Removes decisions on timestamps that no input can have any more.
    fn forget_decisions(&mut self, context: &CalculatorContext<'_>) {
        let queues = self.queues.iter().enumerate();
        let bounds = queues.map(|(place, queue)| next(context, place, queue));
        let lowest = bounds.min().unwrap_or(Timestamp::UNSET);
        if let Some((&last, _)) = self.allowed.range(..=lowest).next_back() {
            self.allowed = self.allowed.split_off(&last);
        }
    }
}

impl Calculator for Limiter {
    fn open(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        if let Some(most) = max_in_flight(context)? {
            self.max_in_flight = most;
        }
        Ok(StepOutcome::Next)
    }

    fn process(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        self.forget_finished(context);
        for (place, queue) in self.queues.iter_mut().enumerate() {
            let packet = &context.inputs[place];
            if !packet.is_empty() {
                queue.push_back(packet.clone());
            }
            if place > 0 && queue.len() > MAX_QUEUE {
                let [name, main] = [place, 0].map(|place| &context.node.inputs[place].name);
                let text = format!(
                    "more than {MAX_QUEUE} packets of input stream \"{name}\" wait for \"{main}\""
                );
                return Err(GraphRunError::new(AbseilCode::ResourceExhausted, text));
            }
        }
        self.release(context);
        self.follow(context);
        self.forget_decisions(context);
        Ok(StepOutcome::Next)
    }
}

/// Limiter without a queue. All inputs are equal; a timestamp passed by one passes on the others.
struct RealTime {
    max_in_flight: usize,
    in_flight: usize,
    outputs: Vec<Output>,
    allow: Option<Output>,
    changes: i64,
    sent: BTreeSet<Timestamp>,
    dropped: Timestamp,
}

impl RealTime {
    fn allows(&self) -> bool {
        self.in_flight < self.max_in_flight
    }

    fn take(&mut self, context: &mut CalculatorContext<'_>, place: usize) {
        let packet = context.inputs[place].clone();
        if packet.is_empty() {
            if context.bounds.get(place) == Some(&Timestamp::DONE) {
                self.outputs[place].close(context);
            }
            return;
        }
        let at = packet.at();
        let known = self.sent.contains(&at);
        if known || (self.allows() && at > self.dropped) {
            if !known {
                self.sent.insert(at);
                self.in_flight += 1;
            }
            self.outputs[place].send(context, packet);
        } else {
            self.dropped = self.dropped.max(at);
            self.outputs[place].raise(context, at.next_allowed());
        }
    }
}

impl Calculator for RealTime {
    fn open(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        self.max_in_flight = max_in_flight(context)?.unwrap_or(1);
        Ok(StepOutcome::Next)
    }

    fn process(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        let allowed = self.allows();
        if value::tagged(context, "FINISHED").is_some() {
            self.in_flight = self.in_flight.checked_sub(1).ok_or_else(|| {
                GraphRunError::internal("Received a FINISHED packet, but we had none in flight.")
            })?;
        }
        for place in 0..self.outputs.len() {
            self.take(context, place);
        }
        let lowest = self.outputs.iter().map(Output::bound).min();
        self.sent = self.sent.split_off(&lowest.unwrap_or(Timestamp::UNSET));
        if allowed != self.allows()
            && let Some(output) = &mut self.allow
        {
            self.changes += 1;
            let allows = Payload::Bool(!allowed);
            output.send(context, Packet::new(allows, Timestamp::new(self.changes)));
        }
        Ok(StepOutcome::Next)
    }
}

#[cfg(test)]
mod tests;
