//! Handlers that take inputs together: by their timestamp, or whatever it is.

use super::{Input, Look, Rule, lowest, together};
use crate::graph::{packet::Packet, timestamp::Timestamp};

/// `DefaultInputStreamHandler`: runs the node at the lowest timestamp with a packet once all inputs
/// are settled at it. `EarlyCloseInputStreamHandler` also closes the node when any input is done.
#[derive(Debug)]
pub(in crate::graph) struct ByTime {
    wants_bounds: bool,
    closes_early: bool,
    processed: Timestamp,
}

impl ByTime {
    /// Creates a handler that has taken no packets.
    pub(super) const fn new(wants_bounds: bool, closes_early: bool) -> Self {
        Self {
            wants_bounds,
            closes_early,
            processed: Timestamp::UNSTARTED,
        }
    }
}

impl Rule for ByTime {
    fn look(&mut self, inputs: &mut [Input]) -> Look {
        if self.closes_early && inputs.iter().any(Input::is_done) {
            return Look::Done;
        }
        together(
            inputs.iter().map(Input::next),
            self.wants_bounds,
            self.processed,
        )
    }

    fn take(&mut self, at: Timestamp, inputs: &mut [Input]) -> Vec<Packet> {
        self.processed = at;
        inputs.iter_mut().map(|input| input.take(at)).collect()
    }
}

/// `FixedSizeInputStreamHandler`: works as the default one, and drops the oldest packets when all
/// queues have reached a size.
#[derive(Debug)]
pub(in crate::graph) struct FixedSize {
    pub(super) inner: ByTime,
    pub(super) trigger: usize,
    pub(super) target: usize,
    /// Whether the target size is a minimum of each queue instead of a maximum.
    pub(super) fixed_min: bool,
    /// Timestamp before which packets are dropped, including late ones.
    pub(super) kept: Timestamp,
}

impl Rule for FixedSize {
    fn look(&mut self, inputs: &mut [Input]) -> Look {
        if inputs.iter().all(|input| input.len() >= self.trigger) {
            let kept = inputs
                .iter()
                .filter_map(|input| input.nth_last(self.target));
            let kept = if self.fixed_min {
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
        self.inner.look(inputs)
    }

    fn take(&mut self, at: Timestamp, inputs: &mut [Input]) -> Vec<Packet> {
        self.inner.take(at, inputs)
    }
}

/// `BarrierInputStreamHandler`: runs the node when every input has a packet, of any timestamp.
#[derive(Debug)]
pub(in crate::graph) struct Barrier;

impl Rule for Barrier {
    fn look(&mut self, inputs: &mut [Input]) -> Look {
        if inputs.iter().any(Input::is_done) {
            Look::Done
        } else if inputs.iter().all(|input| input.len() > 0) {
            Look::At(lowest(inputs))
        } else {
            Look::Wait
        }
    }

    fn take(&mut self, at: Timestamp, inputs: &mut [Input]) -> Vec<Packet> {
        let heads = inputs.iter_mut().map(Input::pop);
        heads
            .map(|head| head.unwrap_or(Packet::empty(at)))
            .collect()
    }
}

/// `SyncSetInputStreamHandler`: runs the node for the set of inputs ready at the lowest timestamp; the first set if several
/// are.
#[derive(Debug)]
pub(in crate::graph) struct SyncSet {
    /// Inputs of each set, and the timestamp processed last.
    sets: Vec<(Vec<usize>, Timestamp)>,
    ready: usize,
    wants_bounds: bool,
}

impl SyncSet {
    /// Creates a handler that has taken no packets.
    pub(super) fn new(sets: &[Vec<usize>], wants_bounds: bool) -> Self {
        let sets = sets.iter().map(|set| (set.clone(), Timestamp::UNSTARTED));
        Self {
            sets: sets.collect(),
            ready: 0,
            wants_bounds,
        }
    }
}

impl Rule for SyncSet {
    fn look(&mut self, inputs: &mut [Input]) -> Look {
        let mut best = Look::Done;
        for (place, (set, processed)) in self.sets.iter().enumerate() {
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

    fn take(&mut self, at: Timestamp, inputs: &mut [Input]) -> Vec<Packet> {
        let mut packets = vec![Packet::empty(at); inputs.len()];
        let (set, processed) = &mut self.sets[self.ready];
        *processed = at;
        for place in set {
            packets[*place] = inputs[*place].take(at);
        }
        packets
    }
}
