//! Health of a compiled model: whether it can still be trusted.
//!
//! An inference that fails may leave a compiled model with half-updated shapes, in one of its
//! streams; which one cannot be determined, and only another compiled model makes it good again.
//! Until that is there, a model's first failure keeps further requests from it. Where the shapes of
//! all requests are tried by a [`Guard`] before, only values can make an inference fail; such a
//! model keeps running while it waits to be replaced. A stateful one does not, since a wrong value would stay in a sequence.

use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

use super::{
    condition::{CLOSED, Condition, SOUND, TAINTED, WATCHED},
    guard::Guard,
    run::{RunError, Work},
    slot_error::SlotError,
};
use crate::tensor::Tensor;

/// The health of one compiled model.
pub struct Health {
    condition: Arc<Condition>,
    nature: Nature,
    guard: OnceLock<Arc<Guard>>,
    /// Notified of each inference that is stuck, and of the end.
    pub stuck: Arc<Notify>,
}

/// The properties of a model that decide what a failure does to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Nature {
    /// Indicates that a shape in it may change, so that a failure may leave one half updated.
    pub(super) dynamic: bool,
    /// Indicates that it has sequences.
    pub(super) stateful: bool,
    /// Indicates that the states of sequences are within infer requests, which cannot leave their compiled model.
    pub(super) bound: bool,
}

impl Health {
    pub(super) fn new(nature: Nature) -> Self {
        Self {
            condition: Arc::default(),
            nature,
            guard: OnceLock::new(),
            stuck: Arc::default(),
        }
    }

    /// Sets the guard that tries the shapes of requests before they run, where they are not fixed.
    pub fn watch(&self, guard: Option<Arc<Guard>>) {
        if let Some(guard) = guard {
            let _ = self.guard.set(guard);
        }
        let _ = self.condition.change(SOUND, WATCHED);
    }

    /// Returns the guard that tries shapes, if any.
    pub fn guard(&self) -> Option<&Arc<Guard>> {
        self.guard.get()
    }

    /// Returns the condition that slots look at before they change the state of a sequence, if inferences of others may spoil
    /// it.
    pub(super) fn doubts(&self) -> Option<&Arc<Condition>> {
        (self.nature.stateful && self.nature.dynamic).then_some(&self.condition)
    }

    /// Returns whether requests may run without further checks.
    pub(super) fn is_sound(&self) -> bool {
        self.condition.get() == SOUND
    }

    /// Returns whether the compiled model is to be replaced, since an inference of it failed or is stuck.
    pub fn is_spoilt(&self) -> bool {
        self.condition.get() >= TAINTED
    }

    /// Returns whether requests are to run on the replacement.
    pub(super) fn sends_away(&self) -> bool {
        self.condition.is_closed() && !self.keeps_sequences()
    }

    /// Returns whether a request that cannot run here can run on the replacement.
    pub(super) fn lets_go(&self) -> bool {
        !self.keeps_sequences()
    }

    /// Returns whether an inference that fails may spoil others.
    pub fn may_be_spoilt(&self) -> bool {
        self.nature.dynamic
    }

    /// Returns whether sequences stay on it although it is replaced: their states cannot leave it, and it is stuck at worst.
    pub fn keeps_sequences(&self) -> bool {
        self.nature.bound && !self.nature.dynamic
    }

    /// Admits requests again, since it cannot be replaced, unless what came out might stay in a sequence.
    pub fn resume(&self) {
        if self.nature.stateful && self.nature.dynamic {
            return;
        }
        let _ = self.condition.change(CLOSED, TAINTED);
    }

    /// Closes the compiled model, since one of its batches has failed for a reason that is not known.
    pub(super) fn doubt(&self) {
        if self.nature.dynamic && !self.is_spoilt() {
            self.condition.close();
        }
    }

    /// Closes a stuck compiled model to requests, and notifies those who watch it.
    pub(super) fn stick(&self) {
        self.condition.close();
        self.stuck.notify_one();
    }

    /// Returns the outcome of a run that has just ended.
    pub(super) fn validate(
        &self,
        ran: Result<Vec<Tensor>, SlotError>,
        work: impl FnOnce() -> Work,
    ) -> Result<Vec<Tensor>, RunError> {
        match ran {
            // Another one has failed meanwhile, perhaps in the same stream just before: what came
            // out may be wrong. A slot has found that out before it changed a state.
            Ok(_) if self.nature.dynamic && !self.nature.stateful && self.sends_away() => {
                Err(RunError::Spoilt(None, work()))
            }
            Ok(outputs) => Ok(outputs),
            Err(SlotError::Doubtful) => Err(RunError::Spoilt(None, work())),
            Err(error) => Err(self.failed(error, work)),
        }
    }

