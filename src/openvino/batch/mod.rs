//! Dynamic batching: requests that wait for an infer request run together as one inference.
//!
//! A model is compiled once more for each size of batch ([`model`]), and each slot has an infer request of
//! each of them ([`rows`]). [`ready`] finds out at load whether rows of a batch are what each request is alone,
//! and what a batch gains on this machine; what it has measured stays beside the compiled models
//! ([`stored`]); [`memory`] bounds what that takes. [`choice`] has a size for what waits, of those of [`sizes`], and [`queue`] holds that;
//! none of the three knows the runtime. [`returns`] has a slot wait for those that it has just answered.
//! Steps of sequences are batched in the same way, with their states as further inputs and outputs.

mod choice;
mod memory;
pub(super) mod model;
pub(super) mod queue;
pub(super) mod ready;
mod returns;
pub(super) mod rows;
pub(super) mod sizes;
mod stored;

use std::{
    sync::{
        Arc, Once, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

pub use self::memory::batch_budget;
use self::{choice::SizeChoice, model::BatchModel, sizes::BatchSizes};
pub(super) use self::{
    memory::BatchMemory,
    returns::{ReturnRule, ReturnWait},
};
use crate::budget::Charge;

/// Batching of one model, as it was loaded.
pub(super) struct Batches {
    pub(super) sizes: BatchSizes,
    /// The same with those that there is not enough memory for.
    pub(super) known: BatchSizes,
    pub(super) delay: Duration,
    /// Compiled models, one for each size.
    pub(super) models: Vec<BatchModel>,
    /// Reason why there are no larger sizes, if there is not enough memory for them.
    pub(super) limit: Option<Arc<str>>,
}

/// Reason why a model has no batches.
#[derive(Debug)]
pub(super) struct Unbatched {
    pub(super) reason: Arc<str>,
    /// Sizes that it would have, if there is just not enough memory for any.
    pub(super) known: Option<BatchSizes>,
}

impl Unbatched {
    /// Returns them for a load that takes the place of this one.
    pub(super) fn outcome(&self) -> BatchOutcome {
        let known = self.known.clone();
        BatchOutcome(
            known
                .map(|sizes| (sizes, None))
                .ok_or(Arc::clone(&self.reason)),
        )
    }
}

/// Rules by which the runs of a model become batches.
pub(super) struct BatchRules {
    pub(super) choice: SizeChoice,
    /// Maximum time that a request with an infer request waits for others.
    pub(super) delay: Duration,
    /// Reason why there are no more batches: they have failed where their requests did not.
    pub(super) off: OnceLock<Arc<str>>,
    /// Indicates that a batch has failed, which may have left shapes in its compiled model half updated: there are no
    /// more, and those in flight count as failed, until it is replaced.
    is_doubtful: AtomicBool,
    /// Set once rows were too large for a batch.
    pub(super) has_refused: Once,
    known: BatchSizes,
    limit: Option<Arc<str>>,
    /// Memory of the compiled models, whose infer requests the slots have.
    _charges: Vec<Charge>,
}

impl From<Batches> for BatchRules {
    fn from(batches: Batches) -> Self {
        let models = batches.models.into_iter();
        Self {
            choice: batches.sizes.into(),
            delay: batches.delay,
            off: OnceLock::new(),
            is_doubtful: AtomicBool::new(false),
            has_refused: Once::new(),
            known: batches.known,
            limit: batches.limit,
            _charges: models.map(|model| model.cost.into_charge()).collect(),
        }
    }
}

/// Outcome of the preparation of batches, for the load that takes the place of a model: that of an inference that has
/// failed is waited for by clients, and measures nothing again.
#[derive(Debug, Clone)]
pub struct BatchOutcome(Result<KnownSizes, Arc<str>>);

/// Sizes, and the reason why no larger ones are known.
type KnownSizes = (BatchSizes, Option<Arc<str>>);

/// Batching of a loaded model, for those who ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchingFacts {
    /// Sizes in use, smallest first; none if requests run one by one.
    pub sizes: Vec<usize>,
    /// Maximum time that a request waits for others although it could run.
    pub delay: Duration,
    /// Reason why requests run one by one, or why there are no larger sizes, if so.
    pub reason: Option<Arc<str>>,
}

impl BatchingFacts {
    /// Makes those of a model that is set to have batches, and has none.
    pub(super) fn off(reason: Arc<str>) -> Self {
        Self {
            sizes: Vec::new(),
            delay: Duration::ZERO,
            reason: Some(reason),
        }
    }

    /// Describes what is not as the settings ask for, if anything.
    pub fn shortfall(&self) -> Option<String> {
        let reason = self.reason.as_ref()?;
        Some(match self.sizes.last() {
            None => format!("off: {reason}"),
            Some(most) => format!("up to {most} rows: {reason}"),
        })
    }
}

impl BatchRules {
    /// Returns whether there are no batches for now, or any more.
    pub(super) fn are_off(&self) -> bool {
        self.off.get().is_some() || self.is_doubtful()
    }

    /// Returns whether the outputs of a batch may be wrong, since another one has failed.
    pub(super) fn is_doubtful(&self) -> bool {
        self.is_doubtful.load(Relaxed)
    }

    /// Notes that a batch has failed within the runtime.
    pub(super) fn doubt(&self) {
        self.is_doubtful.store(true, Relaxed);
    }

    /// Returns them for a load that takes the place of this one.
    pub(super) fn outcome(&self) -> BatchOutcome {
        match self.off.get() {
            Some(reason) => BatchOutcome(Err(Arc::clone(reason))),
            None => BatchOutcome(Ok((self.known.clone(), self.limit.clone()))),
        }
    }

    /// Describes them.
    pub(super) fn facts(&self) -> BatchingFacts {
        if let Some(reason) = self.off.get() {
            return BatchingFacts::off(Arc::clone(reason));
        }
        BatchingFacts {
            sizes: {
                let list = self.choice.sizes().list.iter();
                list.map(|size| size.rows).collect()
            },
            delay: self.delay,
            reason: self.limit.clone(),
        }
    }
}
