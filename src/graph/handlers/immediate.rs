//! `ImmediateInputStreamHandler`: each input independently.

use super::{Input, Look, Rule};
use crate::graph::{packet::Packet, timestamp::Timestamp};

/// Handler that runs the node as soon as any input has a packet, with the available packets of
/// that timestamp.
#[derive(Debug)]
pub(in crate::graph) struct Immediate {
    /// Timestamp up to which the node was notified, for each input; only if it wants bounds.
    processed: Vec<Timestamp>,
}

impl Immediate {
    /// Creates a handler that has taken no packets.
    pub(super) fn new(inputs: usize, wants_bounds: bool) -> Self {
        let known = if wants_bounds { inputs } else { 0 };
        Self {
            processed: vec![Timestamp::UNSTARTED; known],
        }
    }

    /// Returns the timestamp at which an input requests a run of the node.
    fn wish(&self, place: usize, input: &Input) -> Option<Timestamp> {
        if let Some(head) = input.head() {
            return Some(head.at());
        }
        let processed = *self.processed.get(place)?;
        // The end of an input is reported once, at the highest timestamp.
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
            if self.wish(place, input) != Some(at) {
                packets.push(Packet::empty(at));
                continue;
            }
            packets.push(input.take(at));
            if let Some(processed) = self.processed.get_mut(place) {
                *processed = at;
            }
        }
        packets
    }
}
