//! `BarrierInputStreamHandler`: one packet of each input, at any time.

use super::{Input, Look, Rule, lowest};
use crate::graph::{packet::Packet, timestamp::Timestamp};

/// Handler that runs the node when every input has a packet.
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
