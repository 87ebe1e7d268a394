//! `FixedSizeInputStreamHandler`: as the default one, but what is too old is dropped.

use super::{Input, Look, Rule, default::ByTime};
use crate::graph::{Packet, Timestamp};

/// Runs the node as the default handler does, and drops the oldest packets when all queues have grown
/// to a size.
#[derive(Debug)]
pub(in crate::graph) struct FixedSize {
    inner: ByTime,
    trigger: usize,
    target: usize,
    /// Whether each queue keeps at least so many, instead of at most.
    fixed_min: bool,
    /// What is before it is dropped, also if it comes later.
    kept: Timestamp,
}

impl FixedSize {
    /// Makes one that has taken nothing.
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
                // Not so much that no queue has anything left: the newest that all have reached stays.
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
