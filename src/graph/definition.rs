//! Loaded graph: its plan, its Python objects, and its pooled instances.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::{
    calculator::{Env, Resources},
    calculators,
    check::{self, CheckedGraph},
    convert,
    error::explain,
    file::GraphSpec,
    fingerprint::Fingerprint,
    node::Ports,
    packet::Packet,
    plan::{GraphPlan, PoolSize},
    rules,
    run::{GraphObserver, Run},
    servables::Servables,
    source::GraphSource,
    timestamp::Timestamp,
};
use crate::{
    error::{Error, ErrorKind, Result},
    metrics::{NodeTimes, Reporter},
    model::Served,
    python::{HandlerInstance, NodeFacts, PythonHandler, WorkerGroup, WorkerSeat},
    task,
};

/// Interval of checks whether the last run has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Environment variable that disables all pools if set to `1`.
const NO_POOLS: &str = "OVMS_GRAPH_QUEUE_OFF";

/// Size of a pool if the number of threads of the machine is unknown.
const USUAL_POOL: usize = 16;

/// Loaded graph. Runs hold a reference, so that a reload does not disturb them.
pub struct GraphDefinition {
    name: String,
    plan: Arc<GraphPlan>,
    spec: GraphSpec,
    handlers: BTreeMap<String, Arc<PythonHandler>>,
    /// The workers of its Python nodes, if it has any.
    workers: Option<Arc<WorkerGroup>>,
    is_silent: bool,
    pub(super) pool: Option<Pool>,
    times: Arc<[Arc<NodeTimes>]>,
    fingerprint: Fingerprint,
}

/// Error of loading a graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{status}")]
pub struct LoadError {
    /// Fixed text of the error, followed by a reason.
    pub status: String,
    /// Lines for the log.
    pub log: Vec<String>,
}

impl LoadError {
    /// Returns the message for clients: the first line of the log, which has the cause. It may
    /// include an exception raised by Python code, and is left out if `is_silent`.
    pub fn reported(&self, is_silent: bool) -> &str {
        let first = self.log.first().filter(|_| !is_silent);
        first.unwrap_or(&self.status)
    }

    fn new(status: impl Into<String>, log: Vec<String>) -> Self {
        Self {
            status: status.into(),
            log,
        }
    }
}

/// Reads and checks a graph file, without loading anything. Blocks.
///
/// # Errors
///
/// Fails if the file cannot be read, or the graph has errors.
pub fn examine(source: &GraphSource) -> Result<CheckedGraph, LoadError> {
    let (name, path) = (&source.name, &source.graph_path);
    let text = std::fs::read_to_string(path).map_err(|error| {
        let path = path.display();
        let line =
            format!("Failed to open mediapipe graph definition: {name}, file: {path}: {error}");
        LoadError::new("File not found or cannot open", vec![line])
    })?;
    check::check(&text, &path.display().to_string(), calculators::all()).map_err(|found| {
        let log = found.errors.iter().map(|error| error.log(name));
        LoadError::new(rules::status(&found), log.collect())
    })
}

impl GraphDefinition {
    /// Reads, checks and loads a graph. Blocks for as long as its Python code takes.
    ///
    /// # Errors
    ///
    /// Fails with the first kind of error; everything loaded until then is dropped.
    pub fn load(
        source: &GraphSource,
        is_silent: bool,
        servables: &Arc<dyn Servables>,
        reporter: &Reporter,
    ) -> Result<Self, LoadError> {
        // Taken before reading: a change in the meantime is then detected.
        let fingerprint = Fingerprint::read(source);
        let CheckedGraph { plan, spec, .. } = examine(source)?;
        let plan = Arc::new(plan);
        let times = plan.nodes.iter().map(|node| reporter.node(&node.spec.name));
        let mut definition = Self {
            name: source.name.clone(),
            times: times.collect(),
            handlers: BTreeMap::new(),
            workers: None,
            is_silent,
            pool: None,
            spec,
            plan,
            fingerprint,
        };
        // Objects loaded before an error are finalized when the definition is dropped.
        definition.load_handlers(source)?;
        definition.start_pool(servables)?;
        Ok(definition)
    }

    fn load_handlers(&mut self, source: &GraphSource) -> Result<(), LoadError> {
        for (index, node) in self.plan.nodes.iter().enumerate() {
            if !node.spec.is_python() {
                continue;
            }
            let workers = self.workers.get_or_insert_with(|| {
                WorkerGroup::new(format!("graph {}", self.name), source.workers.clone())
            });
            // In the order of the file.
            let written = |ports: &Ports| {
                let mut places: Vec<usize> = (0..ports.len()).collect();
                places.sort_by_key(|place| ports[*place].written);
                places.into_iter()
            };
            let (inputs, outputs) = (written(&node.spec.inputs), written(&node.spec.outputs));
            let facts = NodeFacts {
                node_name: node.spec.name.clone(),
                input_names: inputs
                    .map(|place| node.spec.inputs[place].name.clone())
                    .collect(),
                outputs: outputs
                    .map(|place| self.plan.python_output(index, place))
                    .collect(),
                handler_path: source
                    .base_path
                    .join(node.spec.handler_path().unwrap_or_default()),
                params: None,
            };
            match PythonHandler::load(workers, facts) {
                Ok(handler) => self.handlers.insert(node.spec.name.clone(), handler),
                Err(error) => {
                    for handler in self.handlers.values() {
                        handler.finalize();
                    }
                    let lines = error.to_string().lines().map(str::to_owned).collect();
                    return Err(LoadError::new(error.status_text(), lines));
                }
            };
        }
        Ok(())
    }

