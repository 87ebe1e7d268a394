//! A pipeline as it is served: a name, its state, and what it runs at the moment.

use std::{ops::Deref, sync::Arc};

use super::definition::{Definition, Limits};
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
    live: Live<Definition>,
    decoding: Decoding,
    limits: Limits,
}

impl Served for Definition {
    const WORDS: Words = Words {
        known: "Pipeline",
        plain: "pipeline",
    };

    fn drain(self: Arc<Self>) -> impl Future<Output = ()> + Send {
        Self::drain(self)
    }
}

impl Deref for Pipeline {
    type Target = Live<Definition>;

    fn deref(&self) -> &Live<Definition> {
        &self.live
    }
}

impl Pipeline {
    /// Makes a pipeline that has not been checked yet.
    #[must_use]
    pub fn new(name: &str, reporter: Arc<Reporter>, limits: Limits) -> Arc<Self> {
        reporter.serves_pipeline();
        Arc::new(Self {
            live: Live::new(name, reporter, limits.requests),
            decoding: Decoding::new(limits.image_pixels, limits.requests),
            limits,
        })
    }

    /// Returns how much may go on at once.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Judges a request by these inputs and outputs, as one to a model is.
    ///
    /// # Errors
    ///
    /// Fails with the first fault.
    pub(crate) async fn judge(
        &self,
        info: &ServableInfo,
        request: InferRequest,
    ) -> Result<(Vec<SlotInput>, Vec<usize>)> {
        self.decoding.judge(info, request).await
    }
}
