//! Models and pipelines as the nodes of graphs use them.

use std::sync::{Arc, Weak};

use futures::future::BoxFuture;

use super::{
    course::shutting_down,
    engine::Engine,
    registry::not_found,
    servable::{Servable, ServableFacts},
};
use crate::{
    error::Result,
    graph::{ServableSession, Servables},
    request::{InferRequest, RequestOrigin},
    servable::ServableInfo,
    tensor::TensorMap,
};

/// Look-up of models and pipelines for runs of a graph.
pub(super) struct Sessions {
    /// Weak, since pooled runs of graphs must not keep everything.
    engine: Weak<Engine>,
}

impl Servables for Sessions {
    fn session(&self, name: &str, version: Option<i64>) -> Result<Arc<dyn ServableSession>> {
        let facts = facts(&self.engine, name, version)?;
        Ok(Arc::new(OfName {
            engine: Weak::clone(&self.engine),
            name: name.to_owned(),
            version,
            info: facts.info().clone(),
        }))
    }
}

impl Engine {
    /// Returns what the nodes of graphs find models and pipelines by.
    pub fn sessions(self: &Arc<Self>) -> Arc<dyn Servables> {
        Arc::new(Sessions {
            engine: Arc::downgrade(self),
        })
    }
}

/// Returns the engine, as long as there is one.
fn alive(engine: &Weak<Engine>) -> Result<Arc<Engine>> {
    engine.upgrade().ok_or_else(shutting_down)
}

/// Returns what is loaded of a model or pipeline.
fn facts(engine: &Weak<Engine>, name: &str, version: Option<i64>) -> Result<ServableFacts> {
    let servable = alive(engine)?.servable(name)?;
    // A graph in a graph could be itself.
    if matches!(servable, Servable::Graph(_)) {
        return Err(not_found());
    }
    servable.part(version)?.loaded()
}

/// A session of what a name stands for.
struct OfName {
    engine: Weak<Engine>,
    name: String,
    version: Option<i64>,
    info: ServableInfo,
}

impl ServableSession for OfName {
    fn info(&self) -> &ServableInfo {
        &self.info
    }

    fn renewed(&self, known: &ServableInfo) -> Option<ServableInfo> {
        let facts = facts(&self.engine, &self.name, self.version).ok()?;
        (facts.info() != known).then(|| facts.info().clone())
    }

    fn infer(
        &self,
        request: InferRequest,
        origin: RequestOrigin,
    ) -> BoxFuture<'static, Result<TensorMap>> {
        let (engine, name) = (Weak::clone(&self.engine), self.name.clone());
        let version = self.version;
        Box::pin(async move {
            let engine = alive(&engine)?;
            let target = engine.find_for_node(&name, version, origin).await?;
            Ok(target.infer(request).await?.outputs)
        })
    }
}
