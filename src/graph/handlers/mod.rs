//! When a node runs, and with which packets: the input stream handlers.
//!
//! A handler looks at the queues of a node and says whether a time is ready; only then the packets of
//! that time are taken. Looking is cheap and may be repeated.

mod barrier;
mod default;
mod early_close;
mod fixed_size;
mod immediate;
mod input;
mod mux;
mod sync_set;
#[cfg(test)]
mod tests;
mod timestamp_align;

pub(in crate::graph) use self::input::Input;
use self::{
    barrier::Barrier, default::ByTime, early_close::EarlyClose, fixed_size::FixedSize,
    immediate::Immediate, mux::Mux, sync_set::SyncSet, timestamp_align::TimestampAlign,
};
use super::{Handler, Packet, Timestamp};

/// What a handler sees in the queues of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::graph) enum Look {
    /// Something has to come first.
    Wait,
    /// The node can run at this time.
    At(Timestamp),
    /// Nothing is left that the node could run for.
    Done,
}

/// What a handler has to know.
trait Rule {
    /// Says what the queues are ready for. May drop packets that will never be taken.
    fn look(&mut self, inputs: &mut [Input]) -> Look;

    /// Takes the packets of the time that [`Rule::look`] has just found; one for each input, empty
    /// ones where there is nothing.
    fn take(&mut self, at: Timestamp, inputs: &mut [Input]) -> Vec<Packet>;

    /// Returns the lowest time at which the node may still run.
    fn floor(&self, inputs: &[Input]) -> Timestamp {
        lowest(inputs)
    }
}

/// The handler of a node in a run.
#[derive(Debug)]
pub(in crate::graph) enum Policy {
    /// See [`Handler::Default`].
    Default(ByTime),
    /// See [`Handler::Immediate`].
    Immediate(Immediate),
    /// See [`Handler::SyncSet`].
    SyncSet(SyncSet),
    /// See [`Handler::Barrier`].
    Barrier(Barrier),
    /// See [`Handler::EarlyClose`].
    EarlyClose(EarlyClose),
    /// See [`Handler::Mux`].
    Mux(Mux),
    /// See [`Handler::FixedSize`].
    FixedSize(FixedSize),
    /// See [`Handler::TimestampAlign`].
    TimestampAlign(TimestampAlign),
}

impl Policy {
    /// Makes the handler of a node with so many inputs. With `wants_bounds` it finds times at which
    /// there is no packet ready as well, once they are settled.
    pub(in crate::graph) fn new(handler: &Handler, inputs: usize, wants_bounds: bool) -> Self {
        match handler {
            Handler::Default => Self::Default(ByTime::new(wants_bounds)),
            Handler::Immediate => Self::Immediate(Immediate::new(inputs, wants_bounds)),
            Handler::SyncSet(sets) => Self::SyncSet(SyncSet::new(sets, wants_bounds)),
            Handler::Barrier => Self::Barrier(Barrier),
            Handler::EarlyClose => Self::EarlyClose(EarlyClose::new(wants_bounds)),
            Handler::Mux => Self::Mux(Mux),
            Handler::FixedSize {
                trigger,
                target,
                fixed_min,
            } => Self::FixedSize(FixedSize::new(*trigger, *target, *fixed_min, wants_bounds)),
            Handler::TimestampAlign(base) => {
                Self::TimestampAlign(TimestampAlign::new(*base, inputs))
            }
        }
    }

    fn rule(&mut self) -> &mut dyn Rule {
        match self {
            Self::Default(rule) => rule,
            Self::Immediate(rule) => rule,
            Self::SyncSet(rule) => rule,
            Self::Barrier(rule) => rule,
            Self::EarlyClose(rule) => rule,
            Self::Mux(rule) => rule,
            Self::FixedSize(rule) => rule,
            Self::TimestampAlign(rule) => rule,
        }
    }

    /// Says what the queues are ready for.
    pub(in crate::graph) fn look(&mut self, inputs: &mut [Input]) -> Look {
        self.rule().look(inputs)
    }

    /// Takes the packets of the time that was just found.
    pub(in crate::graph) fn take(&mut self, at: Timestamp, inputs: &mut [Input]) -> Vec<Packet> {
        self.rule().take(at, inputs)
    }

    /// Returns the lowest time at which the node may still run.
    pub(in crate::graph) fn floor(&mut self, inputs: &[Input]) -> Timestamp {
        self.rule().floor(inputs)
    }
}

/// Returns the lowest time of any input: of a packet, or one that may still come.
fn lowest(inputs: &[Input]) -> Timestamp {
    let times = inputs.iter().map(Input::time);
    times.min().unwrap_or(Timestamp::DONE)
}

/// Looks at inputs that belong together: the lowest time with a packet, once nothing can come at or
/// before it at the others. With `wants_bounds` also the highest time that is settled, if it is after
/// the one that was processed last.
fn together<'a>(
    inputs: impl Iterator<Item = &'a Input>,
    wants_bounds: bool,
    processed: Timestamp,
) -> Look {
    let (mut packet, mut bound) = (Timestamp::DONE, Timestamp::DONE);
    for input in inputs {
        match input.head() {
            Some(head) => packet = packet.min(head.at()),
            None => bound = bound.min(input.bound()),
        }
    }
    if packet.min(bound) >= Timestamp::ONE_OVER_POST_STREAM {
        return Look::Done;
    }
    if bound > packet {
        return Look::At(packet);
    }
    let settled = bound.settled();
    if wants_bounds && settled > processed.max(Timestamp::UNSTARTED) {
        return Look::At(settled);
    }
    Look::Wait
}
