//! The figures of one version of a model.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, LazyLock, OnceLock,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime},
};

use parking_lot::Mutex;

use super::{
    batches::{BatchCounts, BatchRun},
    cells::{self, Cells, ORIGINS, place},
    exemplars::Exemplars,
    families::{Families, Family},
    graphs::GraphCounts,
    health::{self, ServableHealth},
    latency::LatencyHistogram,
    parts::{NodeTimes, SequenceCounts, WorkerCounts},
    statistics::{Executions, Figures, Stage, Statistics},
};
use crate::{
    budget::Budget,
    error::Error,
    quota::{Priority, RunOwner},
    request::RequestOrigin,
    trace::TraceContext,
};

/// Counts what happens to one version of a model.
///
/// Counting goes on whether figures are shown or not, since statistics calls answer with them,
/// too; what only a page shows is left out when no page has it.
#[derive(Debug, Default)]
pub struct Reporter {
    families: Families,
    /// Counters of all versions of the model together.
    pub(super) model: Arc<ModelCounts>,
    /// Indicates that there is something to show.
    known: AtomicBool,
    streams: AtomicU32,
    slots: AtomicUsize,
    stuck: AtomicUsize,
    pub(super) cells: Cells,
    pub(super) metadata: [Outcomes; ORIGINS],
    sequences: SequenceCounts,
    /// Marks the reporter of a pipeline, which has no runs of its own.
    pipeline: AtomicBool,
    /// Counters that only graphs have.
    graph: OnceLock<Box<GraphCounts>>,
    /// Counters that only graphs and pipelines with Python nodes have.
    pub(super) workers: OnceLock<Arc<WorkerCounts>>,
    /// The last requests, if one has failed within.
    recent: health::Recent,
    /// Batches of requests.
    pub(super) batches: BatchCounts,
    /// Requests that stand for others of their size, if any are traced.
    pub(super) exemplars: OnceLock<Box<Exemplars>>,
    /// The nodes of a pipeline or graph, by name.
    pub(super) nodes: Mutex<BTreeMap<String, Arc<NodeTimes>>>,
}

/// Inferences of a version that do not end, beyond which another compiled model would only be the next to
/// get stuck: each of them keeps a core busy.
pub(crate) const MAX_STUCK: usize = 8;

/// Counters of all versions of a servable together.
#[derive(Debug, Default)]
pub(super) struct ModelCounts {
    /// Calls that ask for no version in particular, by origin.
    pub(super) state: [Outcomes; ORIGINS],
    /// Loads.
    pub(super) loads: Outcomes,
}

/// Calls, or loads, by how they went.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    success: AtomicU64,
    pub(super) fail: AtomicU64,
}

impl Outcomes {
    /// Returns the count of those that went well, or of the others.
    pub(super) fn of(&self, well: bool) -> &AtomicU64 {
        if well { &self.success } else { &self.fail }
    }

    /// Counts one.
    pub(super) fn count(&self, well: bool) {
        self.of(well).fetch_add(1, Relaxed);
    }
}

/// Calls about a model other than an inference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Query {
    /// Inputs and outputs: `GetModelMetadata`, `ModelMetadata`.
    Metadata,
    /// State: `GetModelStatus`, `ModelReady`. A good answer may be that it is not ready.
    State,
}

impl Reporter {
    pub(super) fn new(families: Families, model: Arc<ModelCounts>) -> Self {
        Self {
            families,
            model,
            ..Self::default()
        }
    }

    /// Counts a load of the servable, by how it went.
    pub fn count_load(&self, well: bool) {
        self.model.loads.count(well);
    }

    /// Records that the version is loaded: its execution streams and infer requests.
    pub fn loaded(&self, streams: u32, slots: usize) {
        self.streams.store(streams, Relaxed);
        self.slots.store(slots, Relaxed);
        self.known.store(true, Relaxed);
    }

    /// Notes that a request has failed for a reason within the server.
    pub(crate) fn broke(&self, text: &str) {
        self.recent.failed(text, self.answers());
    }

    /// Forgets requests that failed, since what runs is another one from now on.
    pub(crate) fn renewed(&self) {
        self.recent.forget();
    }

    /// Returns what the last requests say.
    pub fn health(&self) -> ServableHealth {
        self.recent.health(self.answers())
    }

    /// Returns how many requests have been answered, over streams as well.
    fn answers(&self) -> u64 {
        let streamed = self.of_graph().map_or(0, |graph| graph.streamed().0);
        self.of_origins(|shard, origin| &shard.success[origin]) + streamed
    }

