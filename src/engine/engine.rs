//! Registry of everything that is served, with the state of the server around it.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::{
    course::{Course, shutting_down},
    in_flight::InFlight,
    registry::{Registry, not_found},
    reload_part::{ReloadPart, joined},
    servable::{Servable, ServableFacts},
    stream_messages::StreamPlace,
};
use crate::{
    custom_node,
    error::{Error, ErrorKind, Result},
    metrics::RequestRecord,
    model::{self, Loaded, Model, Version, keeper::Keeper},
    quota::ClientPlace,
    request::RequestOrigin,
    servable::ImageStep,
    shared_memory::SharedMemory,
};

/// Registry of servables, with their readiness.
#[derive(Debug)]
pub struct Engine {
    pub(super) registry: ArcSwap<Registry>,
    pub(super) ready: AtomicBool,
    pub(super) stopping: AtomicBool,
    /// Set once no more sequences may start.
    pub(super) draining: AtomicBool,
    pub(super) in_flight: Arc<InFlight>,
    /// Streams among the requests in flight.
    pub(super) open_streams: Arc<InFlight>,
    /// Work on sequences of a store, which goes on where its request is given up.
    pub(super) shared_work: Arc<InFlight>,
    pub(super) loading_wait: Duration,
    /// Permits for requests that wait for versions that are loading.
    pub(super) loading_places: Semaphore,
    /// Permits for open streams.
    pub(super) streams: Arc<Semaphore>,
    /// Permits for open streams of clients without an identity, where there are identities.
    streams_of_strangers: Arc<Semaphore>,
    /// Channel of requests for a reload, once something serves them.
    pub(super) reloads: OnceLock<mpsc::Sender<ReloadRequest>>,
    /// Certificates, which a reload reads as well.
    reload_part: OnceLock<Arc<dyn ReloadPart>>,
    /// Names that are configured, sorted; `None` until the first load begins.
    configured: watch::Sender<Option<Arc<[String]>>>,
    /// Reason why the configuration is not served as it stands, if it is not.
    config_failure: ArcSwapOption<ConfigFailure>,
    /// Permission of streams to go on.
    pub(super) course: watch::Sender<Course>,
    /// Time that a stop waits, if known.
    pub(super) stop_limit: OnceLock<Duration>,
    /// Keeps sequences in a store, if there is one.
    pub(super) keeper: OnceLock<Arc<Keeper>>,
    /// Maximum number of strings in an input of a request, if bounded.
    pub(super) max_strings: OnceLock<usize>,
    /// Regions that clients have registered, if they may.
    shared_memory: OnceLock<Arc<SharedMemory>>,
}

impl Engine {
    /// Makes an engine that serves nothing yet and is not ready. `loading_wait` is how long a
    /// request waits for a version that is loading, and `max_waiting` how many do.
    pub fn new(loading_wait: Duration, max_waiting: usize) -> Arc<Self> {
        Self::with_streams(loading_wait, max_waiting, Semaphore::MAX_PERMITS)
    }

