//! `TimestampAlignInputStreamHandler`: times are moved so that first packets meet.

use super::{Input, Look, Rule};
use crate::graph::{Packet, Timestamp};

/// Runs the node as the default handler does, with the times of the other inputs moved by what lies
/// between their first packet and that of the base. Until all have one, the base goes alone.
#[derive(Debug)]
pub(in crate::graph) struct TimestampAlign {
    base: usize,
    /// What is added to the times of each input.
    offsets: Vec<i64>,
    is_aligned: bool,
}

impl TimestampAlign {
    /// Makes one that has taken nothing.
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
                // Without the base, nobody would know where the others belong.
                let is_done = inputs[self.base].is_done();
                return if is_done { Look::Done } else { Look::Wait };
            };
            self.align(at, inputs);
            return Look::At(at);
        }
        let (mut packet, mut bound) = (Timestamp::DONE, Timestamp::DONE);
        for (input, time) in inputs.iter().zip(self.aligned(inputs)) {
            let lowest = if input.len() > 0 {
                &mut packet
            } else {
                &mut bound
            };
            *lowest = time.min(*lowest);
        }
        if packet.min(bound) >= Timestamp::ONE_OVER_POST_STREAM {
            Look::Done
        } else if bound > packet {
            Look::At(packet)
        } else {
            Look::Wait
        }
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
