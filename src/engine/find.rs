//! Look-up of the target of a request.

use std::{
    sync::{Arc, OnceLock, atomic::Ordering},
    time::Duration,
};

use tokio::sync::OwnedSemaphorePermit;

use super::{
    course::shutting_down,
    engine::Engine,
    in_flight::{InFlight, RequestInFlight},
    of_graph::OfGraph,
    of_pipeline::OfPipeline,
    registry::not_found,
    servable::Servable,
    target::{Found, OfModel, Site, Stateful, Target},
};
use crate::{
    error::{Error, Result},
    graph::Graph,
    metrics::RequestRecord,
    model::{Live, Loaded, Model, Served, Version},
    pipeline::Pipeline,
    request::{ApiFamily, RequestOrigin},
};

impl Engine {
    /// Finds what a request is for: the version asked for, or the default one.
    ///
    /// A version that is still loading is waited for, up to a limit. From a success on, the call
    /// counts as one of `origin`: as failed, unless [`Target::infer`] returns an answer.
    ///
    /// # Errors
    ///
    /// Fails if there is no such name or version, it does not get ready, or the server is
    /// stopping.
    pub async fn find(
        self: &Arc<Self>,
        name: &str,
        version: Option<i64>,
        origin: RequestOrigin,
    ) -> Result<Target> {
        let place = self.enter_flight()?;
        let target = self.find_in(place, name, version, origin).await?;
        Ok(target.bounded(self.max_strings()))
    }

    /// Counts a request as in flight.
    pub(super) fn enter_flight(&self) -> Result<RequestInFlight> {
        let place = InFlight::enter(&self.in_flight);
        // After entering: a stop either sees this request or is seen by it.
        match self.stopping.load(Ordering::SeqCst) {
            true => Err(shutting_down()),
            false => Ok(place),
        }
    }

    /// Finds what a node of a graph runs, for a request of this origin that is in flight: also while
    /// the server is stopping.
    pub(super) async fn find_for_node(
        self: &Arc<Self>,
        name: &str,
        version: Option<i64>,
        origin: RequestOrigin,
    ) -> Result<Target> {
        let place = InFlight::enter(&self.in_flight);
        let target = self.find_in(place, name, version, origin).await?;
        Ok(target.of_node())
    }

    async fn find_in(
        self: &Arc<Self>,
        place: RequestInFlight,
        name: &str,
        version: Option<i64>,
        origin: RequestOrigin,
    ) -> Result<Target> {
        // What may wait is in boxes, so that a request to a loaded model carries no room for it.
        let model = match self.servable(name)? {
            Servable::Model(model) => model,
            Servable::Pipeline(pipeline) => {
                return Box::pin(self.find_pipeline(pipeline, origin, place)).await;
            }
            Servable::Graph(graph) => {
                return Box::pin(self.find_graph(graph, origin, place)).await;
            }
        };
        let named = version.is_some();
        let (version, loaded) = find_version(&model, version)?;
        // From here on it counts, whatever ends it.
        let call = RequestRecord::new(version.reporter(), origin);
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(not_loaded) => match version.draining() {
                // Its sequences go on.
                Some(draining) => draining,
                None => Box::pin(self.wait_loaded(&version, not_loaded)).await?,
            },
        };
        let stateful = loaded.is_stateful().then(|| {
            Box::new(Stateful {
                engine: Arc::clone(self),
                model,
                named,
                arrival: None,
                key: None,
            })
        });
        let site = Site { version, loaded };
        let found = Found::Model(OfModel { site, stateful });
        Ok(Target::new(found, call, place))
    }

    /// Finds what a pipeline runs.
    async fn find_pipeline(
        self: &Arc<Self>,
        pipeline: Arc<Pipeline>,
        origin: RequestOrigin,
        place: RequestInFlight,
    ) -> Result<Target> {
        let (call, admitted, definition) = self.enter(&pipeline, origin).await?;
        let found = OfPipeline {
            engine: Arc::clone(self),
            pipeline,
            definition,
            origin,
            trace: None,
            _admitted: admitted,
        };
        Ok(Target::new(Found::Pipeline(Box::new(found)), call, place))
    }

    /// Finds what a graph runs.
    async fn find_graph(
        self: &Arc<Self>,
        graph: Arc<Graph>,
        origin: RequestOrigin,
        place: RequestInFlight,
    ) -> Result<Target> {
        // Its own protocol is KServe's; in the others there is no such thing.
        if origin.api == ApiFamily::TensorFlowServing {
            return Err(not_found());
        }
        let (call, admitted, definition) = self.enter(&graph, origin).await?;
        let found = OfGraph {
            engine: Arc::clone(self),
            graph,
            definition,
            origin,
            info: OnceLock::new(),
            _admitted: admitted,
        };
        Ok(Target::new(Found::Graph(Box::new(found)), call, place))
    }

    /// Counts and admits a call to a pipeline or graph; returns its definition as well.
    async fn enter<D: Served>(
        &self,
        live: &Live<D>,
        origin: RequestOrigin,
    ) -> Result<(RequestRecord, OwnedSemaphorePermit, Arc<D>)> {
        // From here on it counts, whatever ends it.
        let call = RequestRecord::new(live.reporter(), origin);
        let admitted = live.admit()?;
        let definition = self.definition(live).await?;
        Ok((call, admitted, definition))
    }

    /// Finds what a pipeline or graph runs, after a wait if it is about to be checked and not too
    /// many wait already; it can serve.
    pub(super) async fn definition<D: Served>(&self, live: &Live<D>) -> Result<Arc<D>> {
        let definition = self.present(live).await?;
        definition.ready()?;
        Ok(definition)
    }

    async fn present<D: Served>(&self, live: &Live<D>) -> Result<Arc<D>> {
        /// Pipelines are checked in less, once their models are there.
        const LIMIT: Duration = Duration::from_millis(500);
        match live.definition() {
            Err(_) if live.phase().is_passing() => {}
            Ok(definition) => return Ok(definition),
            // It may have become available between the two.
            Err(_) => return live.definition(),
        }
        let Ok(_place) = self.loading_places.try_acquire() else {
            return live.definition();
        };
        live.wait(LIMIT).await
    }

    /// Waits for a version that is not loaded, if it is loading and not too many wait already.
    pub(super) async fn wait_loaded(
        &self,
        version: &Version,
        not_loaded: Error,
    ) -> Result<Arc<Loaded>> {
        // Requests beyond the bound do not wait.
        let _place = self.loading_places.try_acquire().map_err(|_| not_loaded)?;
        version.wait_loaded(self.loading_wait).await
    }
}

/// Finds a version of a model, and what is loaded of it.
pub(super) fn find_version(
    model: &Model,
    version: Option<i64>,
) -> Result<(Arc<Version>, Result<Arc<Loaded>>)> {
    let named = version.is_some();
    loop {
        let found = match model.version(version) {
            Ok(found) => found,
            Err(none) if named => return Err(none),
            Err(none) => model.draining().ok_or(none)?,
        };
        let loaded = found.loaded();
        // The default version may go between the two, once another has taken over.
        if named || loaded.is_ok() || found.draining().is_some() {
            return Ok((found, loaded));
        }
    }
}
