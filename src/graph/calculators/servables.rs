//! Models and pipelines, as nodes of graphs use them.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::{
    error,
    request::{InferRequest, RequestOrigin},
    servable::ServableInfo,
    tensor::TensorMap,
};

/// Lookup of models and pipelines for sessions.
pub trait Servables: Send + Sync {
    /// Finds a model or pipeline, the default version if none is given. The session is bound to the
    /// name: each inference uses the version then served.
    ///
    /// # Errors
    ///
    /// Fails if it does not exist, or is not being served.
    fn session(&self, name: &str, version: Option<i64>) -> error::Result<Arc<dyn ServableSession>>;
}

/// Model or pipeline, as used by nodes.
pub trait ServableSession: Send + Sync {
    /// Returns inputs and outputs as of the opening of the session.
    fn info(&self) -> &ServableInfo;

    /// Returns inputs and outputs as they are served now, if a reload has given others than these.
    fn renewed(&self, known: &ServableInfo) -> Option<ServableInfo>;

    /// Runs a request, which is validated like a client's, and counts for the origin of that.
    fn infer(
        &self,
        request: InferRequest,
        origin: RequestOrigin,
    ) -> BoxFuture<'static, error::Result<TensorMap>>;
}
