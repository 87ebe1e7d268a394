//! Outputs whose bounds a calculator moves itself.

use crate::graph::{Context, Emit, Packet, Timestamp};

/// An output: remembers what it said, so that bounds only rise and it closes once.
#[derive(Debug, Clone)]
pub(super) struct Output {
    place: usize,
    bound: Timestamp,
}

impl Output {
    /// Makes it.
    pub(super) const fn new(place: usize) -> Self {
        Self {
            place,
            bound: Timestamp::PRE_STREAM,
        }
    }

    /// Returns the lowest time that it may still send at.
    pub(super) const fn bound(&self) -> Timestamp {
        self.bound
    }

    /// Tells whether it is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.bound == Timestamp::DONE
    }

    /// Sends a packet.
    pub(super) fn send(&mut self, context: &mut Context<'_>, packet: Packet) {
        self.bound = self.bound.max(packet.at().next_allowed());
        context.send_packet(self.place, packet);
    }

    /// Says that nothing comes before this time any more; beyond the last ordinary time it closes.
    pub(super) fn raise(&mut self, context: &mut Context<'_>, bound: Timestamp) {
        if bound > Timestamp::MAX {
            self.close(context);
        } else if bound > self.bound {
            self.bound = bound;
            context.emit(Emit::Bound(self.place, bound));
        }
    }

    /// Closes it.
    pub(super) fn close(&mut self, context: &mut Context<'_>) {
        if !self.is_closed() {
            self.bound = Timestamp::DONE;
            context.emit(Emit::Close(self.place));
        }
    }
}

/// Returns up to where an input is settled: the time of its packet, or else as far as its bound says.
pub(super) fn settled(context: &Context<'_>, input: usize) -> Timestamp {
    match context.inputs.get(input) {
        Some(packet) if !packet.is_empty() => packet.at(),
        _ => context
            .bounds
            .get(input)
            .map_or(Timestamp::UNSTARTED, |bound| bound.settled()),
    }
}
