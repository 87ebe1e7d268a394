//! What a request has found: a servable that stays alive until the request is done.

use std::sync::Arc;

use super::Place;
use crate::{
    error::Result,
    model::{Loaded, Version},
    request::{InferRequest, InferResponse},
    servable::ServableInfo,
};

/// A servable found for one request.
pub struct Target {
    version: Arc<Version>,
    loaded: Arc<Loaded>,
    /// The request counts as under way for as long as it has its target.
    _place: Place,
}

impl Target {
    pub(super) fn new(version: Arc<Version>, loaded: Arc<Loaded>, place: Place) -> Self {
        Self {
            version,
            loaded,
            _place: place,
        }
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
        let outputs = self.loaded.infer(request).await?;
        Ok(InferResponse {
            model_name: self.version.model().to_owned(),
            model_version: self.version.number(),
            id,
            outputs,
        })
    }
}
