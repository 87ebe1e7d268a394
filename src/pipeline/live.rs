//! A pipeline as it is served: a name, its state, and what it runs at the moment.

use std::{ops::Deref, sync::Arc};

use arc_swap::ArcSwapOption;

use super::definition::{PipelineDefinition, PipelineLimits};
use crate::{
    draw::Diagram,
    metrics::Reporter,
    model::{Live, decoding::Decoding},
};

/// The version that pipelines say they have.
pub const VERSION: i64 = 1;

/// A pipeline as it is served.
#[derive(Debug)]
pub struct Pipeline {
    live: Live<PipelineDefinition>,
    /// Diagram since the last check, valid or not.
    diagram: ArcSwapOption<Diagram>,
    /// Validates requests as those to a model.
    pub(crate) decoding: Decoding,
    limits: PipelineLimits,
}

impl Deref for Pipeline {
    type Target = Live<PipelineDefinition>;

    fn deref(&self) -> &Live<PipelineDefinition> {
        &self.live
    }
}

impl Pipeline {
    /// Makes a pipeline that has not been checked yet.
    pub fn new(name: &str, reporter: Arc<Reporter>, limits: PipelineLimits) -> Arc<Self> {
        reporter.serves_pipeline();
        Arc::new(Self {
            live: Live::new(name, reporter, limits.requests),
            diagram: ArcSwapOption::empty(),
            decoding: Decoding::new(limits.image_pixels, limits.requests, limits.budget.clone()),
            limits,
        })
    }

    /// Sets the diagram.
    pub fn set_diagram(&self, diagram: Diagram) {
        self.diagram.store(Some(Arc::new(diagram)));
    }

    /// Returns the diagram, valid or not; `None` if the pipeline has not been checked.
    pub fn diagram(&self) -> Option<Arc<Diagram>> {
        self.diagram.load_full()
    }

    /// Returns how much may go on at once.
    pub fn limits(&self) -> &PipelineLimits {
        &self.limits
    }
}
