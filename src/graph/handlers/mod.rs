//! Input stream handlers: the policies for when a node runs, and with which packets.
//!
//! A handler inspects the queues of a node and returns whether a timestamp is ready; only then are
//! the packets of that timestamp taken. Inspection is cheap and may be repeated.

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
use super::{packet::Packet, plan::InputHandler, timestamp::Timestamp};

/// State of a node's queues, as seen by a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::graph) enum Look {
    /// More packets or bounds have to arrive first.
    Wait,
    /// The node can run at this timestamp.
    At(Timestamp),
    /// No further runs of the node are possible.
    Done,
}

/// Interface of a handler.
trait Rule {
    /// Returns the state of the queues. May drop packets that will never be taken.
    fn look(&mut self, inputs: &mut [Input]) -> Look;

    /// Takes the packets of the timestamp just returned by [`Rule::look`]; one for each input,
    /// empty where there is none.
    fn take(&mut self, at: Timestamp, inputs: &mut [Input]) -> Vec<Packet>;

    /// Returns the lowest timestamp at which the node may still run.
    fn floor(&self, inputs: &[Input]) -> Timestamp {
        lowest(inputs)
    }
}

/// Handler of a node in a run.
#[derive(Debug)]
pub(in crate::graph) enum Policy {
    /// See [`InputHandler::Default`].
    Default(ByTime),
    /// See [`InputHandler::Immediate`].
    Immediate(Immediate),
    /// See [`InputHandler::SyncSet`].
    SyncSet(SyncSet),
    /// See [`InputHandler::Barrier`].
    Barrier(Barrier),
    /// See [`InputHandler::EarlyClose`].
    EarlyClose(EarlyClose),
    /// See [`InputHandler::Mux`].
    Mux(Mux),
    /// See [`InputHandler::FixedSize`].
    FixedSize(FixedSize),
    /// See [`InputHandler::TimestampAlign`].
    TimestampAlign(TimestampAlign),
}

impl Policy {
    /// Creates the handler of a node with this number of inputs. With `wants_bounds` it also
    /// returns timestamps without a packet, once they are settled.
    pub(in crate::graph) fn new(handler: &InputHandler, inputs: usize, wants_bounds: bool) -> Self {
        match handler {
            InputHandler::Default => Self::Default(ByTime::new(wants_bounds)),
            InputHandler::Immediate => Self::Immediate(Immediate::new(inputs, wants_bounds)),
            InputHandler::SyncSet(sets) => Self::SyncSet(SyncSet::new(sets, wants_bounds)),
            InputHandler::Barrier => Self::Barrier(Barrier),
            InputHandler::EarlyClose => Self::EarlyClose(EarlyClose::new(wants_bounds)),
            InputHandler::Mux => Self::Mux(Mux),
            InputHandler::FixedSize {
                trigger,
                target,
                fixed_min,
            } => Self::FixedSize(FixedSize::new(*trigger, *target, *fixed_min, wants_bounds)),
            InputHandler::TimestampAlign(base) => {
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

    /// Returns the state of the queues.
    pub(in crate::graph) fn look(&mut self, inputs: &mut [Input]) -> Look {
        self.rule().look(inputs)
    }

    /// Takes the packets of the timestamp just found.
    pub(in crate::graph) fn take(&mut self, at: Timestamp, inputs: &mut [Input]) -> Vec<Packet> {
        self.rule().take(at, inputs)
    }

    /// Returns the lowest timestamp at which the node may still run.
    pub(in crate::graph) fn floor(&mut self, inputs: &[Input]) -> Timestamp {
        self.rule().floor(inputs)
    }
}

/// Returns the lowest timestamp of any input: that of a packet, or one that may still arrive.
fn lowest(inputs: &[Input]) -> Timestamp {
    let times = inputs.iter().map(Input::time);
    times.min().unwrap_or(Timestamp::DONE)
}

/// Checks a group of inputs: the lowest timestamp with a packet, once no packet can arrive at or
/// before it on the others. With `wants_bounds` also the highest settled timestamp, if it is after
/// the one processed last.
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
