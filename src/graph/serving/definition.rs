//! Loaded graph: its plan, its Python objects, and its pooled instances.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::Instant,
};

use super::{convert, fingerprint::Fingerprint, remarks::GraphRemarks};
use crate::{
    error::{Error, ErrorKind, Result},
    graph::{
        calculators::{
            self,
            calculator::{Env, Resources},
            error::explain,
            node::Ports,
            packet::Packet,
            servables::Servables,
            timestamp::Timestamp,
        },
        check::{self, CheckedGraph, plan::GraphPlan},
        file::{
            GraphSpec, PoolSize, rules,
            source::{GraphSource, read_graph},
        },
        runtime::run::{GraphObserver, Run},
    },
    metrics::{NodeTimes, Reporter},
    model::Served,
    python::{
        HandlerInstance, HandlerLoad, NodeFacts, PythonHandler, Raised, WorkerGroup, WorkerSeat,
    },
    task,
};

/// Interval of checks whether the last run has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Time that a graph that is dropped waits for what clients that have left have begun.
const PATIENCE: Duration = Duration::from_secs(10);

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
    pub(in crate::graph) pool: Option<Pool>,
    times: Arc<[Arc<NodeTimes>]>,
    fingerprint: Fingerprint,
    /// Indicates that the log has a line on a unary response that has only the first outputs.
    pub(in crate::graph) is_drop_logged: AtomicBool,
    pub(in crate::graph) remarks: GraphRemarks,
}