    /// Makes an engine as [`Engine::new`], and says how many streams may be open.
    pub fn with_streams(
        loading_wait: Duration,
        max_waiting: usize,
        max_streams: usize,
    ) -> Arc<Self> {
        let max_streams = max_streams.min(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            streams: Arc::new(Semaphore::new(max_streams)),
            streams_of_strangers: Arc::new(Semaphore::new(max_streams.div_ceil(2))),
            registry: ArcSwap::default(),
            ready: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            in_flight: Arc::default(),
            open_streams: Arc::default(),
            shared_work: Arc::default(),
            loading_wait,
            loading_places: Semaphore::new(max_waiting.min(Semaphore::MAX_PERMITS)),
            reloads: OnceLock::new(),
            reload_part: OnceLock::new(),
            configured: watch::Sender::default(),
            config_failure: ArcSwapOption::empty(),
            course: watch::Sender::default(),
            stop_limit: OnceLock::new(),
            keeper: OnceLock::new(),
            max_strings: OnceLock::new(),
            shared_memory: OnceLock::new(),
        })
    }

    /// Sets the store of sequences; only the first call counts, and versions that exist already have none.
    pub fn keep_with(&self, keeper: Arc<Keeper>) {
        let _ = self.keeper.set(keeper);
    }

    /// Returns what keeps sequences in a store, if there is one.
    pub(super) fn keeper(&self) -> Option<&Arc<Keeper>> {
        self.keeper.get()
    }

    /// Returns all versions of all models.
    #[must_use]
    pub fn versions(&self) -> Vec<Arc<Version>> {
        let models = self.models().into_iter();
        models.flat_map(|model| model.versions()).collect()
    }

    /// Sets the maximum number of strings in an input of a request; only the first call counts.
    pub fn limit_strings(&self, most: usize) {
        let _ = self.max_strings.set(most);
    }

    /// Returns how many strings an input of a request may have.
    pub(super) fn max_strings(&self) -> usize {
        self.max_strings.get().copied().unwrap_or(usize::MAX)
    }

    /// Lets clients register shared memory; only the first word counts.
    pub fn share_memory(&self, memory: SharedMemory) {
        let _ = self.shared_memory.set(Arc::new(memory));
    }

    /// Returns the regions that clients have registered; `None` if shared memory is off.
    pub fn shared_memory(&self) -> Option<Arc<SharedMemory>> {
        self.shared_memory.get().cloned()
    }

    /// Puts another registry in the place of the present one. Requests in flight keep what they
    /// have found.
    pub fn replace(&self, registry: Registry) {
        self.registry.store(Arc::new(registry));
    }

    /// Marks the first load as ended.
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// Returns whether the first load is over and the server is not stopping.
    pub fn ready(&self) -> bool {
        self.ready.load(Ordering::Acquire) && !self.is_stopping()
    }

    /// Returns whether the server is about to end: it starts no more sequences, and may refuse requests.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire) || self.draining.load(Ordering::Acquire)
    }

    /// Refuses requests from now on; those in flight go on, and streams to the end of those that
    /// they have taken.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.course.send_replace(Course::Draining);
    }

    /// Starts no new sequences from the call on. What it returns waits until those that have time to
    /// end have ended, or their time is over.
    pub fn drain_sequences(&self) -> impl Future<Output = ()> {
        self.draining.store(true, Ordering::SeqCst);
        let waits = self.versions().into_iter();
        let waits = waits
            .filter(|version| version.drains_sequences() && !version.sequences().is_empty())
            .map(async |version| {
                let gone = version.sequences().wait_gone(|_| true);
                // What is left then goes with the server.
                drop(tokio::time::timeout(version.drain(), gone).await);
            });
        let all = futures::future::join_all(waits);
        async move { drop(all.await) }
    }

    /// Returns how many sequences have time to end before a stop.
    pub fn sequences_to_drain(&self) -> usize {
        self.versions()
            .into_iter()
            .filter(|version| version.drains_sequences())
            .map(|version| version.sequences().len())
            .sum()
    }

    /// Returns why no sequence can start, if so.
    pub(super) fn refuses_sequences(&self) -> Option<Error> {
        let draining = self.draining.load(Ordering::SeqCst);
        draining.then(shutting_down)
    }

    /// Waits until no request is in flight, and what has become of those that were given up is stored. No more may come.
    pub async fn idle(&self) {
        self.in_flight.idle().await;
        self.shared_work.idle().await;
    }

    /// Returns the number of requests in flight.
    pub fn requests_in_flight(&self) -> usize {
        let requests = self.in_flight.count.load(Ordering::Acquire);
        requests.max(self.shared_work.count.load(Ordering::Acquire))
    }

    /// Returns the number of requests that wait or run. Of streams those count that are on them, and not
    /// the streams, which may be idle.
    #[must_use]
    pub fn requests_pending(&self) -> usize {
        let streams = self.open_streams.count.load(Ordering::Acquire);
        // Counted one after the other, so that there may be fewer for a moment.
        self.requests_in_flight().saturating_sub(streams)
    }

    /// Returns the number of open streams.
    pub fn streams_open(&self) -> usize {
        self.open_streams.count.load(Ordering::Acquire)
    }

    /// Returns every model, sorted by name.
    pub fn models(&self) -> Vec<Arc<Model>> {
        let registry = self.registry.load();
        let models = registry.servables().filter_map(Servable::model);
        models.cloned().collect()
    }

    /// Returns everything that is served, sorted by name.
    pub fn servables(&self) -> Vec<Servable> {
        self.registry.load().servables().cloned().collect()
    }

    /// Returns a receiver of the names that are configured, sorted; `None` until the first load begins. What has
    /// been removed is no longer among them, and what cannot be loaded is.
    pub fn configured(&self) -> watch::Receiver<Option<Arc<[String]>>> {
        self.configured.subscribe()
    }

    /// Sets the names that are configured.
    pub(super) fn configure<'a>(&self, names: impl Iterator<Item = &'a String>) {
        let names: BTreeSet<&String> = names.collect();
        self.configured.send_if_modified(|known| {
            let is_same = known
                .as_ref()
                .is_some_and(|known| known.iter().eq(names.iter().copied()));
            if !is_same {
                *known = Some(names.into_iter().cloned().collect());
            }
            !is_same
        });
    }

    /// Returns whether a name is configured, as opposed to one that is known still since it was.
    pub fn is_configured(&self, name: &str) -> bool {
        let configured = self.configured.borrow();
        let is_among =
            |names: &Arc<[String]>| names.binary_search_by(|it| it.as_str().cmp(name)).is_ok();
        configured.as_ref().is_none_or(is_among)
    }

    /// Returns why the configuration is not served as it stands, if it is not.
    pub fn config_failure(&self) -> Option<Arc<ConfigFailure>> {
        self.config_failure.load_full()
    }

    /// Records why the configuration is not served as it stands, or that it is. The time is that of the first of the
    /// failures in a row.
    pub(super) fn set_config_failure(&self, reason: Option<String>) {
        let before = self.config_failure();
        let failure = |reason| ConfigFailure {
            since: before.map_or_else(SystemTime::now, |before| before.since),
            reason,
        };
        self.config_failure.store(reason.map(failure).map(Arc::new));
    }

    /// Returns how many names stand for something.
    pub fn count(&self) -> usize {
        self.registry.load().len()
    }

    /// Finds what a name stands for.
    ///
    /// # Errors
    ///
    /// Fails if there is nothing.
    pub fn servable(&self, name: &str) -> Result<Servable> {
        self.registry
            .load()
            .get(name)
            .cloned()
            .ok_or_else(not_found)
    }

    /// Returns what metadata say of a servable beyond its tensors: its [`labels`](Self::labels), and as `images` what the
    /// server does to images, so that clients leave it, of a pipeline what the models do that take its inputs; and as
    /// `dynamic_batching` or `sequence_batch` why a model has no batches, or smaller ones than its settings ask for.
    pub fn properties(&self, facts: &ServableFacts) -> Vec<(String, Arc<str>)> {
        let mut properties = self.labels(facts);
        let of_model = |loaded: &Loaded| loaded.spec.options.preprocessing.of_images();
        let images = match facts {
            ServableFacts::Model(loaded) => of_model(loaded),
            ServableFacts::Pipeline(definition) => {
                let mut all = definition.plan.models_at_entry().map(|(model, version)| {
                    let version = self.model(model).ok()?.version(version).ok()?;
                    let loaded = version.loaded().ok()?;
                    of_model(&loaded)
                });
                // What they do not have in common holds for none of the inputs alone.
                all.next()
                    .flatten()
                    .filter(|first| all.all(|other| other.as_ref() == Some(first)))
            }
            ServableFacts::Graph { .. } => None,
        };
        properties.extend(images.map(|steps| (ImageStep::PROPERTY.to_owned(), steps.into())));
        if let ServableFacts::Model(loaded) = facts
            && let Some(shortfall) = loaded.batching().and_then(|it| it.shortfall())
        {
            let setting = match loaded.is_stateful() {
                true => "sequence_batch",
                false => "dynamic_batching",
            };
            properties.push((setting.to_owned(), shortfall.into()));
        }
        properties
    }

    /// Returns the names of the scores of a model, one per line, or of the models that the outputs of a pipeline come from, as
    /// they are loaded now: as `labels`, and as `labels.OUTPUT` where outputs have different ones, or none.
    pub fn labels(&self, facts: &ServableFacts) -> Vec<(String, Arc<str>)> {
        let plan = match facts {
            ServableFacts::Model(loaded) => {
                let labels = loaded.labels.iter();
                return labels
                    .map(|it| ("labels".to_owned(), Arc::clone(it)))
                    .collect();
            }
            ServableFacts::Pipeline(definition) => &definition.plan,
            ServableFacts::Graph { .. } => return Vec::new(),
        };
        let labels = |(output, model, version)| {
            let version = self.model(model).ok()?.version(version).ok()?;
            Some((output, version.loaded().ok()?.labels.clone()?))
        };
        let found: Vec<(&str, Arc<str>)> = plan.outputs_of_models().filter_map(labels).collect();
        // Those of one output are not for another that has none.
        let has_all = found.len() == plan.info.outputs.len();
        if let Some((_, first)) = found.first()
            && has_all
            && found.iter().all(|(_, labels)| labels == first)
        {
            return vec![("labels".to_owned(), Arc::clone(first))];
        }
        let found = found.into_iter();
        found
            .map(|(output, labels)| (format!("labels.{output}"), labels))
            .collect()
    }

    /// Lets go of all pipelines and graphs, and waits for the end of all custom nodes and of all that
    /// graphs have loaded, also of those that earlier definitions have left behind. Nothing must be
    /// reloaded any more.
    pub async fn close(&self) {
        /// Rare enough to cost nothing, often enough that a stop is not held up.
        const LOOK: Duration = Duration::from_millis(10);
        let closing = self.servables().into_iter().map(|servable| async move {
            match servable {
                Servable::Model(_) => {}
                Servable::Pipeline(pipeline) => pipeline.close().await,
                Servable::Graph(graph) => graph.close().await,
            }
        });
        futures::future::join_all(closing).await;
        while custom_node::alive() > 0 || model::draining() > 0 {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Reads configuration and version folders again and brings what is served up to date.
    ///
    /// # Errors
    ///
    /// Fails with the text and code that clients of `POST /v1/config/reload` know; what can be
    /// brought up to date is, all the same.
    pub async fn reload(&self) -> Result<Reload> {
        self.reload_after(Ok(())).await
    }

    /// Reloads after another part of the reload, which counts as failed if either has, and whose error
    /// is in the answer.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::reload`], and if the other part has.
    pub async fn reload_after(&self, before: Result<()>) -> Result<Reload> {
        let busy = || {
            Error::new(
                ErrorKind::Overloaded,
                "Server is starting, stopping, or busy with other reloads; try again later",
            )
        };
        let (reply, answer) = oneshot::channel();
        let reloads = self.reloads.get().ok_or_else(busy)?;
        let before = match self.reload_part.get() {
            Some(part) => joined(before, Arc::clone(part).reload().await),
            None => before,
        };
        let is_well = before.is_ok();
        let request = ReloadRequest { reply, is_well };
        reloads.try_send(request).map_err(|_| busy())?;
        let answer = answer.await.map_err(|_| busy())?;
        match (answer, before) {
            (Err(error), Err(before)) => {
                let text = format!("{}; {}", error.message(), before.message());
                Err(Error::new(error.kind(), text))
            }
            (answer, before) => before.and(answer),
        }
    }

    /// Adds a part to each reload; only the first counts.
    pub fn reload_with(&self, part: Arc<dyn ReloadPart>) {
        let _ = self.reload_part.set(part);
    }

    /// Opens the way for wishes for a reload; at most so many wait.
    pub fn accept_reloads(&self, max_waiting: usize) -> mpsc::Receiver<ReloadRequest> {
        let (sender, receiver) = mpsc::channel(max_waiting);
        // Only the first counts; there is one server to an engine.
        let _ = self.reloads.set(sender);
        receiver
    }

    /// Finds a model by name.
    ///
    /// # Errors
    ///
    /// Fails if there is none.
    pub fn model(&self, name: &str) -> Result<Arc<Model>> {
        let registry = self.registry.load();
        let model = registry.get(name).and_then(Servable::model);
        model.cloned().ok_or_else(not_found)
    }

    /// Takes one of the places of streams, also of those of its client, if that is counted. Strangers, who have no
    /// identity where there are some, have half of the places at most.
    ///
    /// # Errors
    ///
    /// Fails if as many as allowed are open.
    pub fn stream_place(
        &self,
        is_stranger: bool,
        of_client: Option<ClientPlace>,
    ) -> Result<StreamPlace> {
        let take = |places: &Arc<Semaphore>| {
            Arc::clone(places).try_acquire_owned().map_err(|_| {
                Error::new(
                    ErrorKind::Overloaded,
                    "Server is overloaded - there are as many streams open as --max-streams allows; \
                     try again later",
                )
            })
        };
        let of_strangers = is_stranger.then(|| take(&self.streams_of_strangers));
        Ok(StreamPlace {
            _of_strangers: of_strangers.transpose()?,
            _place: take(&self.streams)?,
            _of_client: of_client,
        })
    }

    /// Counts a request that was refused before its target was looked up, as a failed one of
    /// `origin`; one for an unknown name or version is not counted.
    pub fn refused(&self, name: &str, version: Option<i64>, origin: RequestOrigin) {
        if let Ok(part) = self.servable(name).and_then(|found| found.part(version)) {
            drop(RequestRecord::new(part.reporter(), origin));
        }
    }
}

/// Outcome of a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reload {
    /// Part of what is served has been replaced.
    Changed,
    /// The configuration and files are as before.
    Unchanged,
}

/// Reason why the configuration is not served as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFailure {
    /// Time of the first of the passes that have failed in a row.
    pub(super) since: SystemTime,
    /// Errors with their places, in one line.
    pub reason: String,
}

impl ConfigFailure {
    /// Writes the time of the first of the passes that have failed in a row, in RFC 3339 and to the second.
    #[must_use]
    pub fn since(&self) -> String {
        let since = prost_types::Timestamp {
            nanos: 0,
            ..self.since.into()
        };
        since.to_string()
    }
}

/// Request for a reload.
pub struct ReloadRequest {
    /// Channel of the reply.
    pub(super) reply: oneshot::Sender<Result<Reload>>,
    /// Indicates that the parts reloaded before have not failed.
    pub(super) is_well: bool,
}