    /// Adds up a count of all origins.
    fn of_origins(&self, count: fn(&cells::Shard, usize) -> &AtomicU64) -> u64 {
        let sum = |origin| self.cells.sum(|shard| count(shard, origin));
        (0..ORIGINS).map(sum).sum()
    }

    /// Records that it is a pipeline, which counts requests and the runs of its nodes.
    pub fn serves_pipeline(&self) {
        self.pipeline.store(true, Relaxed);
        self.known.store(true, Relaxed);
    }

    /// Records that it is a graph, which counts what only graphs do.
    pub fn serves_graph(&self) {
        self.graph();
        self.known.store(true, Relaxed);
    }

    /// Returns what only graphs count.
    pub(super) fn graph(&self) -> &GraphCounts {
        self.graph.get_or_init(Box::default)
    }

    /// Returns what only graphs count, if it is one.
    pub(super) fn of_graph(&self) -> Option<&GraphCounts> {
        self.graph.get().map(Box::as_ref)
    }

    /// Returns whether a family is shown.
    pub(super) fn shows(&self, family: Family) -> bool {
        self.families.has(family)
    }

    /// Returns the figures of a node of a pipeline or graph; the same ones each time it is asked.
    pub fn node(&self, name: &str) -> Arc<NodeTimes> {
        let mut nodes = self.nodes.lock();
        let node = nodes
            .entry(name.to_owned())
            .or_insert_with(|| Arc::new(NodeTimes::new(self.families.has(Family::NodeTime))));
        Arc::clone(node)
    }

    /// Returns the figures of a node, if there is one of that name.
    pub fn node_times(&self, name: &str) -> Option<Arc<NodeTimes>> {
        self.nodes.lock().get(name).cloned()
    }

    /// Returns how many runs of a graph are in progress, streams among them.
    pub fn graph_runs(&self) -> usize {
        let running = self.of_graph().map_or(0, GraphCounts::in_progress);
        usize::try_from(running).unwrap_or(0)
    }

    /// Records that the version is unloaded. Counts stay.
    pub fn unloaded(&self) {
        self.streams.store(0, Relaxed);
        self.slots.store(0, Relaxed);
    }

    /// Returns the counts of sequences.
    pub fn sequences(&self) -> &SequenceCounts {
        &self.sequences
    }

    /// Returns the counts of Python workers, which are shown from the first time on that they are asked for.
    pub fn workers(&self) -> Arc<WorkerCounts> {
        Arc::clone(self.workers.get_or_init(Arc::default))
    }

    /// Counts a call that is no inference and has found its version.
    pub fn queried<T, E>(&self, origin: RequestOrigin, query: Query, answer: &Result<T, E>) {
        self.known.store(true, Relaxed);
        let outcomes = match query {
            Query::Metadata => &self.metadata[place(origin)],
            Query::State => &self.model.state[place(origin)],
        };
        outcomes.of(answer.is_ok()).fetch_add(1, Relaxed);
    }

    /// Returns counts and times so far.
    pub fn statistics(&self) -> Statistics {
        let cells = &self.cells;
        let sum = |[alone, others]: [u64; 2]| alone + others;
        let runs = sum(cells.sums(|it| &it.runs));
        let stage = |ns| Stage { count: runs, ns };
        // A stream is one request.
        let streams = |well: bool| {
            let graph = self.of_graph();
            graph.map_or_else(Stage::default, |graph| Stage {
                count: graph.ended(well),
                ns: graph.stream_ns.of(well).load(Relaxed),
            })
        };
        let (streamed, broken) = (streams(true), streams(false));
        Statistics {
            success: Stage {
                count: self.of_origins(|shard, origin| &shard.success[origin]) + streamed.count,
                ns: self.of_origins(|shard, origin| &shard.success_ns[origin])
                    + cells.sum(|shard| &shard.nodes_ns)
                    + streamed.ns,
            },
            fail: Stage {
                count: self.of_origins(|shard, origin| &shard.fail[origin]) + broken.count,
                ns: cells.sum(|shard| &shard.fail_ns) + broken.ns,
            },
            wait: stage(cells.sum(|shard| &shard.wait_ns)),
            prepare: stage(sum(cells.sums(|it| &it.prepare_ns))),
            run: stage(sum(cells.sums(|it| &it.run_ns))),
            finish: stage(sum(cells.sums(|it| &it.finish_ns))),
            rows: self.of_origins(|shard, origin| &shard.success[origin])
                + cells.sum(|shard| &shard.more_rows)
                + streamed.count,
            last_ms: cells.max(|shard| &shard.last_ms),
        }
    }

