//! `TimestampAlignInputStreamHandler`: timestamps are shifted to align the first packets.

use super::{Input, Look, Rule, together};
use crate::graph::{packet::Packet, timestamp::Timestamp};

/// Handler that works as the default one, with the timestamps of the other inputs shifted by the
/// difference between their first packet and that of the base. Until all have one, the base runs
/// alone.
#[derive(Debug)]
pub(in crate::graph) struct TimestampAlign {
    base: usize,
    /// Offset added to the timestamps of each input.
    offsets: Vec<i64>,
    is_aligned: bool,
}

impl TimestampAlign {
    /// Creates a handler that has taken no packets.
    pub(super) fn new(base: usize, inputs: usize) -> Self {
        Self {
            base,
            offsets: vec![0; inputs],
            is_aligned: inputs == 1,
        }
    }

    fn align(&mut self, at: Timestamp, inputs: &[Input]) {
        let mut all = true;
        for (input, offset) in inputs.iter().zip(&mut self.offsets) {
            match input.head() {
                Some(head) => *offset = at.value().saturating_sub(head.at().value()),
                None => all = false,
            }
        }
        self.is_aligned = all;
    }

    fn aligned(&self, inputs: &[Input]) -> impl Iterator<Item = Timestamp> {
        let pairs = inputs.iter().zip(&self.offsets);
        pairs.map(|(input, offset)| input.time().offset(*offset))
    }
}

impl Rule for TimestampAlign {
    fn look(&mut self, inputs: &mut [Input]) -> Look {
        if !self.is_aligned {
            let Some(at) = inputs[self.base].head().map(Packet::at) else {
                // Without the base the offsets of the others are unknown.
                let is_done = inputs[self.base].is_done();
                return if is_done { Look::Done } else { Look::Wait };
            };
            self.align(at, inputs);
            return Look::At(at);
        }
        let times = inputs.iter().zip(self.aligned(inputs));
        let times = times.map(|(input, time)| (input.len() > 0, time));
        together(times, false, Timestamp::UNSTARTED)
    }

    fn take(&mut self, at: Timestamp, inputs: &mut [Input]) -> Vec<Packet> {
        if !self.is_aligned {
            let mut packets = vec![Packet::empty(at); inputs.len()];
            packets[self.base] = inputs[self.base].take(at);
            return packets;
        }
        let pairs = inputs.iter_mut().zip(&self.offsets);
        let packets = pairs.map(|(input, offset)| {
            if input.time().offset(*offset) != at {
                return Packet::empty(at);
            }
            let head = input.pop();
            head.map_or(Packet::empty(at), |head| head.moved(at))
        });
        packets.collect()
    }

    fn floor(&self, inputs: &[Input]) -> Timestamp {
        if self.is_aligned {
            self.aligned(inputs).min().unwrap_or(Timestamp::DONE)
        } else {
            inputs[self.base].time()
        }
    }
}
