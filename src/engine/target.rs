//! Target of a request: a servable that stays alive until the request is done.

use std::{sync::Arc, time::Instant};

use super::{
    engine::Engine, in_flight::RequestInFlight, of_graph::OfGraph, of_pipeline::OfPipeline,
};
use crate::{
    error::{Error, ErrorKind, Result},
    graph,
    metrics::RequestRecord,
    model::{
        Loaded, LoadedInstance, Model, Version,
        stateful::{self, Selection},
    },
    openvino::{SequenceState, SlotInput},
    pipeline::PipelineObserver,
    request::{InferRequest, InferResponse, Parameters},
    sequence::{Arrival, Begun, SequenceCommand, SequenceRefusal, control},
    servable::ServableInfo,
    task,
};

/// How often a start looks for what has replaced the instance that it has found. A reload replaces it
/// once, and its steps are microseconds apart.
const MAX_ROUNDS: u32 = 1000;

/// A servable found for one request.
pub struct Target {
    found: Found,
    /// Counts the request as failed, unless it is answered.
    call: RequestRecord,
    /// How many strings an input may have.
    max_strings: usize,
    /// The request counts as in flight for as long as it has its target.
    _place: RequestInFlight,
}

enum Found {
    Model(OfModel),
    Pipeline(Box<OfPipeline>),
    Graph(Box<OfGraph>),
}

/// A version of a model found for a request.
struct OfModel {
    version: Arc<Version>,
    loaded: Arc<Loaded>,
    /// Additional data of a request to a stateful model.
    stateful: Option<Box<Stateful>>,
}

/// Around the version of a stateful model.
struct Stateful {
    engine: Arc<Engine>,
    model: Arc<Model>,
    /// Whether the request names its version.
    named: bool,
    /// The place of the request on its connection.
    arrival: Option<Arc<Arrival>>,
}

/// Where a request of a sequence belongs.
struct Site {
    version: Arc<Version>,
    loaded: Arc<Loaded>,
}

impl Target {
    pub(super) fn new(
        version: Arc<Version>,
        loaded: Arc<Loaded>,
        call: RequestRecord,
        place: RequestInFlight,
    ) -> Self {
        Self {
            found: Found::Model(OfModel {
                version,
                loaded,
                stateful: None,
            }),
            call,
            max_strings: usize::MAX,
            _place: place,
        }
    }

    pub(super) fn of_pipeline(
        found: OfPipeline,
        call: RequestRecord,
        place: RequestInFlight,
    ) -> Self {
        Self {
            found: Found::Pipeline(Box::new(found)),
            call,
            max_strings: usize::MAX,
            _place: place,
        }
    }

    pub(super) fn of_graph(found: OfGraph, call: RequestRecord, place: RequestInFlight) -> Self {
        Self {
            found: Found::Graph(Box::new(found)),
            call,
            max_strings: usize::MAX,
            _place: place,
        }
    }

    /// Makes it the target of a node, whose time is none of requests.
    pub(super) fn of_node(mut self) -> Self {
        self.call = self.call.of_node();
        self
    }

    /// Says how many strings an input may have.
    pub(super) fn bounded(mut self, max_strings: usize) -> Self {
        self.max_strings = max_strings;
        self
    }

    /// Adds what is needed if the model is stateful.
    pub(super) fn among(mut self, engine: &Arc<Engine>, model: &Arc<Model>, named: bool) -> Self {
        if let Found::Model(found) = &mut self.found
            && found.loaded.is_stateful()
        {
            found.stateful = Some(Box::new(Stateful {
                engine: Arc::clone(engine),
                model: Arc::clone(model),
                named,
                arrival: None,
            }));
        }
        self
    }

    /// Says when the request was received, for a frontend that had work with it before it asked
    /// for its target. Without this it began with the look-up.
    #[must_use]
    pub fn since(mut self, received: Instant) -> Self {
        self.call.begun(received);
        self
    }

    /// Says where among the requests of its connection the request is, which counts if it is one
    /// of a sequence.
    #[must_use]
    pub fn arrived(mut self, arrival: Arc<Arrival>) -> Self {
        match &mut self.found {
            Found::Model(OfModel {
                version,
                stateful: Some(stateful),
                ..
            }) => {
                arrival.concerns(version.model());
                stateful.arrival = Some(arrival);
            }
            _ => arrival.leave(),
        }
        self
    }