    /// Returns the executions so far, by the size of their batches. Requests that ran in one are one
    /// execution.
    pub fn executions(&self) -> Vec<Executions> {
        let [count, _] = self.cells.sums(|it| &it.runs);
        let stage = |[ns, _]: [u64; 2]| Stage { count, ns };
        let alone = Executions {
            rows: 1,
            all_rows: count,
            prepare: stage(self.cells.sums(|it| &it.prepare_ns)),
            run: stage(self.cells.sums(|it| &it.run_ns)),
            finish: stage(self.cells.sums(|it| &it.finish_ns)),
        };
        self.batches.executions(alone)
    }

    /// Records that requests of the version may run in batches.
    pub fn has_batches(&self) {
        self.batches.show();
    }

    /// Counts a batch that the runtime ran; its requests count by [`Reporter::ran`] as well.
    pub(crate) fn ran_batch(&self, batch: &BatchRun) {
        self.batches.ran(batch);
    }

    /// Returns what those count who wait for answers. Times of all requests are there only if
    /// [`Family::RequestTime`] is counted.
    pub fn figures(&self) -> Figures {
        let cells = &self.cells;
        let answers = self.of_origins(|shard, origin| &shard.success[origin]);
        let mut latency = LatencyHistogram::default();
        for side in 0..2 {
            latency.add(&LatencyHistogram(
                cells.buckets(|shard| &shard.request[side]),
            ));
        }
        let requests = latency.count();
        let (streamed, broken) = self.of_graph().map_or((0, 0), GraphCounts::streamed);
        Figures {
            requests,
            streamed,
            failed: self.of_origins(|shard, origin| &shard.fail[origin]) + broken,
            // Counted one after the other, so that there may be fewer for a moment.
            runs: answers.saturating_sub(requests),
            ns: self.of_origins(|shard, origin| &shard.success_ns[origin]),
            latency,
        }
    }

    pub(super) fn is_model(&self) -> bool {
        !self.pipeline.load(Relaxed) && self.of_graph().is_none()
    }

    pub(super) fn is_known(&self) -> bool {
        self.known.load(Relaxed)
    }

    pub(super) fn streams(&self) -> u64 {
        u64::from(self.streams.load(Relaxed))
    }

    pub(super) fn slots(&self) -> u64 {
        self.slots.load(Relaxed) as u64
    }

    /// Counts a run that the runtime did.
    pub(crate) fn ran(&self, times: &Times) {
        let shard = self.cells.own();
        let stages = shard.stages(times.rows, times.batch);
        stages.runs.fetch_add(1, Relaxed);
        cells::add(&stages.prepare_ns, times.prepared);
        cells::add(&shard.wait_ns, times.waited);
        let took = times.ended.saturating_duration_since(times.started);
        cells::add(&stages.run_ns, took);
        if times.batch == 0 && times.rows > 1 {
            self.batches.ran(&BatchRun {
                rows: times.rows,
                prepared: times.prepared,
                took,
            });
        }
        let ended = milliseconds(times.ended);
        if shard.last_ms.load(Relaxed) < ended {
            shard.last_ms.store(ended, Relaxed);
        }
        if self.families.has(Family::InferenceTime) {
            shard.run.observe(took);
        }
        if self.families.has(Family::WaitTime) {
            shard.wait.observe(times.waited);
        }
    }

    /// Counts an inference as beyond its time limit, until the return value is dropped.
    pub(crate) fn stuck(self: &Arc<Self>) -> Stuck {
        self.stuck.fetch_add(1, Relaxed);
        Stuck(Arc::clone(self))
    }

    /// Returns how many inferences go on beyond their time limit.
    pub fn inferences_stuck(&self) -> usize {
        self.stuck.load(Relaxed)
    }

    /// Returns true if so many inferences do not end that the compiled model is not replaced any more.
    pub fn is_stuck(&self) -> bool {
        self.inferences_stuck() >= MAX_STUCK
    }

    /// Counts an infer request as in use until the return value is dropped.
    pub(crate) fn active(self: &Arc<Self>) -> Active {
        let counted = self.families.has(Family::Active);
        Active(counted.then(|| {
            self.cells.own().active.fetch_add(1, Relaxed);
            Arc::clone(self)
        }))
    }
}

/// The times of one run.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Time from the look-up to the wait for an infer request.
    pub prepared: Duration,
    /// The wait for an infer request.
    pub waited: Duration,
    /// Start of the run.
    pub started: Instant,
    /// End of the run.
    pub ended: Instant,
    /// Number of its own rows; 1 if the model has no batches.
    pub rows: usize,
    /// Number of rows of the batch that it was part of; 0 if it was alone.
    pub batch: usize,
}

