//! `ImmediateInputStreamHandler`: each input for itself.

use super::{Input, Look, Rule};
use crate::graph::{Packet, Timestamp};

/// Runs the node as soon as any input has a packet, with those of the same time that are there.
#[derive(Debug)]
pub(in crate::graph) struct Immediate {
    /// The time up to which the node knows of each input; only if it wants to know of bounds.
    processed: Vec<Timestamp>,
}

impl Immediate {
    /// Makes one that has taken nothing.
    pub(super) fn new(inputs: usize, wants_bounds: bool) -> Self {
        let known = if wants_bounds { inputs } else { 0 };
        Self {
            processed: vec![Timestamp::UNSTARTED; known],
        }
    }

    /// Returns the time for which an input would have the node run.
    fn wish(&self, place: usize, input: &Input) -> Option<Timestamp> {
        if let Some(head) = input.head() {
            return Some(head.at());
        }
        let processed = *self.processed.get(place)?;
        // That an input is done is told once, at the highest time there is.
        let settled = input.bound().settled().min(Timestamp::POST_STREAM);
        (settled > processed).then_some(settled)
    }
}

impl Rule for Immediate {
    fn look(&mut self, inputs: &mut [Input]) -> Look {
        let wishes = inputs.iter().enumerate();
        let first = wishes
            .filter_map(|(place, input)| self.wish(place, input))
            .min();
        match first {
            Some(at) => Look::At(at),
            None if inputs.iter().all(Input::is_done) => Look::Done,
            None => Look::Wait,
        }
    }

    fn take(&mut self, at: Timestamp, inputs: &mut [Input]) -> Vec<Packet> {
        let mut packets = Vec::with_capacity(inputs.len());
        for (place, input) in inputs.iter_mut().enumerate() {
            let wishes = self.wish(place, input) == Some(at);
            if wishes && let Some(processed) = self.processed.get_mut(place) {
                *processed = at;
            }
            packets.push(if wishes {
                input.take(at)
            } else {
                Packet::empty(at)
            });
        }
        packets
    }
}
