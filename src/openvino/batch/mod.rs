//! Dynamic batching: requests that wait for an infer request run together as one inference.
//!
//! A model is compiled once more for each size of batch ([`model`]), and each slot has an infer request of
//! each of them ([`rows`]). [`ready`] finds out at load whether rows of a batch are what each request is alone,
//! and what a batch gains on this machine; what it has measured stays beside the compiled models
//! ([`stored`]). [`sizes`] chooses a size for what waits, and [`queue`] holds that; neither knows the runtime.
//! Steps of sequences are batched in the same way, with their states as further inputs and outputs.

pub(super) mod model;
pub(super) mod queue;
pub(super) mod ready;
pub(super) mod rows;
pub(super) mod sizes;
mod stored;

use std::{sync::atomic::AtomicBool, time::Duration};

pub use self::sizes::MAX_BATCH_SIZES;
use self::{model::BatchModel, sizes::BatchSizes};

/// Batching of one model, as it was loaded.
pub(super) struct Batches {
    pub(super) sizes: BatchSizes,
    pub(super) delay: Duration,
    /// Compiled models, one for each size.
    pub(super) models: Vec<BatchModel>,
}

/// Rules by which the runs of a model become batches.
pub(super) struct BatchRules {
    pub(super) sizes: BatchSizes,
    /// Maximum time that a request with an infer request waits for others.
    pub(super) delay: Duration,
    /// Whether batches have failed where their requests did not, so that there are no more of them.
    pub(super) is_off: AtomicBool,
}

impl From<Batches> for BatchRules {
    fn from(Batches { sizes, delay, .. }: Batches) -> Self {
        Self {
            sizes,
            delay,
            is_off: AtomicBool::new(false),
        }
    }
}

/// Batching of a loaded model, for those who ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchingFacts {
    /// Sizes that it is compiled for, smallest first.
    pub sizes: Vec<usize>,
    /// Maximum time that a request waits for others although it could run.
    pub delay: Duration,
}

impl BatchRules {
    /// Describes them.
    pub(super) fn facts(&self) -> BatchingFacts {
        BatchingFacts {
            sizes: self.sizes.list.iter().map(|size| size.rows).collect(),
            delay: self.delay,
        }
    }
}