/// Error of loading a graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{status}")]
pub struct LoadError {
    /// Fixed text of the error, followed by a reason.
    pub status: String,
    /// Lines for the log.
    pub log: Vec<String>,
    /// Node whose handler did not load, if it was that.
    pub node: Option<String>,
    /// Exception that the handler has raised, if it was that.
    pub raised: Option<Box<Raised>>,
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
            node: None,
            raised: None,
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
    let text = read_graph(path).map_err(|error| {
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
    /// Reads, checks and loads a graph. Blocks for as long as its Python code takes, unless its load is ended.
    ///
    /// # Errors
    ///
    /// Fails with the first kind of error; everything loaded until then is dropped.
    pub fn load(
        source: &GraphSource,
        is_silent: bool,
        servables: &Arc<dyn Servables>,
        reporter: &Reporter,
        load: &HandlerLoad,
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
            is_drop_logged: AtomicBool::new(false),
            remarks: GraphRemarks::default(),
        };
        // Objects loaded before an error are finalized when the definition is dropped.
        definition.load_handlers(source, reporter, load)?;
        definition.start_pool(servables)?;
        Ok(definition)
    }

    fn load_handlers(
        &mut self,
        source: &GraphSource,
        reporter: &Reporter,
        load: &HandlerLoad,
    ) -> Result<(), LoadError> {
        for (index, node) in self.plan.nodes.iter().enumerate() {
            if !node.spec.is_python() {
                continue;
            }
            let workers = self.workers.get_or_insert_with(|| {
                let options = self.spec.workers(&source.base_path, &source.graph_path);
                let options = source.workers.clone().or(options);
                let of = format!("graph {}", self.name);
                WorkerGroup::new(of, options, reporter.workers(), load)
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
                    let text = error.to_string();
                    let lines = text.lines().chain(error.missing_file());
                    let lines = lines.map(str::to_owned).collect();
                    return Err(LoadError {
                        node: Some(node.spec.name.clone()),
                        raised: error.raised().cloned().map(Box::new),
                        ..LoadError::new(error.status_text(), lines)
                    });
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
            let seat = side.and_then(|side| {
                let env = Env::new(Arc::clone(servables));
                let mut seat = self.seat(side, env, true)?;
                // The remaining steps run when the first request comes.
                match &self.workers {
                    Some(workers) => workers.within_load(seat.run.opened()),
                    None => _ = seat.run.turn(),
                }
                let error = seat.run.scheduler.error();
                error.map_or(Ok(seat), |f| Err(explain(&f)))
            });
            let seat = seat.map_err(|error| {
                let (name, error) = (&self.name, error.message());
                let line =
                    format!("Mediapipe graph: {name} initialization failed with message: {error}");
                LoadError::new("Failed to initialize mediapipe graph", vec![line])
            })?;
            pool.add(seat);
        }
        self.pool = Some(pool);
        Ok(())
    }

    /// Creates a started instance with its side packets, for one request or for those to come.
    pub(in crate::graph) fn seat(
        &self,
        side: Vec<Option<Packet>>,
        env: Env,
        lasts: bool,
    ) -> Result<Seat> {
        let worker = self.worker(lasts);
        Ok(Seat {
            run: self.start(side, env, None, worker.clone())?,
            last: None,
            worker,
        })
    }

    /// Chooses the worker of a run, which is of one request or `lasts`.
    pub(in crate::graph) fn worker(&self, lasts: bool) -> Option<Arc<WorkerSeat>> {
        Some(self.workers.as_ref()?.seat(lasts))
    }

    /// Creates a run with its side packets.
    pub(in crate::graph) fn start(
        &self,
        side: Vec<Option<Packet>>,
        env: Env,
        watch: Option<Arc<dyn GraphObserver>>,
        seat: Option<Arc<WorkerSeat>>,
    ) -> Result<Run> {
        let resources = RunResources {
            definition: self,
            seat,
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

    /// Returns the longest time of a call of its Python nodes if it does not count here.
    pub fn waived_timeout(&self) -> Option<Duration> {
        self.workers.as_ref()?.waived_timeout()
    }

    /// Returns whether instances are kept between requests.
    pub fn has_pool(&self) -> bool {
        self.pool.is_some()
    }
}

impl Served for GraphDefinition {
    const KNOWN: &'static str = "Mediapipe";
    const PLAIN: &'static str = "graph";

    fn obstacle(&self) -> Option<String> {
        self.workers.as_ref()?.obstacle()
    }

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
            let end = Instant::now() + PATIENCE;
            // What does not end goes on beside the rest, and ends with its worker.
            while is_used() && Instant::now() < end {
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
    if !asked.is_kept() {
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
pub(in crate::graph) struct Seat {
    pub(in crate::graph) run: Run,
    /// Timestamp of the last request.
    pub(in crate::graph) last: Option<Timestamp>,
    /// Worker of its Python nodes.
    worker: Option<Arc<WorkerSeat>>,
}

impl Seat {
    /// Returns whether it takes another request: it has a timestamp for that, and its worker has not died.
    pub(in crate::graph) fn is_usable(&self) -> bool {
        let worker = self.worker.as_ref();
        convert::following(self.last).is_ok() && worker.is_none_or(|worker| worker.is_current())
    }

    fn load(&self) -> (usize, usize) {
        self.worker.as_ref().map_or((0, 0), |worker| worker.load())
    }
}

/// Started instances of a graph. Each slot has one, or starts one when it is next needed.
pub(in crate::graph) struct Pool {
    places: Semaphore,
    idle: Mutex<Vec<Seat>>,
}

impl Pool {
    pub(in crate::graph) fn new(size: usize) -> Self {
        Self {
            places: Semaphore::new(size),
            idle: Mutex::default(),
        }
    }

    /// Waits in turn for a slot, held until dropped; the number of waiters is bounded by admission.
    /// Returns it with an instance, if there is one: of the worker with the fewest calls, and then of the one whose
    /// instances are the least in use.
    pub(in crate::graph) async fn take(&self) -> (Option<SemaphorePermit<'_>>, Option<Seat>) {
        // Never closed.
        let permit = self.places.acquire().await.ok();
        let mut idle = self.idle.lock();
        if idle.last().is_none_or(|seat| seat.worker.is_none()) {
            return (permit, idle.pop());
        }
        let loads: Vec<_> = idle.iter().map(Seat::load).collect();
        let least = (0..idle.len()).rev().min_by_key(|&place| {
            let (calls, worker) = loads[place];
            let beside = loads.iter().filter(|load| load.1 == worker).count();
            (calls, Reverse(beside))
        });
        let seat = least.map(|place| idle.remove(place));
        (permit, seat)
    }

    /// Adds a started instance.
    pub(in crate::graph) fn add(&self, seat: Seat) {
        self.idle.lock().push(seat);
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::{Fingerprint, GraphSource, examine};
    use crate::python::WorkerOptions;

    fn source(folder: &Path) -> GraphSource {
        GraphSource {
            name: "g".to_owned(),
            base_path: folder.to_owned(),
            graph_path: folder.join("graph.pbtxt"),
            workers: WorkerOptions::default(),
        }
    }

    #[test]
    fn a_comment_in_another_encoding_does_not_matter() {
        let folder = tempfile::tempdir().unwrap();
        let source = source(folder.path());
        let graph = b"# \xe9t\xe9
            input_stream: 'OVMS_PY_TENSOR:in' output_stream: 'OVMS_PY_TENSOR:out'
            node { name: 'p' calculator: 'PythonExecutorCalculator' input_side_packet: 'PYTHON_NODE_RESOURCES:py'
              input_stream: 'IN:in' output_stream: 'OUT:out'
              node_options { [a/mediapipe.PythonExecutorCalculatorOptions] { handler_path: 'm.py' } } }";
        fs::write(&source.graph_path, graph).unwrap();
        assert_eq!(
            examine(&source).map(|checked| checked.plan.nodes.len()),
            Ok(1)
        );
        // Its handlers are followed.
        let before = Fingerprint::read(&source);
        fs::write(folder.path().join("m.py"), "").unwrap();
        assert_ne!(before, Fingerprint::read(&source));
    }

    #[cfg(feature = "python")]
    #[tokio::test(flavor = "multi_thread")]
    async fn a_graph_drains_though_a_step_of_a_generator_does_not_end() {
        use std::{path::PathBuf, sync::Arc, time::Duration};

        use super::GraphDefinition;
        use crate::{
            graph::{ServableSession, Servables},
            metrics::Metrics,
            model::Served as _,
            python::{self, HandlerLoad, Produced},
            task,
        };

        struct Nothing;

        impl Servables for Nothing {
            fn session(
                &self,
                name: &str,
                _: Option<i64>,
            ) -> crate::error::Result<Arc<dyn ServableSession>> {
                panic!("no node asks for {name}")
            }
        }

        let tools = Path::new(env!("WORKSPACE_ROOT")).join(".venv");
        let tools = std::env::var_os("OPENVINO_INSTALL_DIR").map_or(tools, PathBuf::from);
        python::configure(None, Some(tools));
        let folder = tempfile::tempdir().unwrap();
        let source = source(folder.path());
        let graph = "input_stream: 'OVMS_PY_TENSOR:in' output_stream: 'OVMS_PY_TENSOR:out'
            node { name: 'p' calculator: 'PythonExecutorCalculator' input_side_packet: 'PYTHON_NODE_RESOURCES:py'
              input_stream: 'IN:in' output_stream: 'OUT:out'
              node_options { [a/mediapipe.PythonExecutorCalculatorOptions] { handler_path: 'm.py' } } }";
        fs::write(&source.graph_path, graph).unwrap();
        let pid = folder.path().join("pid");
        let handler = format!(
            "import os, time\nclass OvmsPythonModel:\n    def execute(self, inputs):\n        \
             with open({pid:?}, 'w') as file: file.write(f'{{os.getpid()}}\\n')\n        time.sleep(1000)\n        yield []\n"
        );
        fs::write(folder.path().join("m.py"), handler).unwrap();
        let reporter = Metrics::off().reporter("g", 1);
        let loaded = task::blocking("load", move || {
            let servables: Arc<dyn Servables> = Arc::new(Nothing);
            GraphDefinition::load(
                &source,
                false,
                &servables,
                &reporter,
                &HandlerLoad::default(),
            )
        });
        let definition = Arc::new(loaded.await.unwrap());
        let instance = definition.handlers["p"].instance_at(&definition.worker(false).unwrap());
        let given = instance.execute(&[], true, true, None).await.unwrap();
        assert!(matches!(given, Produced::Generator(_)));
        let limit = Duration::from_secs(60);
        let in_step = async {
            loop {
                let text = fs::read_to_string(&pid).unwrap_or_default();
                if let Some(pid) = text.strip_suffix('\n') {
                    return pid.to_owned();
                }
                tokio::time::sleep(super::LOOK).await;
            }
        };
        let pid = tokio::time::timeout(limit, in_step).await.unwrap();
        drop(given);
        drop(instance);
        tokio::time::timeout(limit, definition.drain())
            .await
            .unwrap();
        let gone = async {
            while fs::exists(format!("/proc/{pid}")).unwrap() {
                tokio::time::sleep(super::LOOK).await;
            }
        };
        tokio::time::timeout(limit, gone).await.unwrap();
    }
}