/// End of a run, from which on the time counts as that of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunEnd {
    at: Instant,
    /// Number of its own rows.
    rows: usize,
    /// Number of rows of its batch; 0 if it was alone.
    batch: usize,
}

impl From<Instant> for RunEnd {
    fn from(at: Instant) -> Self {
        Self {
            at,
            rows: 1,
            batch: 0,
        }
    }
}

impl Times {
    /// Takes the times of a run that begins now, for which a slot was asked before.
    pub(crate) fn begun(
        call: &RequestRecord,
        asked: Instant,
        started: Instant,
        rows: usize,
    ) -> Self {
        Self {
            prepared: call.elapsed(asked),
            waited: started - asked,
            started,
            ended: started,
            rows,
            batch: 0,
        }
    }

    /// Returns its end.
    pub(crate) fn end(&self) -> RunEnd {
        RunEnd {
            at: self.ended,
            rows: self.rows,
            batch: self.batch,
        }
    }

    /// Returns when a slot was asked for, and begin and end of the run.
    pub(crate) fn moments(&self) -> [Instant; 3] {
        let asked = self.started.checked_sub(self.waited);
        [asked.unwrap_or(self.started), self.started, self.ended]
    }
}

/// An inference that goes on beyond its time limit, until dropped.
pub(crate) struct Stuck(Arc<Reporter>);

impl Drop for Stuck {
    fn drop(&mut self) {
        self.0.stuck.fetch_sub(1, Relaxed);
    }
}

/// An infer request in use, until dropped.
pub(crate) struct Active(Option<Arc<Reporter>>);

impl Drop for Active {
    fn drop(&mut self) {
        if let Some(reporter) = &self.0 {
            reporter.cells.own().active.fetch_sub(1, Relaxed);
        }
    }
}

/// One inference request: counts as failed when dropped, unless it was answered.
#[derive(Debug)]
pub struct RequestRecord {
    reporter: Arc<Reporter>,
    origin: RequestOrigin,
    since: Instant,
    answered: AtomicBool,
    /// Number of steps that are left of its answer, which counts behind the last one.
    steps: AtomicU8,
    /// End of its run, while steps are left.
    ran: OnceLock<RunEnd>,
    /// Marks a request that only a node of a graph waits for.
    of_node: bool,
    /// Marks a request that stands for another one, which counts.
    is_twin: bool,
    /// Parent context of its spans, if it is traced.
    trace: OnceLock<TraceContext>,
    owner: OnceLock<Box<RunOwner>>,
}

impl RequestRecord {
    /// Begins a request that has found its version.
    pub fn new(reporter: &Arc<Reporter>, origin: RequestOrigin) -> Self {
        if reporter.families.has(Family::CurrentRequests) {
            reporter.cells.own().current.fetch_add(1, Relaxed);
        }
        Self {
            reporter: Arc::clone(reporter),
            origin,
            since: Instant::now(),
            answered: AtomicBool::new(false),
            steps: AtomicU8::new(0),
            ran: OnceLock::new(),
            of_node: false,
            is_twin: false,
            trace: OnceLock::new(),
            owner: OnceLock::new(),
        }
    }

    /// Returns one in whose name a run counts, although it may outlive the request.
    pub(crate) fn twin(&self) -> Self {
        Self {
            reporter: Arc::clone(&self.reporter),
            answered: AtomicBool::new(true),
            steps: AtomicU8::new(0),
            ran: OnceLock::new(),
            is_twin: true,
            trace: self.trace.clone(),
            owner: self.owner.clone(),
            ..*self
        }
    }

    /// Sets the parent context of the spans of the request; only the first call counts.
    pub(crate) fn trace(&self, trace: TraceContext) {
        let _ = self.trace.set(trace);
    }

    /// Returns where the spans of the request begin, if it is traced.
    pub(crate) fn traced(&self) -> Option<&TraceContext> {
        self.trace.get()
    }

    /// Sets the owner of its runs; only the first call counts.
    pub(crate) fn own(&self, owner: RunOwner) {
        let _ = self.owner.set(Box::new(owner));
    }

    /// Returns whose its runs are, if anybody has said so.
    pub(crate) fn owner(&self) -> Option<&RunOwner> {
        self.owner.get().map(Box::as_ref)
    }

    /// Returns the priority of its runs.
    pub(crate) fn priority(&self) -> Priority {
        self.owner
            .get()
            .map_or(Priority::USUAL, |owner| owner.priority)
    }

