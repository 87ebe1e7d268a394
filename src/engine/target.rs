//! Target of a request: a servable that stays alive until the request is done.

use std::{sync::Arc, time::Instant};

use super::{
    engine::Engine, idempotency, in_flight::RequestInFlight, of_graph::OfGraph,
    of_pipeline::OfPipeline, regions,
};
use crate::{
    error::{Error, ErrorKind, Result},
    metrics::RequestRecord,
    model::{
        Loaded, Model, Version,
        keeper::SettleReason,
        stateful::{self, LiveState, Selection},
        stateful_run,
    },
    openvino::Work,
    pipeline::Trace,
    quota::{ClientPlace, CountedClient, RequestOwner},
    request::{InferRequest, InferResponse, InputTensor, priority_of},
    sequence::{Arrival, Begun, SequenceCommand, SequenceRefusal, control},
    servable::ServableInfo,
    task,
    trace::{TraceContext, TraceSpan},
};

/// Maximum number of look-ups for a replacement of the instance that a start has found. A reload replaces it
/// once, and its steps are microseconds apart.
const MAX_ROUNDS: u32 = 1000;

/// A servable found for one request.
pub struct Target {
    found: Found,
    /// Counts the request as failed, unless it is answered.
    call: RequestRecord,
    /// Maximum number of strings in an input.
    max_strings: usize,
    /// `None` for anyone; in a box, so that most requests do not carry room for it.
    owner: Option<Box<RequestOwner>>,
    /// The request counts as in flight for as long as it has its target.
    _place: RequestInFlight,
}

pub(super) enum Found {
    Model(OfModel),
    Pipeline(Box<OfPipeline>),
    Graph(Box<OfGraph>),
}

/// A version of a model found for a request.
pub(super) struct OfModel {
    pub(super) site: Site,
    /// Additional data of a request to a stateful model.
    pub(super) stateful: Option<Box<Stateful>>,
}

/// Context of the version of a stateful model.
pub(super) struct Stateful {
    pub(super) engine: Arc<Engine>,
    pub(super) model: Arc<Model>,
    /// Marks a request that names its version.
    pub(super) named: bool,
    /// The place of the request on its connection.
    pub(super) arrival: Option<Arc<Arrival>>,
    /// Idempotency key, if the transport has one.
    pub(super) key: Option<String>,
}

/// Version of a model that a request is for, with its instance.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) version: Arc<Version>,
    pub(super) loaded: Arc<Loaded>,
}

impl Target {
    pub(super) fn new(found: Found, call: RequestRecord, place: RequestInFlight) -> Self {
        Self {
            found,
            call,
            max_strings: usize::MAX,
            owner: None,
            _place: place,
        }
    }

    /// Makes it the target of a node, whose time is none of requests.
    pub(super) fn of_node(mut self) -> Self {
        self.call = self.call.of_node();
        self
    }

    /// Sets the maximum number of strings in an input.
    pub(super) fn bounded(mut self, max_strings: usize) -> Self {
        self.max_strings = max_strings;
        self
    }

    /// Sets the sender of the request.
    #[must_use]
    pub fn sent_by(mut self, owner: &RequestOwner) -> Self {
        self.owner = (!owner.is_anyone()).then(|| Box::new(owner.clone()));
        self
    }

    /// Returns the client that a sequence counts for, if it counts for any.
    fn client(&self) -> Option<&Arc<CountedClient>> {
        self.owner.as_ref()?.client.as_ref()
    }

    /// Sets the time at which the request was received, for a frontend that had work with it before it asked
    /// for its target. Without this it began with the look-up.
    #[must_use]
    pub fn since(mut self, received: Instant) -> Self {
        self.call.begun(received);
        self
    }

    /// Sets the place of the request among those of its connection, which counts if it is one
    /// of a sequence.
    #[must_use]
    pub fn arrived(mut self, arrival: Arc<Arrival>) -> Self {
        match &mut self.found {
            Found::Model(OfModel {
                site,
                stateful: Some(stateful),
            }) => {
                arrival.concerns(site.version.shared_name());
                stateful.arrival = Some(arrival);
            }
            _ => arrival.leave(),
        }
        self
    }