    fn failed(&self, error: SlotError, work: impl FnOnce() -> Work) -> RunError {
        // What failed before or behind the inference has left nothing half done.
        if !self.nature.dynamic || !error.is_of_inference() {
            return RunError::Slot(error);
        }
        let begun = self.condition.change(SOUND, CLOSED);
        let (stateful, to) = match self.nature.stateful {
            true => (true, CLOSED),
            false => (false, TAINTED),
        };
        // Of a model whose shapes were tried, the first to fail has nobody but itself to blame. Other sequences wait, so the
        // first of them to fail is not tried again either.
        let blamed = (begun.is_ok() && stateful)
            || (begun == Err(WATCHED) && self.condition.change(WATCHED, to).is_ok());
        if blamed {
            return RunError::Slot(error);
        }
        RunError::Spoilt(Some(error), work())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openvino::runtime_error::OpenVinoError;

    fn health(dynamic: bool, stateful: bool) -> Health {
        Health::new(Nature {
            dynamic,
            stateful,
            bound: false,
        })
    }

    fn work() -> Work {
        Work {
            inputs: Vec::new(),
            wanted: Vec::new(),
        }
    }

    /// Makes an inference fail; returns true if it is to be repeated elsewhere.
    fn fails(health: &Health, step: &'static str) -> bool {
        let source = OpenVinoError::new("no");
        let ran = health.validate(Err(SlotError::Runtime { step, source }), work);
        matches!(ran, Err(RunError::Spoilt(Some(_), _)))
    }

    #[test]
    fn the_first_failure_of_a_model_keeps_requests_and_answers_from_it() {
        let health = health(true, false);
        assert!(
            !fails(&health, "reach an output tensor"),
            "nothing is spoilt"
        );
        assert!(health.is_sound() && health.validate(Ok(Vec::new()), work).is_ok());
        assert!(fails(&health, "infer"));
        assert!(health.is_spoilt() && health.sends_away());
        let doubtful = health.validate(Ok(Vec::new()), work);
        assert!(matches!(doubtful, Err(RunError::Spoilt(None, _))));
        health.resume();
        assert!(
            health.is_spoilt() && !health.sends_away(),
            "nothing better is to be had"
        );
        assert!(health.validate(Ok(Vec::new()), work).is_ok());
    }

    #[test]
    fn where_shapes_are_tried_the_first_to_fail_is_to_blame_and_others_are_repeated() {
        let health = health(true, false);
        health.watch(None);
        assert!(!health.is_sound() && !health.is_spoilt());
        assert!(!fails(&health, "infer"));
        assert!(health.is_spoilt() && !health.sends_away());
        assert!(fails(&health, "infer"));
        assert!(health.validate(Ok(Vec::new()), work).is_ok());
    }

    #[test]
    fn a_stateful_model_runs_nothing_until_it_is_replaced() {
        for is_watched in [false, true] {
            let stateful = health(true, true);
            if is_watched {
                stateful.watch(None);
            }
            assert!(!fails(&stateful, "infer"), "the first has itself to blame");
            assert!(fails(&stateful, "infer"), "the next has others");
            stateful.resume();
            assert!(stateful.is_spoilt() && stateful.sends_away());
            let taken = stateful.validate(Ok(Vec::new()), work);
            assert!(taken.is_ok(), "the state has changed before");
            let doubtful = stateful.validate(Err(SlotError::Doubtful), work);
            assert!(matches!(doubtful, Err(RunError::Spoilt(None, _))));
        }
        let bound = |dynamic| Nature {
            dynamic,
            stateful: true,
            bound: true,
        };
        for (dynamic, sends_away) in [(true, true), (false, false)] {
            let stuck = Health::new(bound(dynamic));
            stuck.stick();
            assert_eq!(stuck.sends_away(), sends_away);
        }
    }

    #[test]
    fn a_batch_that_failed_for_nobody_closes_the_model() {
        for (is_watched, stateful) in [(false, false), (true, false), (true, true)] {
            let health = health(true, stateful);
            if is_watched {
                health.watch(None);
            }
            health.doubt();
            assert!(health.is_spoilt() && health.sends_away());
        }
        let fixed = health(false, false);
        fixed.doubt();
        assert!(fixed.is_sound(), "nothing of it can be half updated");
    }

    #[test]
    fn fixed_shapes_are_never_spoilt() {
        let fixed = health(false, false);
        assert!(!fails(&fixed, "infer"));
        assert!(fixed.is_sound());
        fixed.stick();
        assert!(fixed.sends_away(), "stuck for all that");
        assert!(fixed.validate(Ok(Vec::new()), work).is_ok());
    }
}
