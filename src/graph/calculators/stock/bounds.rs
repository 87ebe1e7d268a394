//! Outputs with bounds managed by the calculator.

use super::prelude::*;

/// Output of a node: keeps its bound, so that bounds only rise and it closes once.
#[derive(Debug, Clone)]
pub(super) struct Output {
    place: usize,
    bound: Timestamp,
}

impl Output {
    /// Creates an open output.
    pub(super) const fn new(place: usize) -> Self {
        Self {
            place,
            bound: Timestamp::PRE_STREAM,
        }
    }

    /// Returns the lowest timestamp that may still be sent.
    pub(super) const fn bound(&self) -> Timestamp {
        self.bound
    }

    /// Returns whether it is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.bound == Timestamp::DONE
    }

    /// Sends a packet.
    pub(super) fn send(&mut self, context: &mut CalculatorContext<'_>, packet: Packet) {
        self.bound = self.bound.max(packet.at().next_allowed());
        context.send_packet(self.place, packet);
    }

    /// Raises the bound: no earlier packets follow; beyond the last ordinary timestamp it closes.
    pub(super) fn raise(&mut self, context: &mut CalculatorContext<'_>, bound: Timestamp) {
        if bound > Timestamp::MAX {
            self.close(context);
        } else if bound > self.bound {
            self.bound = bound;
            context.emit(Emit::Bound(self.place, bound));
        }
    }

    /// Closes the output.
    pub(super) fn close(&mut self, context: &mut CalculatorContext<'_>) {
        if !self.is_closed() {
            self.bound = Timestamp::DONE;
            context.emit(Emit::Close(self.place));
        }
    }
}

/// Returns the timestamp up to which an input is settled: that of its packet, else from its bound.
pub(super) fn settled(context: &CalculatorContext<'_>, input: usize) -> Timestamp {
    match context.inputs.get(input) {
        Some(packet) if !packet.is_empty() => packet.at(),
        _ => {
            let bound = context.bounds.get(input).copied();
            bound.map_or(Timestamp::UNSTARTED, Timestamp::settled)
        }
    }
}