    /// Says who sees the runs of the nodes, if it is a pipeline.
    #[must_use]
    pub fn watched(mut self, watch: Arc<dyn PipelineObserver>) -> Self {
        if let Found::Pipeline(found) = &mut self.found {
            found.watch = Some(watch);
        }
        self
    }

    /// Returns inputs and outputs.
    #[must_use]
    pub fn info(&self) -> &ServableInfo {
        match &self.found {
            Found::Model(found) => &found.loaded.info,
            Found::Pipeline(found) => found.info(),
            Found::Graph(found) => found.info(),
        }
    }

    /// Returns whether inputs have to be named even where there is only one.
    #[must_use]
    pub fn takes_named_only(&self) -> bool {
        !matches!(self.found, Found::Model(_))
    }

    /// Returns whether requests belong to sequences, so that they have special inputs.
    #[must_use]
    pub fn is_stateful(&self) -> bool {
        matches!(&self.found, Found::Model(found) if found.stateful.is_some())
    }

    /// Runs a request.
    ///
    /// # Errors
    ///
    /// Fails if the request does not fit, no slot comes free, the rules of sequences do not allow
    /// it, or the runtime fails.
    pub async fn infer(&self, mut request: InferRequest) -> Result<InferResponse> {
        request.bound_strings(self.max_strings)?;
        let id = std::mem::take(&mut request.id);
        let found = match &self.found {
            Found::Model(found) => found,
            // In boxes, so that a request to a plain model does not carry room for these.
            Found::Pipeline(found) => {
                let answer = Box::pin(found.infer(id, request, &self.call)).await;
                return answer.inspect_err(|error| self.call.failed(error));
            }
            Found::Graph(found) => {
                // Handlers may take any time.
                task::in_own_task().await;
                let answer = Box::pin(found.infer(id, request, &self.call)).await;
                return answer.inspect_err(|error| match graph::is_within(error) {
                    true => self.call.broke(error),
                    false => self.call.failed(error),
                });
            }
        };
        if let Some(stateful) = &found.stateful {
            let answer = found.infer_in_sequence(stateful, id, request, &self.call);
            return Box::pin(answer)
                .await
                .inspect_err(|error| self.call.failed(error));
        }
        let (outputs, ran) = found
            .version
            .infer(&found.loaded, request, &self.call)
            .await
            .inspect_err(|error| self.call.failed(error))?;
        self.call.answered(ran);
        Ok(InferResponse {
            model_name: found.version.model().to_owned(),
            model_version: found.version.number(),
            id,
            outputs,
            loose: Vec::new(),
            parameters: Parameters::new(),
        })
    }

    /// Returns what a sequence runs on, if that is anything else than what was found by name.
    #[must_use]
    pub fn elsewhere(&self, id: u64) -> Option<Arc<Loaded>> {
        let Found::Model(found) = &self.found else {
            return None;
        };
        let site = found.stateful.as_ref()?.holder(&found.version, id)?;
        (!Arc::ptr_eq(&site.loaded, &found.loaded)).then_some(site.loaded)
    }

    /// Returns whether sequences may run on anything else than what was found by name.
    #[must_use]
    pub fn is_one_of_several(&self) -> bool {
        let Found::Model(found) = &self.found else {
            return false;
        };
        found.stateful.as_ref().is_some_and(|stateful| {
            let versions = stateful.model.versions();
            let mut others = versions.iter().filter(|v| !Arc::ptr_eq(v, &found.version));
            found.version.sequences().has_replaced()
                || (stateful.is_shared(&found.version)
                    && others.any(|version| !version.sequences().is_empty()))
        })
    }
}

