//! Tests of the rules, on calculators as closures.

mod bounds;
mod errors;
mod life;
mod limits;
mod loops;
mod property;
mod random;
mod rig;

use super::{Scheduler, Timestamp};

impl Scheduler {
    /// Raises the bound of an input of the graph: no earlier packets follow.
    pub(in crate::graph) fn bound(&mut self, input: usize, bound: Timestamp) {
        self.raise(self.plan.inputs[input].stream, bound);
    }
}
