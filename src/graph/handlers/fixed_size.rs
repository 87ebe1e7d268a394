//! `FixedSizeInputStreamHandler`: as the default one, but old packets are dropped.

use super::{Input, Look, Rule, default::ByTime};
use crate::graph::{packet::Packet, timestamp::Timestamp};

/// Handler that works as the default one, and drops the oldest packets when all queues have reached
/// a size.
#[derive(Debug)]
pub(in crate::graph) struct FixedSize {
    inner: ByTime,
    trigger: usize,
    target: usize,
    /// Whether the target size is a minimum of each queue instead of a maximum.
    fixed_min: bool,
    /// Timestamp before which packets are dropped, including late ones.
    kept: Timestamp,
}

impl FixedSize {
    /// Creates a handler that has taken no packets.
    pub(super) fn new(trigger: usize, target: usize, fixed_min: bool, wants_bounds: bool) -> Self {
        Self {
            inner: ByTime::new(wants_bounds),
            trigger: trigger.max(1),
            target: target.max(1),
            fixed_min,
            kept: Timestamp::UNSET,
        }
    }

    fn drop_old(&mut self, inputs: &mut [Input]) {
        if inputs.iter().all(|input| input.len() >= self.trigger) {
            let kept = inputs
                .iter()
                .filter_map(|input| input.nth_last(self.target));
            let kept = if self.fixed_min {
                kept.min()
            } else {
                // No queue is emptied: the newest timestamp that all queues have reached stays.
                let reached = inputs.iter().filter_map(|input| input.nth_last(1)).min();
                kept.max().min(reached)
            };
            self.kept = self.kept.max(kept.unwrap_or(Timestamp::UNSET));
        }
        for input in inputs {
            input.drop_before(self.kept);
        }
    }
}

impl Rule for FixedSize {
    fn look(&mut self, inputs: &mut [Input]) -> Look {
        self.drop_old(inputs);
        self.inner.look(inputs)
    }

    fn take(&mut self, at: Timestamp, inputs: &mut [Input]) -> Vec<Packet> {
        self.inner.take(at, inputs)
    }
}
