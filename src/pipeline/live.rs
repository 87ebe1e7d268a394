//! A pipeline as it is served: a name, its state, and what it runs at the moment.

use std::{ops::Deref, sync::Arc};

use arc_swap::ArcSwapOption;

use super::{
    definition::{PipelineDefinition, PipelineLimits},
    outline::PipelineOutline,
};
use crate::{
    error::Result,
    metrics::Reporter,
    model::{Live, Served, Words, decoding::Decoding},
    openvino::SlotInput,
    request::InferRequest,
    servable::ServableInfo,
};

/// The version that pipelines say they have.
pub const VERSION: i64 = 1;

/// A pipeline as it is served.
#[derive(Debug)]
pub struct Pipeline {
    live: Live<PipelineDefinition>,
    /// Outline since the last check, sound or not.
    outline: ArcSwapOption<PipelineOutline>,
    decoding: Decoding,
    limits: PipelineLimits,
}

impl Served for PipelineDefinition {
    const WORDS: Words = Words {
        known: "Pipeline",
        plain: "pipeline",
    };

    fn drain(self: Arc<Self>) -> impl Future<Output = ()> + Send {
        Self::drain(self)
    }
}

impl Deref for Pipeline {
    type Target = Live<PipelineDefinition>;

    fn deref(&self) -> &Live<PipelineDefinition> {
        &self.live
    }
}

impl Pipeline {
    /// Makes a pipeline that has not been checked yet.
    #[must_use]
    pub fn new(name: &str, reporter: Arc<Reporter>, limits: PipelineLimits) -> Arc<Self> {
        reporter.serves_pipeline();
        Arc::new(Self {
            live: Live::new(name, reporter, limits.requests),
            outline: ArcSwapOption::empty(),
            decoding: Decoding::new(limits.image_pixels, limits.requests, limits.budget.clone()),
            limits,
        })
    }

    /// Says what it looks like.
    pub fn sketch(&self, outline: PipelineOutline) {
        self.outline.store(Some(Arc::new(outline)));
    }

    /// Returns what it looks like, sound or not; `None` if it has not been checked.
    #[must_use]
    pub fn outline(&self) -> Option<Arc<PipelineOutline>> {
        self.outline.load_full()
    }

    /// Returns how much may go on at once.
    #[must_use]
    pub fn limits(&self) -> &PipelineLimits {
        &self.limits
    }

    /// Validates a request by these inputs and outputs, as one to a model is.
    ///
    /// # Errors
    ///
    /// Fails with the first error.
    pub(crate) async fn validate(
        &self,
        info: &ServableInfo,
        request: InferRequest,
    ) -> Result<(Vec<SlotInput>, Vec<usize>)> {
        self.decoding.validate(info, request).await
    }
}
