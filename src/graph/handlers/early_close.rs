//! `EarlyCloseInputStreamHandler`: as the default one, until any input is done.

use super::{Input, Look, Rule, default::ByTime};
use crate::graph::{packet::Packet, timestamp::Timestamp};

/// Default handler that also closes the node when any input is done.
#[derive(Debug)]
pub(in crate::graph) struct EarlyClose(ByTime);

impl EarlyClose {
    /// Creates a handler that has taken no packets.
    pub(super) const fn new(wants_bounds: bool) -> Self {
        Self(ByTime::new(wants_bounds))
    }
}

impl Rule for EarlyClose {
    fn look(&mut self, inputs: &mut [Input]) -> Look {
        if inputs.iter().any(Input::is_done) {
            return Look::Done;
        }
        self.0.look(inputs)
    }

    fn take(&mut self, at: Timestamp, inputs: &mut [Input]) -> Vec<Packet> {
        self.0.take(at, inputs)
    }
}