    /// Gives it the idempotency key that came beside the request, which counts if it is one of a sequence.
    ///
    /// # Errors
    ///
    /// Fails if it is empty or too long.
    pub fn keyed(mut self, key: Option<&str>) -> Result<Self> {
        if let (Some(key), Found::Model(found)) = (key, &mut self.found)
            && let Some(stateful) = &mut found.stateful
        {
            stateful.key = Some(idempotency::check_key(key)?);
        }
        Ok(self)
    }

    /// Leaves the count of the answer to [`Self::written`], for a frontend that may find no form for it.
    #[must_use]
    pub fn unwritten(self) -> Self {
        self.call.writes_answer();
        self
    }

    /// Counts the answer, which the frontend has written.
    pub fn written(&self) {
        self.call.written();
    }

    /// Keeps a trace of the runs of the nodes, if it is a pipeline.
    #[must_use]
    pub fn traced(mut self, trace: Arc<Trace>) -> Self {
        if let Found::Pipeline(found) = &mut self.found {
            found.trace = Some(trace);
        }
        self
    }

    /// Returns inputs and outputs.
    #[must_use]
    pub fn info(&self) -> &ServableInfo {
        match &self.found {
            Found::Model(found) => &found.site.loaded.info,
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
        let asked = request.priority;
        let asked = asked.or_else(|| priority_of(&request.parameters));
        // That of a node is the owner of what it is a node of.
        if let Some(owner) = request.owner.take() {
            self.call.own(*owner);
        } else if self.owner.is_some() || asked.is_some() {
            let anyone = RequestOwner::default();
            let owner = self.owner.as_deref().unwrap_or(&anyone);
            self.call.own(owner.of_runs(asked));
        }
        if let Some(trace) = request.trace.take() {
            self.call.trace(trace);
        }
        let regions = request.regions.take();
        if let Some(regions) = &regions {
            // Numbers for a model go from the region into the runtime's tensor.
            let is_plain = matches!(&self.found, Found::Model(found) if found.stateful.is_none());
            let is_read_later = |input: &InputTensor| is_plain && input.is_of_numbers();
            let read = regions::read_inputs(regions, &mut request, is_read_later);
            let read = Box::pin(read).await;
            read.inspect_err(|error| self.call.failed(error))?;
            self.call.writes_answer();
        }
        request.bound_strings(self.max_strings)?;
        let texts = request.texts.clone();
        let id = std::mem::take(&mut request.id);
        let call = &self.call;
        // In boxes, so that a request to a plain model does not carry room for the others.
        let answer = match &self.found {
            Found::Model(found) => match &found.stateful {
                None => found.site.infer(id, request, call).await,
                Some(stateful) => {
                    Box::pin(found.infer_in_sequence((stateful, self.client()), id, request, call))
                        .await
                }
            },
            Found::Pipeline(found) => Box::pin(found.infer(id, request, call)).await,
            Found::Graph(found) => {
                // Handlers may take any time.
                task::in_own_task().await;
                Box::pin(found.infer(id, request, call)).await
            }
        };
        let mut answer = answer.inspect_err(|error| call.failed(error))?;
        answer.texts = texts;
        let Some(regions) = regions else {
            return Ok(answer);
        };
        let written = Box::pin(regions::write_outputs(regions, answer)).await;
        let written = written.inspect_err(|error| call.failed(error));
        written.inspect(|_| call.written())
    }

    /// Returns what a sequence runs on, if that is anything else than what was found by name.
    #[must_use]
    pub fn elsewhere(&self, id: u64) -> Option<Arc<Loaded>> {
        let Found::Model(found) = &self.found else {
            return None;
        };
        let site = found.stateful.as_ref()?.holder(&found.site, id)?;
        (!Arc::ptr_eq(&site.loaded, &found.site.loaded)).then_some(site.loaded)
    }

    /// Returns whether sequences may run on anything else than what was found by name.
    #[must_use]
    pub fn is_one_of_several(&self) -> bool {
        let Found::Model(found) = &self.found else {
            return false;
        };
        let Site { version, .. } = &found.site;
        found.stateful.as_ref().is_some_and(|stateful| {
            let versions = stateful.model.versions();
            let mut others = versions.iter().filter(|v| !Arc::ptr_eq(v, version));
            version.sequences().has_replaced()
                || (stateful.is_shared(version) && others.any(|it| !it.sequences().is_empty()))
        })
    }
}

impl OfModel {
    async fn infer_in_sequence(
        &self,
        (stateful, client): (&Stateful, Option<&Arc<CountedClient>>),
        request_id: String,
        mut request: InferRequest,
        call: &RequestRecord,
    ) -> Result<InferResponse> {
        let key = idempotency::take_key(&mut request)?.or_else(|| stateful.key.clone());
        let (command, echo) = control::take(&mut request)?;
        let mut span = call.traced().map(|trace| step_span(trace, command));
        // What the step does is below it.
        let of_step = span.as_ref().map(|span| call.twin_under(span.context()));
        let of_step = of_step.as_ref().unwrap_or(call);
        let selection = Selection::take(&mut request)?;
        // Copies of the request, to validate it, need not have them.
        request.parameters = Vec::new();
        if let Some(arrival) = &stateful.arrival {
            arrival.is_of(command.id);
        }
        let mut site = self.site(stateful, command).await?;
        let mut validated = site.validate(&request, call).await?;
        if let Some(arrival) = &stateful.arrival {
            let model = self.site.version.model();
            arrival.turn(model, command.id).await;
        }
        if let Some(keeper) = site.keeper() {
            let step = (command, key, validated);
            let ran = self.infer_shared(
                (stateful, client),
                keeper,
                &request,
                step,
                selection,
                of_step,
            );
            let (version, (outputs, id, ran)) = Box::pin(ran).await?;
            name_step(&mut span, id);
            call.answered(ran);
            return Ok(InferResponse {
                model_name: version.model().to_owned(),
                model_version: version.number(),
                id: request_id,
                outputs,
                parameters: echo.parameter(id).into_iter().collect(),
                ..InferResponse::default()
            });
        }
        let place = place(client, command)?;
        let mut rounds = 0;
        let begun = loop {
            // What came before may have changed where the request belongs.
            let now = self.site(stateful, command).await?;
            if !Arc::ptr_eq(&now.loaded, &site.loaded) {
                validated = now.validate(&request, call).await?;
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
        let request = (validated, selection, place);
        let (outputs, id, ran) = stateful_run::run(&site.version, begun, request, of_step).await?;
        name_step(&mut span, id);
        call.answered(ran);
        Ok(InferResponse {
            model_name: site.version.model().to_owned(),
            model_version: site.version.number(),
            id: request_id,
            outputs,
            parameters: echo.parameter(id).into_iter().collect(),
            ..InferResponse::default()
        })
    }

    /// Finds where a request belongs at this moment: a sequence stays on the instance that it began
    /// on, and a new one begins on the latest.
    pub(super) async fn site(&self, stateful: &Stateful, command: SequenceCommand) -> Result<Site> {
        if command.control.starts() {
            return stateful.newest(&self.site.version).await;
        }
        if let Some(known) = stateful.holder(&self.site, command.id) {
            let latest = known.version.loaded();
            let (Some(keeper), Ok(latest)) = (known.keeper(), latest) else {
                return Ok(known);
            };
            if latest == known.loaded {
                return Ok(known);
            }
            // By way of the store it goes on with what has taken the place, whether its client still waits or not.
            let Site { version, loaded } = known;
            let (id, moved) = (command.id, Arc::clone(&version));
            let moves = async move {
                keeper
                    .settle(id, &loaded, &moved, SettleReason::Leave)
                    .await
            };
            task::to_its_end(moves).await?;
            let loaded = latest;
            return Ok(Site { version, loaded });
        }
        // Another server may have it; it goes on with what is loaded now.
        let version = &self.site.version;
        let latest = version.keeper().and_then(|_| version.loaded().ok());
        Ok(match latest {
            Some(loaded) => Site {
                version: Arc::clone(version),
                loaded,
            },
            None => self.site.clone(),
        })
    }
}

/// Counts a sequence that begins for the client of its first request.
///
/// # Errors
///
/// Fails if that has as many as it may.
pub(super) fn place(
    client: Option<&Arc<CountedClient>>,
    command: SequenceCommand,
) -> Result<Option<ClientPlace>> {
    let client = client.filter(|_| command.control.starts());
    client.map(CountedClient::sequence).transpose()
}

/// Begins the span of a step.
fn step_span(trace: &TraceContext, command: SequenceCommand) -> TraceSpan {
    let mut span = trace.span("sequence step");
    span.set("ovms.sequence.starts", command.control.starts());
    span.set("ovms.sequence.ends", command.control.ends());
    span
}

/// Adds the id of a step's sequence, which the server may have chosen, to its span.
fn name_step(span: &mut Option<TraceSpan>, id: u64) {
    if let Some(span) = span {
        // Ids use all 64 bits, and numbers of attributes have a sign.
        span.set("ovms.sequence.id", id.to_string());
    }
}

impl Site {
    async fn infer(
        &self,
        id: String,
        request: InferRequest,
        call: &RequestRecord,
    ) -> Result<InferResponse> {
        let Self { version, loaded } = self;
        let (outputs, ran) = version.infer(loaded, request, call).await?;
        call.answered(ran);
        Ok(InferResponse {
            model_name: version.model().to_owned(),
            model_version: version.number(),
            id,
            outputs,
            ..InferResponse::default()
        })
    }

    pub(super) async fn validate(
        &self,
        request: &InferRequest,
        call: &RequestRecord,
    ) -> Result<Work> {
        let loaded = &self.loaded;
        let request = request.clone();
        loaded.decoding.validate(&loaded.info, request, call).await
    }
}

impl Stateful {
    /// Returns whether ids are unique over all versions, so that a request without a version finds
    /// its sequence in whichever has it.
    fn is_shared(&self, version: &Version) -> bool {
        !version.drain().is_zero()
    }

    /// Finds what a new sequence begins on.
    pub(super) async fn newest(&self, found: &Arc<Version>) -> Result<Site> {
        if let Some(refusal) = self.engine.refuses_sequences() {
            return Err(refusal);
        }
        let latest = match self.named {
            true => None,
            false => self.model.version(None).ok(),
        };
        let version = latest.unwrap_or_else(|| Arc::clone(found));
        let loaded = match version.loaded() {
            Err(error) if error.kind() == ErrorKind::NotLoaded => {
                self.engine.wait_loaded(&version, error).await
            }
            loaded => loaded,
        }?;
        if !loaded.is_stateful() {
            return Err(Error::new(
                ErrorKind::FailedPrecondition,
                "Model is no longer stateful - it was reloaded without `stateful`",
            ));
        }
        Ok(Site { version, loaded })
    }

    /// Finds what a sequence runs on.
    pub(super) fn holder(&self, found: &Site, id: u64) -> Option<Site> {
        let site = |version: &Arc<Version>| {
            let loaded = version.sequences().instance(id)?;
            let version = Arc::clone(version);
            Some(Site { version, loaded })
        };
        let known = site(&found.version);
        if known.is_some() || self.named || !self.is_shared(&found.version) {
            return known;
        }
        self.model.versions().iter().rev().find_map(site)
    }

    /// Begins a sequence or finds it.
    pub(super) fn begin(
        &self,
        site: &Site,
        command: SequenceCommand,
    ) -> Result<Begun<Arc<Loaded>, LiveState>, SequenceRefusal> {
        let sequences = site.version.sequences();
        let instance = &site.loaded;
        let bounds = site.loaded.bounds();
        if !command.control.starts() || !self.is_shared(&site.version) {
            return sequences.begin(command, instance, bounds, &|_| None);
        }
        let _one_at_a_time = self.model.starting();
        let versions = self.model.versions();
        let taken = |id| {
            let others = versions.iter().filter(|v| !Arc::ptr_eq(v, &site.version));
            others.into_iter().find_map(|v| v.sequences().refusal(id))
        };
        sequences.begin(command, instance, bounds, &taken)
    }
}
