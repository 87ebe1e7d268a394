//! State of a stream in a run.

use crate::graph::{
    convert::TIMESTAMP,
    error::{AbseilCode, GraphRunError},
    plan::{GraphPlan, InputHandler},
    timestamp::Timestamp,
};

/// Stream in a run.
#[derive(Debug)]
pub(super) struct Line {
    /// Lowest timestamp that a packet may have.
    pub(super) bound: Timestamp,
    /// Highest timestamp of a sent packet; [`Timestamp::UNSET`] if none was.
    pub(super) last: Timestamp,
    /// Whether any timestamp is allowed: all consumers ignore them.
    is_timeless: bool,
    /// Number of full queues among those it feeds.
    pub(super) full: usize,
}

impl Line {
    /// Creates a stream without packets.
    pub(super) fn new(plan: &GraphPlan, stream: usize) -> Self {
        let planned = &plan.streams[stream];
        let mut takers = planned.to.iter();
        let is_timeless = !planned.to.is_empty()
            && planned.outputs.is_empty()
            && takers.all(|(node, _)| plan.nodes[*node].handler == InputHandler::Barrier);
        Self {
            bound: Timestamp::PRE_STREAM,
            last: Timestamp::UNSET,
            is_timeless,
            full: 0,
        }
    }

    /// Returns whether no packet can be sent any more.
    pub(super) fn is_closed(&self) -> bool {
        self.bound == Timestamp::DONE
    }

    /// Checks the timestamp of a packet, and raises the bound.
    pub(super) fn admit(&mut self, name: &str, at: Timestamp) -> Result<(), GraphRunError> {
        if self.is_closed() {
            let text = format!("Packet sent to closed stream \"{name}\".");
            return Err(GraphRunError::new(AbseilCode::FailedPrecondition, text));
        }
        if !at.is_allowed_in_stream() {
            return Err(GraphRunError::invalid(format!(
                "In stream \"{name}\", timestamp not specified or set to illegal value: {at}"
            )));
        }
        if !self.is_timeless {
            if at == Timestamp::POST_STREAM && self.last != Timestamp::UNSET {
                return Err(GraphRunError::invalid(format!(
                    "In stream \"{name}\", a packet at Timestamp::PostStream() must be the only Packet in an \
                     InputStream."
                )));
            }
            if at < self.bound {
                return Err(GraphRunError::invalid(format!(
                    "Packet timestamp mismatch on a calculator receiving from stream \"{name}\". Current \
                     minimum expected timestamp is {} but received {at}. Times on a stream have to \
                     increase; a client gives a request its time with the parameter {TIMESTAMP}.",
                    self.bound
                )));
            }
        }
        self.last = self.last.max(at);
        self.bound = self.bound.max(at.next_allowed());
        Ok(())
    }
}
