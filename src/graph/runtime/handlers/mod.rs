//! Input stream handlers: the policies for when a node runs, and with which packets.
//!
//! A handler inspects the queues of a node and returns whether a timestamp is ready; only then are
//! the packets of that timestamp taken. Inspection is cheap and may be repeated.

mod input;
mod mux;

pub(in crate::graph) use self::input::Input;

use crate::graph::{
    calculators::{packet::Packet, timestamp::Timestamp},
    check::plan::InputHandler,
};

/// State of a node's queues, as seen by a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::graph) enum Look {
    /// More packets or bounds have to arrive first.
    Wait,
    /// The node can run at this timestamp.
    At(Timestamp),
    /// No further runs of the node.
    Done,
}

/// Handler of a node in a run, with what it has taken so far.
#[derive(Debug)]
pub(in crate::graph) struct Policy {
    handler: InputHandler,
    /// Runs the node also at timestamps without a packet, once they are settled.
    wants_bounds: bool,
    /// Timestamp processed last.
    processed: Timestamp,
    /// The same for each sync set, or for each input that is immediate and reports its bounds.
    each: Vec<Timestamp>,
    /// Sync set that is ready.
    ready: usize,
    /// Timestamp before which a handler of fixed size drops packets, including late ones.
    kept: Timestamp,
    /// Offset added to the timestamps of each input to align them, once all have a packet.
    offsets: Option<Vec<i64>>,
}

impl Policy {
    /// Creates the handler of a node with this number of inputs, which has taken no packets.
    pub(in crate::graph) fn new(handler: &InputHandler, inputs: usize, wants_bounds: bool) -> Self {
        let each = match handler {
            InputHandler::Immediate if wants_bounds => inputs,
            InputHandler::SyncSet(sets) => sets.len(),
            _ => 0,
        };
        Self {
            handler: handler.clone(),
            wants_bounds,
            processed: Timestamp::UNSTARTED,
            each: vec![Timestamp::UNSTARTED; each],
            ready: 0,
            kept: Timestamp::UNSET,
            offsets: None,
        }
    }

    /// Returns the state of the queues. May drop packets that will never be taken.
    pub(in crate::graph) fn look(&mut self, inputs: &mut [Input]) -> Look {
        let is_any_done = || inputs.iter().any(Input::is_done);
        match &self.handler {
            InputHandler::EarlyClose | InputHandler::Barrier if is_any_done() => Look::Done,
            InputHandler::Barrier if inputs.iter().all(|input| input.len() > 0) => {
                Look::At(lowest(inputs))
            }
            InputHandler::Barrier => Look::Wait,
            InputHandler::Immediate => {
                let wishes = inputs.iter().enumerate();
                let wishes = wishes.filter_map(|(place, input)| self.wish(place, input));
                match wishes.min() {
                    Some(at) => Look::At(at),
                    None => wait_unless(inputs.iter().all(Input::is_done)),
                }
            }
            InputHandler::SyncSet(sets) => {
                let mut best = Look::Done;
                for (place, (set, processed)) in sets.iter().zip(&self.each).enumerate() {
                    let members = set.iter().map(|place| inputs[*place].next());
                    match (together(members, self.wants_bounds, *processed), best) {
                        (Look::At(at), Look::At(known)) if known <= at => {}
                        (Look::At(at), _) => {
                            best = Look::At(at);
                            self.ready = place;
                        }
                        (Look::Wait, Look::Done) => best = Look::Wait,
                        (Look::Wait | Look::Done, _) => {}
                    }
                }
                best
            }
            InputHandler::Mux => mux::look(inputs),
            &InputHandler::TimestampAlign(base) => self.look_aligned(base, inputs),
            &InputHandler::FixedSize {
                trigger,
                target,
                fixed_min,
            } => {
                if inputs.iter().all(|input| input.len() >= trigger) {
                    let kept = inputs.iter().filter_map(|input| input.nth_last(target));
                    let kept = if fixed_min {
                        kept.min()
                    } else {
                        // No queue is emptied: the newest timestamp that all queues have reached stays.
                        let reached = inputs.iter().filter_map(|input| input.nth_last(1)).min();
                        kept.max().min(reached)
                    };
                    self.kept = self.kept.max(kept.unwrap_or(Timestamp::UNSET));
                }
                for input in &mut *inputs {
                    input.drop_before(self.kept);
                }
                self.look_together(inputs)
            }
            InputHandler::Default | InputHandler::EarlyClose => self.look_together(inputs),
        }
    }

