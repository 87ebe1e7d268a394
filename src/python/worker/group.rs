//! The workers of a graph or a pipeline, and what becomes of one that dies.

use std::{
    fmt,
    os::{fd::AsFd as _, unix::net::UnixStream},
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use super::{
    WorkerOptions,
    handler_load::{HandlerLoad, LoadEnd, finalize, load, not_started, until, worker_error},
    link::{Link, max_shared},
    memory::{all_inputs, input_budget},
    output::{self, NodeNames},
    process::Process,
    seat::WorkerSlot,
    stacks::Stacks,
    zygote::{Request, Zygote},
};
use crate::{
    budget::Budget,
    metrics::WorkerCounts,
    python::{HandlerLoadError, HandlerTerminal, NodeFacts, environment::Wish},
    task::{self, Task},
};

/// Time that a worker has to be ready: that of an interpreter to start, and of NumPy to be imported.
const START: Duration = Duration::from_secs(60);

/// Time that a worker has to end by itself.
const END: Duration = Duration::from_secs(2);

/// The first death within a minute after which a worker restarts later and later.
const LAST_DEATH: usize = 3;

const MINUTE: Duration = Duration::from_secs(60);

/// Maximum pause before a worker restarts.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Settings of all workers of the server.
pub(in crate::python) struct Common {
    /// Maximum number of calls of a handler, and of all handlers of a graph or pipeline.
    pub(in crate::python) per_handler: AtomicUsize,
    pub(in crate::python) per_group: AtomicUsize,
    /// The terminal of this process, if workers have that.
    pub(in crate::python) terminal: OnceLock<HandlerTerminal>,
    /// Links to all workers.
    links: Mutex<Vec<Weak<Link>>>,
    /// Loads of handlers, of what is served too.
    pub(super) loads: Mutex<Vec<Weak<LoadEnd>>>,
    /// Charged with the memory that is shared.
    budget: Mutex<Option<Budget>>,
    /// The part of it that inputs can have.
    inputs: Mutex<Option<Budget>>,
    /// Runtime of the server, for loads on other threads.
    pub(in crate::python) runtime: Mutex<Option<Handle>>,
    /// Description of the interpreter of the last worker.
    pub(in crate::python) description: Mutex<Option<String>>,
}

pub(in crate::python) static COMMON: Common = Common {
    per_handler: AtomicUsize::new(64),
    per_group: AtomicUsize::new(256),
    terminal: OnceLock::new(),
    links: Mutex::new(Vec::new()),
    loads: Mutex::new(Vec::new()),
    budget: Mutex::new(None),
    inputs: Mutex::new(None),
    runtime: Mutex::new(None),
    description: Mutex::new(None),
};

impl Common {
    /// Returns the terminal of this process, if workers have that.
    pub(in crate::python) fn terminal(&self) -> Option<HandlerTerminal> {
        self.terminal.get().copied()
    }

    /// Returns whether somebody can type at the terminal of workers, and so debug a handler for as long as they like.
    fn has_keyboard(&self) -> bool {
        self.terminal().is_some_and(|it| it.has_keyboard)
    }

    /// Returns the links to all workers.
    pub(in crate::python) fn links(&self) -> Vec<Arc<Link>> {
        let links = self.links.lock();
        links.iter().filter_map(Weak::upgrade).collect()
    }

    /// Charges memory that is shared from now on to a budget.
    pub(in crate::python) fn charge(&self, budget: &Budget) {
        *self.budget.lock() = Some(budget.clone());
        *self.inputs.lock() = Some(all_inputs(budget));
    }

    pub(super) fn budget(&self) -> Budget {
        self.budget.lock().clone().unwrap_or_else(unbounded)
    }

    /// Returns the part of the budget that inputs of all graphs and pipelines can have.
    pub(super) fn inputs(&self) -> Budget {
        self.inputs.lock().clone().unwrap_or_else(unbounded)
    }
}

fn unbounded() -> Budget {
    Budget::new(usize::MAX >> 1)
}

/// Place of a call among those of its handler, and among all of the graph or pipeline.
pub(in crate::python) type CallPlace = (Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>);

/// The workers of a graph or a pipeline. They end with it.
pub struct WorkerGroup {
    own: Weak<Self>,
    /// Graph or pipeline that they work for, in messages: `graph g`.
    pub(in crate::python) of: String,
    options: WorkerOptions,
    pub(super) slots: Vec<WorkerSlot>,
    /// Held while one of them is chosen.
    pub(super) choice: Mutex<()>,
    /// The turn to load handlers into them, so that one that restarts has all of them.
    loading: Arc<Semaphore>,
    /// Places of the calls that are in flight.
    places: Arc<Semaphore>,
    /// Handlers that are loaded into each worker.
    nodes: Mutex<Vec<(u32, NodeFacts)>>,
    /// Nodes whose code has run in a worker.
    names: Arc<NodeNames>,
    last: AtomicU32,
    counts: Arc<WorkerCounts>,
    /// The load of its handlers.
    load: HandlerLoad,
    /// Budget of inputs in the memory that the workers share with the server.
    inputs: Budget,
    runtime: Handle,
}

impl WorkerGroup {
    /// Makes the workers of a graph or a pipeline, called such as `graph g` in messages. They start with the first
    /// handler that is loaded, which belongs to a load as all handlers do.
    pub fn new(
        of: String,
        options: WorkerOptions,
        counts: Arc<WorkerCounts>,
        load: &HandlerLoad,
    ) -> Arc<Self> {
        let workers = options.workers.unwrap_or(1).max(1);
        let slots = (0..workers).map(|_| WorkerSlot::default()).collect();
        Arc::new_cyclic(|own| Self {
            own: Weak::clone(own),
            load: load.clone(),
            inputs: input_budget(&of, COMMON.budget().max(), &COMMON.inputs()),
            of,
            options,
            slots,
            choice: Mutex::default(),
            loading: Arc::new(Semaphore::new(1)),
            places: Arc::new(Semaphore::new(COMMON.per_group.load(Ordering::Relaxed))),
            nodes: Mutex::default(),
            names: Arc::default(),
            last: AtomicU32::new(0),
            counts,
            runtime: runtime(),
        })
    }

    /// Returns what they work for, as in messages: `graph g`.
    pub fn owner(&self) -> &str {
        &self.of
    }

    /// Returns the runtime on which links are read.
    pub(in crate::python) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Returns the bytes of memory that inputs have.
    #[cfg(all(test, feature = "python"))]
    pub(in crate::python) fn charged_inputs(&self) -> usize {
        self.inputs.charged()
    }

    /// Returns how they are run.
    pub(in crate::python) fn options(&self) -> &WorkerOptions {
        &self.options
    }

    /// Returns the longest time of a call, unless it is waived.
    pub(in crate::python) fn timeout(&self) -> Option<Duration> {
        let timeout = self.options.limit_of_calls();
        // A call is as long as somebody is at the prompt of the debugger.
        timeout.filter(|_| !COMMON.has_keyboard())
    }

    /// Returns the longest time of a call if it does not count, since somebody at the terminal may debug the handler.
    pub fn waived_timeout(&self) -> Option<Duration> {
        let timeout = self.options.limit_of_calls();
        timeout.filter(|_| COMMON.has_keyboard())
    }

    /// Returns why no request can be run, if so: no worker is there, and none comes soon.
    pub fn obstacle(&self) -> Option<String> {
        let mut reasons = self.slots.iter().map(|slot| slot.obstacle(&self.of));
        reasons.try_fold(None, |_, down| down.map(Some)).flatten()
    }

    /// Loads a handler into each worker.
    pub(in crate::python) async fn load(
        &self,
        facts: &NodeFacts,
    ) -> Result<(u32, pyovms::message::Loaded), HandlerLoadError> {
        // It is never closed. A worker that restarts may have it for long.
        let _loading = tokio::select! {
            biased;
            how = self.load.until_ended() => return Err(self.ended(facts, how)),
            turn = self.loading.acquire() => turn,
        };
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.names.add(&facts.node_name);
        let mut links = Vec::with_capacity(self.slots.len());
        match self.load_into(number, facts, &mut links).await {
            Ok(loaded) => {
                self.nodes.lock().push((number, facts.clone()));
                Ok((number, loaded))
            }
            Err(error) => {
                // Nobody else knows of those that had it before.
                finalize(&self.of, &links, &facts.node_name, number).await;
                Err(error)
            }
        }
    }

    /// Loads a handler into each worker, and adds the links to those that have it.
    async fn load_into(
        &self,
        number: u32,
        facts: &NodeFacts,
        links: &mut Vec<Arc<Link>>,
    ) -> Result<pyovms::message::Loaded, HandlerLoadError> {
        let mut loaded = pyovms::message::Loaded::default();
        for index in 0..self.slots.len() {
            let link = match self.slots[index].link() {
                Some(link) => link,
                None => {
                    let started = tokio::select! {
                        biased;
                        how = self.load.until_ended() => return Err(self.ended(facts, how)),
                        started = self.start_again(index) => started,
                    };
                    let link = started.map_err(|reason| match self.nodes.lock().is_empty() {
                        true => not_started(facts, reason),
                        // The handler that fails may be another one.
                        false => worker_error(facts, reason),
                    })?;
                    self.attach(index, &link);
                    link
                }
            };
            let load = load(&link, number, facts, false);
            loaded = match until(self.load.until_ended(), &link, load).await {
                Ok(loaded) => loaded,
                Err(error) => {
                    if let Some(how) = link.ended_how() {
                        self.bury(index, &how, &link);
                    }
                    return Err(error);
                }
            };
            links.push(link);
        }
        Ok(loaded)
    }

    fn ended(&self, facts: &NodeFacts, how: &str) -> HandlerLoadError {
        let reason = format!("worker of {} {how} in node {}", self.of, facts.node_name);
        worker_error(facts, reason)
    }

    /// Looks at a handler, without making its object.
    pub(in crate::python) async fn inspect(
        &self,
        facts: &NodeFacts,
    ) -> Result<pyovms::message::Loaded, HandlerLoadError> {
        self.names.add(&facts.node_name);
        let started = self.start(0).await;
        let link = started.map_err(|reason| not_started(facts, reason))?;
        let load = load(&link, 1, facts, true);
        until(self.load.until_ended(), &link, load).await
    }

    /// Forgets a handler, which has been finalized.
    pub(in crate::python) fn forget(&self, node: u32) {
        self.nodes.lock().retain(|(number, _)| *number != node);
    }

    /// Waits for a place among the calls of a handler, and of all of this graph or pipeline.
    pub(in crate::python) async fn place(&self, own: &Arc<Semaphore>) -> CallPlace {
        // They are never closed. The handler's place comes first, so that a busy handler holds none that others could use.
        let own = Arc::clone(own).acquire_owned().await.ok();
        let shared = Arc::clone(&self.places).acquire_owned().await.ok();
        (own, shared)
    }

    /// Returns all links.
    pub(in crate::python) fn links(&self) -> Vec<Arc<Link>> {
        self.slots.iter().filter_map(WorkerSlot::link).collect()
    }

    /// Starts a worker. It has no handlers.
    async fn start(&self, index: usize) -> Result<Arc<Link>, String> {
        let environment = self.options.environment.as_ref();
        let wish = Wish::with(environment.map(|it| it.folder.as_path()));
        let (own, other) = UnixStream::pair().map_err(|error| format!("no socket: {error}"))?;
        let stacks = Stacks::new().map_err(|error| format!("no memory for its stacks: {error}"))?;
        let mut asked = None;
        let started = async {
            // The file system that they are on may not answer.
            let found = task::blocking("start Python", move || Zygote::of(&wish.program()?, START));
            let zygote = asked.insert(found.await?);
            let process = self.fork(zygote, &other, &stacks).await;
            let process = process.map_err(|reason| self.options.within_limit(reason))?;
            drop(other);
            let started = Link::start(own, process, stacks, self.of.clone(), self.inputs.clone());
            let started = started.await;
            started.map_err(|reason| self.options.within_limit(reason))
        };
        let started = match tokio::time::timeout(START, started).await {
            Ok(started) => started?,
            Err(_) => {
                if let Some(zygote) = asked {
                    zygote.give_up();
                }
                return Err(format!(
                    "Python has not started within {} s",
                    START.as_secs()
                ));
            }
        };
        let hello = started.hello;
        if hello.version != pyovms::message::VERSION {
            return Err(
                "the package pyovms of the environment is not that of this server".to_owned(),
            );
        }
        let description = format!(
            "Python {} of {}; sys.path: {}",
            hello.python,
            hello.prefix,
            hello.path.join(":")
        );
        let mut known = COMMON.description.lock();
        if known.as_ref() != Some(&description) {
            tracing::info!("Python interpreter has started: {description}");
            *known = Some(description);
        }
        drop(known);
        tracing::info!(
            of = self.of,
            worker = index,
            pid = started.link.pid(),
            "Python worker has started"
        );
        let mut links = COMMON.links.lock();
        links.retain(|link| link.strong_count() > 0);
        links.push(Arc::downgrade(&started.link));
        drop(links);
        Ok(started.link)
    }

    async fn fork(
        &self,
        zygote: &Zygote,
        socket: &UnixStream,
        stacks: &Stacks,
    ) -> Result<Process, String> {
        let mut request = Request {
            socket: socket.as_fd(),
            stacks: stacks.as_fd(),
            streams: None,
            memory_limit: self.options.memory_limit.filter(|limit| *limit > 0),
            shared_limit: max_shared(COMMON.budget().max()),
        };
        if COMMON.terminal().is_some() {
            return zygote.fork(request).await;
        }
        let pipe = || {
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
                .map_err(|error| format!("no pipe: {error}"))
        };
        let ((stdout, out), (stderr, err)) = (pipe()?, pipe()?);
        for (name, pipe) in [("stdout", stdout), ("stderr", stderr)] {
            output::log(name, &self.of, &self.names, pipe)
                .map_err(|error| format!("no thread: {error}"))?;
        }
        request.streams = Some([out.as_fd(), err.as_fd()]);
        zygote.fork(request).await
    }

    /// Takes a worker that has all handlers into its slot; where another one has died there, it has restarted.
    fn attach(&self, index: usize, link: &Arc<Link>) {
        let has_restarted = self.slots[index].state.lock().died.is_some();
        self.watch(index, link);
        if has_restarted {
            self.counts.restarted();
            tracing::info!(
                of = self.of,
                worker = index,
                pid = link.pid(),
                "Python worker has restarted, with its handlers"
            );
        }
    }

    /// Replaces a worker when it dies.
    fn watch(&self, index: usize, link: &Arc<Link>) {
        self.slots[index].set(Ok(Arc::clone(link)));
        let (group, link) = (Weak::clone(&self.own), Arc::downgrade(link));
        Task::spawn_on(&self.runtime, async move {
            let Some(exit) = link.upgrade().map(|link| link.exit()) else {
                return;
            };
            let ended = exit.wait().await;
            // Otherwise it has ended with the group, or with the load of a handler: the graph or pipeline is not loaded
            // then, and nobody waits for another worker.
            if let (Some(group), Some(link)) = (group.upgrade(), link.upgrade())
                && !link.is_loading()
            {
                let how = link.how(ended);
                group.bury(index, &how, &link);
                drop(link);
                let pause = group.lost(index, &how);
                let weak = Weak::clone(&group.own);
                drop(group);
                Self::replace(weak, index, pause).await;
            }
        })
        .detach();
    }

    /// Logs and counts the death of a worker, once.
    fn bury(&self, index: usize, how: &str, link: &Link) {
        if link.is_reported() {
            return;
        }
        let nodes = Vec::from_iter(link.nodes()).join(", ");
        let node = (!nodes.is_empty()).then_some(&*nodes);
        tracing::error!(of = self.of, worker = index, node, "Python worker {how}");
        if let Some(places) = link.places() {
            tracing::error!(of = self.of, worker = index, "{places}");
        }
        self.counts.died();
    }

    /// Takes a worker that has died out of its slot; returns the pause before another one starts.
    fn lost(&self, index: usize, how: &str) -> Duration {
        let slot = &self.slots[index];
        let mut pause = Duration::ZERO;
        {
            let mut state = slot.state.lock();
            state.link = None;
            state.generation += 1;
            let now = Instant::now();
            state.died = Some(now);
            state
                .deaths
                .retain(|(death, _)| now.duration_since(*death) < MINUTE);
            state.deaths.push((now, how.to_owned()));
            if let Some(more) = state.deaths.len().checked_sub(LAST_DEATH) {
                pause = Duration::from_secs(2 << more.min(4)).min(MAX_PAUSE);
                let times = state.deaths.len();
                let died = match state.deaths.iter().all(|(_, other)| other == how) {
                    true => format!("{how}, {times} times within a minute"),
                    false => format!("died {times} times within a minute, the last time it {how}"),
                };
                state.down = Some(format!(
                    "worker of {} {died}; it restarts after {} s",
                    self.of,
                    pause.as_secs()
                ));
            }
        }
        slot.notify();
        if !pause.is_zero() {
            tracing::warn!(
                of = self.of,
                worker = index,
                "Python worker restarts in {} s",
                pause.as_secs()
            );
        }
        pause
    }

    /// Replaces a worker that has died, unless the group ends meanwhile.
    async fn replace(this: Weak<Self>, index: usize, mut pause: Duration) {
        loop {
            tokio::time::sleep(pause).await;
            // A group that ends meanwhile does not wait.
            let Some(loading) = this.upgrade().map(|group| Arc::clone(&group.loading)) else {
                return;
            };
            let _loading = loading.acquire().await;
            let Some(group) = this.upgrade() else {
                return;
            };
            if group.slots[index].link().is_some() {
                // The load of a handler has started it.
                return;
            }
            match group.start_again(index).await {
                Ok(link) => return group.attach(index, &link),
                Err(reason) => {
                    pause = (2 * pause).clamp(Duration::from_secs(1), MAX_PAUSE);
                    tracing::error!(
                        of = group.of,
                        worker = index,
                        "Python worker does not restart; the next attempt is in {} s: {reason}",
                        pause.as_secs()
                    );
                    // What a handler has raised is for the log.
                    group.slots[index].set(Err(format!(
                        "worker of {} does not restart; the log says why",
                        group.of
                    )));
                }
            }
        }
    }

    /// Waits, on a thread that may block, for what the workers do besides for the load that they were made for; they are
    /// killed when that is ended.
    pub(crate) fn within_load<T: Send>(&self, work: impl Future<Output = T> + Send) -> T {
        block_on(self, async {
            let mut work = std::pin::pin!(work);
            tokio::select! {
                biased;
                how = self.load.until_ended() => {
                    for link in self.links() {
                        link.kill(how.to_owned());
                    }
                }
                done = work.as_mut() => return done,
            }
            work.await
        })
    }

    /// Starts a worker with the handlers that the others have.
    async fn start_again(&self, index: usize) -> Result<Arc<Link>, String> {
        let link = self.start(index).await?;
        let nodes = self.nodes.lock().clone();
        let over = async {
            match self.load.limit() {
                Some(limit) => {
                    tokio::time::sleep(limit).await;
                    format!("was killed: its handler has not loaded within {limit:?}")
                }
                None => std::future::pending().await,
            }
        };
        let mut has = 0;
        let loads = async {
            for (number, facts) in &nodes {
                load(&link, *number, facts, false).await?;
                has += 1;
            }
            Ok(())
        };
        let loaded = until(over, &link, loads).await;
        let Err(error) = loaded else { return Ok(link) };
        let error = self.options.explained(error);
        let reason = match link.places() {
            Some(places) => format!("{}\n{places}", error.for_log()),
            None => error.for_log(),
        };
        // The worker goes, and with it the objects that it has made.
        let links = [link];
        for (number, facts) in &nodes[..has] {
            finalize(&self.of, &links, &facts.node_name, *number).await;
        }
        Err(reason)
    }
}

impl Drop for WorkerGroup {
    /// Lets the workers end, and kills those that do not.
    fn drop(&mut self) {
        for link in self.links() {
            link.close();
            Task::spawn_on(&self.runtime, async move {
                let exit = link.exit();
                if tokio::time::timeout(END, exit.wait()).await.is_err() {
                    // Those who wait for what has not ended there have the link as well.
                    link.put_an_end();
                }
            })
            .detach();
        }
    }
}

impl fmt::Debug for WorkerGroup {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("WorkerGroup")
            .field("of", &self.of)
            .finish_non_exhaustive()
    }
}

/// Waits on a thread that may block.
pub(in crate::python) fn block_on<T: Send>(
    group: &WorkerGroup,
    future: impl Future<Output = T> + Send,
) -> T {
    let runtime = group.runtime();
    if Handle::try_current().is_err() {
        return runtime.block_on(future);
    }
    // A thread of the runtime for blocking work has its handle, and so has a test within one.
    std::thread::scope(|scope| scope.spawn(|| runtime.block_on(future)).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Returns the runtime of the caller, of the server, or one of its own for commands that have none.
fn runtime() -> Handle {
    static OWN: OnceLock<Option<tokio::runtime::Runtime>> = OnceLock::new();
    if let Ok(handle) = Handle::try_current() {
        return handle;
    }
    let known = COMMON.runtime.lock().clone();
    known.unwrap_or_else(|| {
        let own = OWN.get_or_init(|| {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(1).enable_all().build().ok()
        });
        own.as_ref()
            .expect("the system gives a thread")
            .handle()
            .clone()
    })
}
