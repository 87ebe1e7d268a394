//! `DefaultInputStreamHandler`: all inputs of a timestamp together.

use super::{Input, Look, Rule, together};
use crate::graph::{packet::Packet, timestamp::Timestamp};

/// Handler that runs the node at the lowest timestamp with a packet once all inputs
/// are settled at it.
#[derive(Debug)]
pub(in crate::graph) struct ByTime {
    wants_bounds: bool,
    processed: Timestamp,
}

impl ByTime {
    /// Creates a handler that has taken no packets.
    pub(super) const fn new(wants_bounds: bool) -> Self {
        Self {
            wants_bounds,
            processed: Timestamp::UNSTARTED,
        }
    }
}

impl Rule for ByTime {
    fn look(&mut self, inputs: &mut [Input]) -> Look {
        together(inputs.iter(), self.wants_bounds, self.processed)
    }

    fn take(&mut self, at: Timestamp, inputs: &mut [Input]) -> Vec<Packet> {
        self.processed = at;
        inputs.iter_mut().map(|input| input.take(at)).collect()
    }
}