    /// Takes the packets of the timestamp just returned by [`Policy::look`]; one for each input,
    /// empty where there is none.
    pub(in crate::graph) fn take(&mut self, at: Timestamp, inputs: &mut [Input]) -> Vec<Packet> {
        self.processed = at;
        let packets = || vec![Packet::empty(at); inputs.len()];
        match (&self.handler, &self.offsets) {
            (InputHandler::Barrier, _) => {
                let heads = inputs.iter_mut().map(Input::pop);
                let heads = heads.map(|head| head.unwrap_or(Packet::empty(at)));
                heads.collect()
            }
            (InputHandler::Immediate, _) => {
                let mut packets = packets();
                for (place, input) in inputs.iter_mut().enumerate() {
                    if self.wish(place, input) == Some(at) {
                        packets[place] = input.take(at);
                        if let Some(processed) = self.each.get_mut(place) {
                            *processed = at;
                        }
                    }
                }
                packets
            }
            (InputHandler::SyncSet(sets), _) => {
                let mut packets = packets();
                self.each[self.ready] = at;
                for &place in &sets[self.ready] {
                    packets[place] = inputs[place].take(at);
                }
                packets
            }
            (InputHandler::Mux, _) => mux::take(at, inputs),
            (&InputHandler::TimestampAlign(base), None) => {
                let mut packets = packets();
                packets[base] = inputs[base].take(at);
                packets
            }
            (InputHandler::TimestampAlign(_), Some(offsets)) => {
                let pairs = inputs.iter_mut().zip(offsets);
                let packets = pairs.map(|(input, offset)| {
                    let head = match input.time().offset(*offset) == at {
                        true => input.pop(),
                        false => None,
                    };
                    head.map_or(Packet::empty(at), |head| head.moved(at))
                });
                packets.collect()
            }
            _ => inputs.iter_mut().map(|input| input.take(at)).collect(),
        }
    }

    /// Returns the lowest timestamp at which the node may still run.
    pub(in crate::graph) fn floor(&self, inputs: &[Input]) -> Timestamp {
        match (&self.handler, &self.offsets) {
            (InputHandler::Mux, _) => inputs.last().map_or(Timestamp::DONE, Input::time),
            (&InputHandler::TimestampAlign(base), None) => inputs[base].time(),
            (InputHandler::TimestampAlign(_), Some(offsets)) => {
                let times = aligned(inputs, offsets).map(|(_, time)| time);
                times.min().unwrap_or(Timestamp::DONE)
            }
            _ => lowest(inputs),
        }
    }

    fn look_together(&self, inputs: &[Input]) -> Look {
        let inputs = inputs.iter().map(Input::next);
        together(inputs, self.wants_bounds, self.processed)
    }

    /// Shifts the timestamps of the other inputs by the difference between their first packet and that
    /// of the base. Until all have one, the base runs alone.
    fn look_aligned(&mut self, base: usize, inputs: &[Input]) -> Look {
        if let Some(offsets) = &self.offsets {
            return together(aligned(inputs, offsets), false, Timestamp::UNSTARTED);
        }
        let Some(at) = inputs[base].head().map(Packet::at) else {
            // Without the base the offsets of the others are unknown.
            return wait_unless(inputs[base].is_done());
        };
        let heads = inputs.iter().map(|input| Some(input.head()?.at().value()));
        let offsets = heads.map(|head| Some(at.value().saturating_sub(head?)));
        self.offsets = offsets.collect();
        Look::At(at)
    }

    /// Returns the timestamp at which an immediate input requests a run of the node.
    fn wish(&self, place: usize, input: &Input) -> Option<Timestamp> {
        if let Some(head) = input.head() {
            return Some(head.at());
        }
        let processed = *self.each.get(place)?;
        // The end of an input is reported once, at the highest timestamp.
        let settled = input.bound().settled().min(Timestamp::POST_STREAM);
        (settled > processed).then_some(settled)
    }
}

fn wait_unless(is_done: bool) -> Look {
    match is_done {
        true => Look::Done,
        false => Look::Wait,
    }
}

/// Returns whether each input has a packet, and its shifted time.
fn aligned(inputs: &[Input], offsets: &[i64]) -> impl Iterator<Item = (bool, Timestamp)> {
    let pairs = inputs.iter().zip(offsets);
    pairs.map(|(input, offset)| (input.len() > 0, input.time().offset(*offset)))
}

/// Returns the lowest timestamp of any input: that of a packet, or one that may still arrive.
fn lowest(inputs: &[Input]) -> Timestamp {
    let times = inputs.iter().map(Input::time);
    times.min().unwrap_or(Timestamp::DONE)
}

/// Checks a group of inputs, given by whether they have a packet and their times: the lowest timestamp with a packet, once no packet can arrive at or
/// before it on the others. With `wants_bounds` also the highest settled timestamp, if it is after
/// the one processed last.
fn together(
    inputs: impl Iterator<Item = (bool, Timestamp)>,
    wants_bounds: bool,
    processed: Timestamp,
) -> Look {
    let (mut packet, mut bound) = (Timestamp::DONE, Timestamp::DONE);
    for (has_packet, time) in inputs {
        let lowest = if has_packet { &mut packet } else { &mut bound };
        *lowest = time.min(*lowest);
    }
    if packet.min(bound) >= Timestamp::ONE_OVER_POST_STREAM {
        return Look::Done;
    }
    if bound > packet {
        return Look::At(packet);
    }
    let settled = bound.settled();
    if wants_bounds && settled > processed.max(Timestamp::UNSTARTED) {
        return Look::At(settled);
    }
    Look::Wait
}

#[cfg(test)]
mod tests;