    fn start_pool(&mut self, servables: &Arc<dyn Servables>) -> Result<(), LoadError> {
        let Some(size) = pool_size(self.plan.pool, &self.name) else {
            return Ok(());
        };
        let pool = Pool::new(size);
        for _ in 0..size {
            let side = convert::side_packets(&self.plan, &Vec::new(), true);
            let run = side.and_then(|side| {
                let mut run = self.start(side, Env::new(Arc::clone(servables)), None)?;
                // The remaining steps run when the first request comes.
                run.turn();
                run.scheduler.error().map_or(Ok(run), |f| Err(explain(&f)))
            });
            let run = run.map_err(|error| {
                let (name, error) = (&self.name, error.message());
                let line =
                    format!("Mediapipe graph: {name} initialization failed with message: {error}");
                LoadError::new("Failed to initialize mediapipe graph", vec![line])
            })?;
            pool.add(Seat { run, last: None });
        }
        self.pool = Some(pool);
        Ok(())
    }

    /// Creates a run with its side packets.
    pub(super) fn start(
        &self,
        side: Vec<Option<Packet>>,
        env: Env,
        watch: Option<Arc<dyn GraphObserver>>,
    ) -> Result<Run> {
        let workers = self.workers.as_ref();
        let resources = RunResources {
            definition: self,
            seat: workers.map(|workers| Arc::new(workers.seat())),
        };
        Run::new(&self.plan, side, &resources, env, &self.times, watch).map_err(|error| {
            let message = format!("Failed to start mediapipe graph - {error}");
            Error::new(ErrorKind::FailedPrecondition, message)
        })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the checked graph.
    pub fn plan(&self) -> &Arc<GraphPlan> {
        &self.plan
    }

    /// Returns the graph as specified in its file.
    pub fn spec(&self) -> &GraphSpec {
        &self.spec
    }

    /// Returns the fingerprint of the files at the time of loading.
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// Returns whether instances are kept between requests.
    pub fn has_pool(&self) -> bool {
        self.pool.is_some()
    }
}

impl Served for GraphDefinition {
    const KNOWN: &'static str = "Mediapipe";
    const PLAIN: &'static str = "graph";

    /// Waits until the last run has ended, and drops the Python objects outside of the async workers.
    async fn drain(self: Arc<Self>) {
        // It can no longer be found, so the count only falls.
        while Arc::strong_count(&self) > 1 {
            tokio::time::sleep(LOOK).await;
        }
        let handlers: Vec<_> = self.handlers.values().map(Arc::downgrade).collect();
        if let Some(mut this) = Arc::into_inner(self) {
            // Work started by clients that have disconnected may still be running.
            this.pool = None;
            let is_used = || handlers.iter().any(|handler| handler.strong_count() > 1);
            while is_used() {
                tokio::time::sleep(LOOK).await;
            }
            task::blocking("drop graph", move || drop(this)).await;
        }
    }
}

impl Drop for GraphDefinition {
    fn drop(&mut self) {
        // Instances first: their states belong to the objects.
        self.pool = None;
        for handler in self.handlers.values() {
            handler.finalize();
        }
    }
}

/// Resources of a run: its Python nodes are in one worker.
struct RunResources<'a> {
    definition: &'a GraphDefinition,
    seat: Option<Arc<WorkerSeat>>,
}

impl Resources for RunResources<'_> {
    fn python(&self, node: &str) -> Option<HandlerInstance> {
        let handler = self.definition.handlers.get(node)?;
        Some(handler.instance_at(self.seat.as_ref()?))
    }

    fn hides_python_errors(&self) -> bool {
        self.definition.is_silent
    }
}

/// Returns the number of pooled instances; `None` for none.
fn pool_size(asked: PoolSize, name: &str) -> Option<usize> {
    if std::env::var(NO_POOLS).is_ok_and(|off| off == "1") {
        return None;
    }
    let threads = std::thread::available_parallelism().map_or(USUAL_POOL, usize::from);
    match asked {
        PoolSize::Off => None,
        PoolSize::Auto => Some(threads),
        PoolSize::Fixed(size) => {
            if size > threads {
                tracing::warn!(
                    "Mediapipe graph: {name}: OVMS_GRAPH_QUEUE_MAX_SIZE {size} is more than the \
                     {threads} threads of this machine; {threads} instances are kept"
                );
            }
            Some(size.min(threads))
        }
    }
}

/// Instance of the pool: started, with its current timestamp.
pub(super) struct Seat {
    pub(super) run: Run,
    /// Timestamp of the last request.
    pub(super) last: Option<Timestamp>,
}

/// Started instances of a graph. Each slot has one, or starts one when it is next needed.
pub(super) struct Pool {
    places: Semaphore,
    idle: Mutex<Vec<Seat>>,
}

impl Pool {
    pub(super) fn new(size: usize) -> Self {
        Self {
            places: Semaphore::new(size),
            idle: Mutex::default(),
        }
    }

    /// Waits in turn for a slot, held until dropped; the number of waiters is bounded by admission.
    /// Returns it with its instance, if there is one.
    pub(super) async fn take(&self) -> (Option<SemaphorePermit<'_>>, Option<Seat>) {
        // Never closed.
        let permit = self.places.acquire().await.ok();
        (permit, self.idle().pop())
    }

    /// Adds a started instance.
    pub(super) fn add(&self, seat: Seat) {
        self.idle().push(seat);
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Seat>> {
        // A push or a pop cannot be left half done.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
