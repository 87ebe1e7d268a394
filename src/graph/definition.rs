//! Loaded graph: its plan, its Python objects, and its pooled instances.

use std::{collections::BTreeMap, fmt, path::Path, sync::Arc, time::Duration};

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
    pool::{Pool, Seat},
    rules,
    run::{GraphObserver, Run},
    servables::Servables,
    source::GraphSource,
};
use crate::{
    error::{Error, ErrorKind, Result},
    metrics::{NodeTimes, Reporter},
    python::{NodeFacts, PythonHandler},
    request::Parameters,
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
    is_silent: bool,
    pool: Option<Pool>,
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
    #[must_use]
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
        let line = format!(
            "Failed to open mediapipe graph definition: {name}, file: {}: {error}",
            path.display()
        );
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
            is_silent,
            pool: None,
            spec,
            plan,
            fingerprint,
        };
        // Objects loaded before an error are finalized when the definition is dropped.
        definition.load_handlers(&source.base_path)?;
        definition.start_pool(servables)?;
        Ok(definition)
    }

    fn load_handlers(&mut self, base: &Path) -> Result<(), LoadError> {
        for node in &self.plan.nodes {
            if !node.spec.is_python() {
                continue;
            }
            let names = |ports: &Ports| {
                let written = ports.written().into_iter();
                written.map(|place| ports[place].name.clone()).collect()
            };
            let facts = NodeFacts {
                node_name: node.spec.name.clone(),
                input_names: names(&node.spec.inputs),
                output_names: names(&node.spec.outputs),
                handler_path: base.join(node.spec.handler_path().unwrap_or_default()),
                params: None,
            };
            match PythonHandler::load(facts) {
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
                run.error().map_or(Ok(()), |f| Err(explain(&f)))?;
                Ok(run)
            });
            let run = run.map_err(|error| {
                let line = format!(
                    "Mediapipe graph: {} initialization failed with message: {}",
                    self.name,
                    error.message()
                );
                LoadError::new("Failed to initialize mediapipe graph", vec![line])
            })?;
            pool.add(Seat { run, last: None });
        }
        self.pool = Some(pool);
        Ok(())
    }

    /// Creates a run for a request or stream with these parameters.
    pub(super) fn begin(
        &self,
        parameters: &Parameters,
        env: Env,
        watch: Option<Arc<dyn GraphObserver>>,
    ) -> Result<Run> {
        let side = convert::side_packets(self.plan(), parameters, self.has_pool())?;
        self.start(side, env, watch)
    }

    /// Creates a run with its side packets.
    pub(super) fn start(
        &self,
        side: Vec<Option<Packet>>,
        env: Env,
        watch: Option<Arc<dyn GraphObserver>>,
    ) -> Result<Run> {
        let (plan, times) = (self.plan(), self.times());
        Run::new(plan, side, self, env, times, watch).map_err(|error| {
            Error::new(
                ErrorKind::FailedPrecondition,
                format!("Failed to start mediapipe graph - {error}"),
            )
        })
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the checked graph.
    #[must_use]
    pub fn plan(&self) -> &Arc<GraphPlan> {
        &self.plan
    }

    /// Returns the graph as specified in its file.
    #[must_use]
    pub fn spec(&self) -> &GraphSpec {
        &self.spec
    }

    /// Returns the fingerprint of the files at the time of loading.
    #[must_use]
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// Returns whether instances are kept between requests.
    #[must_use]
    pub fn has_pool(&self) -> bool {
        self.pool.is_some()
    }

    pub(super) fn pool(&self) -> Option<&Pool> {
        self.pool.as_ref()
    }

    pub(super) fn times(&self) -> &Arc<[Arc<NodeTimes>]> {
        &self.times
    }

    /// Waits until the last run has ended, and drops the Python objects outside of the async workers.
    pub async fn drain(self: Arc<Self>) {
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

impl Resources for GraphDefinition {
    fn python(&self, node: &str) -> Option<&Arc<PythonHandler>> {
        self.handlers.get(node)
    }

    fn hides_python_errors(&self) -> bool {
        self.is_silent
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

impl fmt::Debug for GraphDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Definition")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