impl OfModel {
    async fn infer_in_sequence(
        &self,
        stateful: &Stateful,
        request_id: String,
        mut request: InferRequest,
        call: &RequestRecord,
    ) -> Result<InferResponse> {
        let (command, echo) = control::take(&mut request)?;
        let selection = Selection::take(&mut request)?;
        let mut site = self.site(stateful, command).await?;
        let mut validated = site.validate(&request).await?;
        if let Some(arrival) = &stateful.arrival {
            arrival.turn(self.version.model()).await;
        }
        let mut rounds = 0;
        let begun = loop {
            // What came before may have changed where the request belongs.
            let now = self.site(stateful, command).await?;
            if !Arc::ptr_eq(&now.loaded, &site.loaded) {
                validated = now.validate(&request).await?;
            }
            site = now;
            match stateful.begin(&site, command) {
                // The next look finds what has replaced it.
                Err(SequenceRefusal::Replaced) if rounds < MAX_ROUNDS => {
                    rounds += 1;
                    tokio::task::yield_now().await;
                }
                begun => break begun.map_err(stateful::explain)?,
            }
        };
        // Whoever comes next may enter now.
        if let Some(arrival) = &stateful.arrival {
            arrival.leave();
        }
        let ran = stateful::run(begun, validated, selection, call).await;
        if ran.is_err() {
            site.version.tend(&site.loaded);
        }
        let (outputs, id, ran) = ran?;
        call.answered(ran);
        Ok(InferResponse {
            model_name: site.version.model().to_owned(),
            model_version: site.version.number(),
            id: request_id,
            outputs,
            loose: Vec::new(),
            parameters: echo.parameter(id).into_iter().collect(),
        })
    }

    /// Finds where a request belongs at this moment: a sequence stays on the instance that it began
    /// on, and a new one begins on the latest.
    async fn site(&self, stateful: &Stateful, command: SequenceCommand) -> Result<Site> {
        if command.control.starts() {
            return stateful.newest(&self.version).await;
        }
        let known = stateful.holder(&self.version, command.id);
        Ok(known.unwrap_or_else(|| Site {
            version: Arc::clone(&self.version),
            loaded: Arc::clone(&self.loaded),
        }))
    }
}

impl Site {
    fn of(version: &Arc<Version>, loaded: Arc<Loaded>) -> Self {
        Self {
            version: Arc::clone(version),
            loaded,
        }
    }

    async fn validate(&self, request: &InferRequest) -> Result<(Vec<SlotInput>, Vec<usize>)> {
        self.loaded
            .validate(&self.loaded.info, request.clone())
            .await
    }
}

impl Stateful {
    /// Returns whether ids are unique over all versions, so that a request without a version finds
    /// its sequence in whichever has it.
    fn is_shared(&self, version: &Version) -> bool {
        !version.drain().is_zero()
    }

    /// Finds what a new sequence begins on.
    async fn newest(&self, found: &Arc<Version>) -> Result<Site> {
        if let Some(refusal) = self.engine.refuses_sequences() {
            return Err(refusal);
        }
        let version = if self.named {
            Arc::clone(found)
        } else {
            self.model
                .version(None)
                .unwrap_or_else(|_| Arc::clone(found))
        };
        let loaded = match version.loaded() {
            Err(error) if error.kind() == ErrorKind::NotLoaded => {
                self.engine.wait_loaded(&version, error).await
            }
            loaded => loaded,
        }?;
        if !loaded.is_stateful() {
            return Err(Error::new(
                ErrorKind::FailedPrecondition,
                "Model has no sequences any more - it was served anew without `stateful`",
            ));
        }
        Ok(Site::of(&version, loaded))
    }

    /// Finds what a sequence runs on.
    fn holder(&self, found: &Arc<Version>, id: u64) -> Option<Site> {
        let site = |version: &Arc<Version>| {
            let LoadedInstance(loaded) = version.sequences().instance(id)?;
            Some(Site::of(version, loaded))
        };
        let known = site(found);
        if known.is_some() || self.named || !self.is_shared(found) {
            return known;
        }
        self.model.versions().iter().rev().find_map(site)
    }

    /// Begins a sequence or finds it.
    fn begin(
        &self,
        site: &Site,
        command: SequenceCommand,
    ) -> Result<Begun<LoadedInstance, SequenceState>, SequenceRefusal> {
        let sequences = site.version.sequences();
        let instance = LoadedInstance(Arc::clone(&site.loaded));
        let bounds = site.loaded.bounds();
        if !command.control.starts() || !self.is_shared(&site.version) {
            return sequences.begin(command, &instance, bounds, &|_| None);
        }
        let _one_at_a_time = self.model.starting();
        let versions = self.model.versions();
        let taken = |id| {
            let others = versions.iter().filter(|v| !Arc::ptr_eq(v, &site.version));
            others.into_iter().find_map(|v| v.sequences().refusal(id))
        };
        sequences.begin(command, &instance, bounds, &taken)
    }
}
