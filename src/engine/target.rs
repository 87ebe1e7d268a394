//! What a request has found: a servable that stays alive until the request is done.

use std::{sync::Arc, time::Instant};

use super::Place;
use crate::{
    error::Result,
    metrics::Call,
    model::{Loaded, Version},
    request::{InferRequest, InferResponse},
    servable::ServableInfo,
};

/// A servable found for one request.
pub struct Target {
    version: Arc<Version>,
    loaded: Arc<Loaded>,
    /// Counts the request as failed, unless it is answered.
    call: Call,
    /// The request counts as under way for as long as it has its target.
    _place: Place,
}

impl Target {
    pub(super) fn new(
        version: Arc<Version>,
        loaded: Arc<Loaded>,
        call: Call,
        place: Place,
    ) -> Self {
        Self {
            version,
            loaded,
            call,
            _place: place,
        }
    }

    /// Says when the request was received, for a frontend that had work with it before it asked
    /// for its target. Without this it began with the look-up.
    #[must_use]
    pub fn since(mut self, received: Instant) -> Self {
        self.call.begun(received);
        self
    }

    /// Returns inputs and outputs.
    #[must_use]
    pub fn info(&self) -> &ServableInfo {
        &self.loaded.info
    }

    /// Runs a request.
    ///
    /// # Errors
    ///
    /// Fails if the request does not fit, no slot comes free, or the runtime fails.
    pub async fn infer(&self, mut request: InferRequest) -> Result<InferResponse> {
        let id = std::mem::take(&mut request.id);
        let (outputs, ran) = self
            .version
            .infer(&self.loaded, request, &self.call)
            .await?;
        self.call.answered(ran);
        Ok(InferResponse {
            model_name: self.version.model().to_owned(),
            model_version: self.version.number(),
            id,
            outputs,
        })
    }
}
