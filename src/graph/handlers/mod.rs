//! Input stream handlers: the policies for when a node runs, and with which packets.
//!
//! A handler inspects the queues of a node and returns whether a timestamp is ready; only then are
//! the packets of that timestamp taken. Inspection is cheap and may be repeated.

mod by_time;
mod immediate;
mod input;
mod mux;
#[cfg(test)]
mod tests;
mod timestamp_align;

pub(in crate::graph) use self::input::Input;
use self::{
    by_time::{Barrier, ByTime, FixedSize, SyncSet},
    immediate::Immediate,
    mux::Mux,
    timestamp_align::TimestampAlign,
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
pub(in crate::graph) trait Rule {
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
    /// See [`InputHandler::Default`] and [`InputHandler::EarlyClose`].
    ByTime(ByTime),
    /// See [`InputHandler::Immediate`].
    Immediate(Immediate),
    /// See [`InputHandler::SyncSet`].
    SyncSet(SyncSet),
    /// See [`InputHandler::Barrier`].
    Barrier(Barrier),
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
            InputHandler::Default => Self::ByTime(ByTime::new(wants_bounds, false)),
            InputHandler::Immediate => Self::Immediate(Immediate::new(inputs, wants_bounds)),
            InputHandler::SyncSet(sets) => Self::SyncSet(SyncSet::new(sets, wants_bounds)),
            InputHandler::Barrier => Self::Barrier(Barrier),
            InputHandler::EarlyClose => Self::ByTime(ByTime::new(wants_bounds, true)),
            InputHandler::Mux => Self::Mux(Mux),
            InputHandler::FixedSize {
                trigger,
                target,
                fixed_min,
            } => Self::FixedSize(FixedSize {
                inner: ByTime::new(wants_bounds, false),
                trigger: (*trigger).max(1),
                target: (*target).max(1),
                fixed_min: *fixed_min,
                kept: Timestamp::UNSET,
            }),
            InputHandler::TimestampAlign(base) => {
                Self::TimestampAlign(TimestampAlign::new(*base, inputs))
            }
        }
    }

    /// Returns the handler itself.
    pub(in crate::graph) fn rule(&mut self) -> &mut dyn Rule {
        match self {
            Self::ByTime(rule) => rule,
            Self::Immediate(rule) => rule,
            Self::SyncSet(rule) => rule,
            Self::Barrier(rule) => rule,
            Self::Mux(rule) => rule,
            Self::FixedSize(rule) => rule,
            Self::TimestampAlign(rule) => rule,
        }
    }
}

/// Returns the lowest timestamp of any input: that of a packet, or one that may still arrive.
fn lowest(inputs: &[Input]) -> Timestamp {
    let times = inputs.iter().map(Input::time);
    times.min().unwrap_or(Timestamp::DONE)
}

/// Checks a group of inputs, given by whether they have a packet and their times: the lowest timestamp with a packet, once no packet can arrive at or
/// before it on the others. With `wants_bounds` also the highest settled timestamp, if it is after
/// the one processed last.
fn together(
    inputs: impl Iterator<Item = (bool, Timestamp)>,
    wants_bounds: bool,
    processed: Timestamp,
) -> Look {
    let (mut packet, mut bound) = (Timestamp::DONE, Timestamp::DONE);
    for (has_packet, time) in inputs {
        let lowest = if has_packet { &mut packet } else { &mut bound };
        *lowest = time.min(*lowest);
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