    /// Returns the budget of its client, or another one.
    pub(crate) fn budget<'a>(&'a self, other: &'a Budget) -> &'a Budget {
        let own = self.owner.get().and_then(|owner| owner.budget.as_ref());
        own.unwrap_or(other)
    }

    /// Returns one whose run has its spans below another one.
    pub(crate) fn twin_under(&self, trace: &TraceContext) -> Self {
        let mut twin = self.twin();
        twin.trace = trace.clone().into();
        twin
    }

    /// Makes it that of a node: its time is none of requests.
    pub(crate) fn of_node(mut self) -> Self {
        self.of_node = true;
        self
    }

    /// Begins a request of our own, which shows nowhere.
    pub fn uncounted() -> Self {
        Self::new(&Arc::default(), cells::ALL_ORIGINS[0])
    }

    /// Moves the begin to when the request was received.
    pub(crate) fn begun(&mut self, since: Instant) {
        self.since = since;
    }

    /// Returns the time since the begin.
    pub(crate) fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    /// Returns the figures that the request counts in.
    pub(crate) fn reporter(&self) -> &Arc<Reporter> {
        &self.reporter
    }

    /// Counts a run for a node of a pipeline as a success; it is no request that somebody waits for.
    pub(crate) fn ran_node(&self, end: RunEnd) {
        self.answered.store(true, Relaxed);
        let shard = self.reporter.cells.own();
        shard.count_rows(end.rows);
        let place = place(self.origin);
        shard.success[place].fetch_add(1, Relaxed);
        // Not among the times of requests, of which the page has a histogram.
        cells::add(&shard.nodes_ns, self.elapsed(end.at));
    }

    /// Notes why the request has failed, if the reason is within the server.
    #[cold]
    pub(crate) fn failed(&self, error: &Error) {
        if error.is_within() {
            self.reporter.broke(error.message());
        }
    }

    /// Adds a step that an answer needs before it is one: its outputs go to shared memory, or become text. Each is
    /// over with [`Self::written`].
    pub(crate) fn writes_answer(&self) {
        self.steps.fetch_add(1, Relaxed);
    }

    /// Ends a step of the answer, and counts it if that was the last one.
    pub(crate) fn written(&self) {
        if self.steps.fetch_sub(1, Relaxed) == 1
            && let Some(end) = self.ran.get()
        {
            self.count(*end);
        }
    }

    /// Counts an answer, unless steps of it are left; `ran` is the end of its run.
    pub(crate) fn answered(&self, ran: impl Into<RunEnd>) {
        match self.steps.load(Relaxed) {
            0 => self.count(ran.into()),
            _ => {
                let _ = self.ran.set(ran.into());
            }
        }
    }

    fn count(&self, end: RunEnd) {
        if self.of_node {
            self.ran_node(end);
            return;
        }
        self.answered.store(true, Relaxed);
        let now = Instant::now();
        let took = self.elapsed(now);
        let place = place(self.origin);
        let shard = self.reporter.cells.own();
        shard.success[place].fetch_add(1, Relaxed);
        cells::add(&shard.success_ns[place], took);
        let finished = now.saturating_duration_since(end.at);
        cells::add(&shard.stages(end.rows, end.batch).finish_ns, finished);
        shard.count_rows(end.rows);
        let size = if end.batch > 0 { end.batch } else { end.rows };
        if end.batch > 0 || end.rows > 1 {
            self.reporter.batches.finished(size, finished);
        }
        if self.reporter.families.has(Family::RequestTime) {
            shard.request[self.origin.interface as usize].observe(took);
            if let Some(trace) = self.traced() {
                let exemplars = self.reporter.exemplars.get_or_init(Box::default);
                exemplars.keep(self.origin.interface, took, trace);
            }
        }
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        if self.is_twin {
            return;
        }
        let shard = self.reporter.cells.own();
        if self.reporter.families.has(Family::CurrentRequests) {
            shard.current.fetch_sub(1, Relaxed);
        }
        if !self.answered.load(Relaxed) {
            self.reporter.known.store(true, Relaxed);
            shard.fail[place(self.origin)].fetch_add(1, Relaxed);
            cells::add(&shard.fail_ns, self.elapsed(Instant::now()));
        }
    }
}

/// Turns a moment into milliseconds since 1970 without asking the system's clock each time.
fn milliseconds(moment: Instant) -> u64 {
    static START: LazyLock<(Instant, Duration)> = LazyLock::new(|| {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        (Instant::now(), since_1970.unwrap_or_default())
    });
    let (start, since_1970) = *START;
    let moment = (since_1970 + moment.saturating_duration_since(start)).as_millis();
    u64::try_from(moment).unwrap_or(u64::MAX)
}
