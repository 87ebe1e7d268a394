//! A request to a graph.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use tokio::sync::OwnedSemaphorePermit;

use super::{engine::Engine, servable::info_of};
use crate::{
    error::Result,
    graph::{Env, Graph, GraphDefinition, VERSION},
    metrics::{GraphCall, Method, RequestRecord, Times},
    request::{InferRequest, InferResponse, RequestOrigin},
    servable::ServableInfo,
};

/// A graph found for a request.
pub(super) struct OfGraph {
    pub(super) engine: Arc<Engine>,
    pub(super) graph: Arc<Graph>,
    pub(super) definition: Arc<GraphDefinition>,
    pub(super) origin: RequestOrigin,
    /// Inputs and outputs, once anybody has asked.
    pub(super) info: OnceLock<ServableInfo>,
    /// The place of the request among those in flight.
    pub(super) _admitted: OwnedSemaphorePermit,
}

impl OfGraph {
    pub(super) fn info(&self) -> &ServableInfo {
        self.info.get_or_init(|| info_of(self.definition.plan()))
    }

    pub(super) async fn infer(
        &self,
        id: String,
        request: InferRequest,
        call: &RequestRecord,
    ) -> Result<InferResponse> {
        let wanted = request.outputs.clone();
        let counts = GraphCall::new(call.reporter(), self.origin, Method::Infer);
        if let Err(error) = self.definition.plan().validate_outputs(&wanted) {
            counts.rejected();
            return Err(error);
        }
        let env = Env::new(self.engine.sessions())
            .of(self.origin)
            .traced(call.traced().cloned())
            .owned(call.owner().cloned());
        let begun = Instant::now();
        let _turn = self.graph.turn().await;
        let started = Instant::now();
        let ran = self.definition.infer(env, request, &counts);
        let response = Box::pin(ran).await?;
        let ended = Instant::now();
        // To those who ask for statistics, all of it is one run.
        call.reporter().ran(&Times {
            prepared: call.elapsed(begun),
            waited: started.saturating_duration_since(begun),
            started,
            ended,
            rows: 1,
            batch: 0,
        });
        let response = InferResponse {
            model_name: self.graph.name().to_owned(),
            model_version: VERSION,
            id,
            ..select(response, &wanted)
        };
        call.answered(ended);
        Ok(response)
    }
}

/// Keeps the outputs that are asked for, in the order asked; all if none is.
fn select(mut response: InferResponse, wanted: &[String]) -> InferResponse {
    if wanted.is_empty() {
        return response;
    }
    let place = |name: &str| wanted.iter().position(|wanted| wanted == name);
    let mut outputs: Vec<_> = response.outputs.into_iter().collect();
    outputs.retain(|(name, _)| place(name).is_some());
    outputs.sort_by_key(|(name, _)| place(name));
    response.outputs = outputs.into_iter().collect();
    response.loose.retain(|loose| place(&loose.name).is_some());
    response.loose.sort_by_key(|loose| place(&loose.name));
    response
}
