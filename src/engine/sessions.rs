//! Models and pipelines as the nodes of graphs use them.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::{Engine, Servable, not_found};
use crate::{
    error::Result,
    graph::{Servables, Session},
    request::{InferRequest, Origin},
    servable::ServableInfo,
    tensor::TensorMap,
};

/// What a run of a graph finds models and pipelines by.
pub(super) struct Sessions {
    engine: Arc<Engine>,
    /// That of the request for which the graph runs.
    origin: Origin,
}

impl Sessions {
    pub(super) fn new(engine: &Arc<Engine>, origin: Origin) -> Self {
        Self {
            engine: Arc::clone(engine),
            origin,
        }
    }
}

impl Servables for Sessions {
    fn session(&self, name: &str, version: Option<i64>) -> Result<Arc<dyn Session>> {
        let servable = self.engine.servable(name)?;
        // A graph in a graph could be itself.
        if matches!(servable, Servable::Graph(_)) {
            return Err(not_found());
        }
        let facts = servable.part(version)?.loaded()?;
        Ok(Arc::new(OfName {
            engine: Arc::clone(&self.engine),
            name: name.to_owned(),
            version,
            origin: self.origin,
            info: facts.info().clone(),
        }))
    }
}

/// A session of what a name stands for.
struct OfName {
    engine: Arc<Engine>,
    name: String,
    version: Option<i64>,
    origin: Origin,
    info: ServableInfo,
}

impl Session for OfName {
    fn info(&self) -> &ServableInfo {
        &self.info
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<TensorMap>> {
        let (engine, name) = (Arc::clone(&self.engine), self.name.clone());
        let (version, origin) = (self.version, self.origin);
        Box::pin(async move {
            let target = engine.find_for_node(&name, version, origin).await?;
            Ok(target.infer(request).await?.outputs)
        })
    }
}
