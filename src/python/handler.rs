//! Handlers: the `OvmsPythonModel` of a node, wherever its workers are.

use std::{
    fmt,
    future::Future,
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::{
    NodeFacts,
    error::{HandlerError, HandlerLoadError, Misfit, Raised, handler_near},
    instance::HandlerInstance,
    worker::{
        HandlerLoad, WorkerGroup, WorkerOptions, WorkerSeat,
        group::{COMMON, block_on},
        handler_load::{PATIENCE, finalize},
        held::{Life, Use},
    },
};
use crate::task::Task;

/// `OvmsPythonModel` of one node, in each worker of its group.
pub struct PythonHandler {
    facts: NodeFacts,
    group: Arc<WorkerGroup>,
    number: u32,
    is_stateful: bool,
    class: HandlerFacts,
    misfits: Vec<Misfit>,
    places: Arc<Semaphore>,
    life: Arc<Life>,
    is_finalized: Mutex<bool>,
}

/// Results of a look at the class of a handler.
#[derive(Clone, Debug, Default)]
pub struct HandlerFacts {
    /// Indicates that `execute` is a generator function, as far as Python's `inspect` can tell.
    pub generates: bool,
    /// Methods that have nearly the name of one that the server calls, and that the class does not have.
    pub strays: Vec<Misfit>,
}

impl PythonHandler {
    /// Loads a handler file: runs it in each worker, creates its `OvmsPythonModel` and initializes that.
    ///
    /// Blocks for as long as the handler takes.
    ///
    /// # Errors
    ///
    /// Fails if the file does not exist, if Python raises an exception, or if the class is invalid.
    /// Anything created by then is finalized and dropped.
    pub fn load(group: &Arc<WorkerGroup>, facts: NodeFacts) -> Result<Arc<Self>, HandlerLoadError> {
        validate(&facts, group.options())?;
        let loaded = block_on(group, group.load(&facts));
        let (number, loaded) = loaded.map_err(|error| group.options().explained(error))?;
        let is_stateful = loaded.stateful;
        let (class, misfits) = taken(loaded);
        for misfit in &misfits {
            // It may never be called, so that this is no error.
            tracing::warn!(of = group.of, node = facts.node_name, "{}", misfit.line());
        }
        Ok(Arc::new(Self {
            facts,
            group: Arc::clone(group),
            number,
            is_stateful,
            class,
            misfits,
            places: Arc::new(Semaphore::new(COMMON.per_handler.load(Ordering::Relaxed))),
            life: Life::new(group.runtime().clone(), group.timeout()),
            is_finalized: Mutex::default(),
        }))
    }

    /// Runs a handler file and checks its `OvmsPythonModel`, without creating one.
    ///
    /// Blocks for as long as the file takes.
    ///
    /// # Errors
    ///
    /// Fails as [`load`](Self::load) does, except for errors of the object, and if methods cannot be called as the
    /// server calls them.
    pub fn inspect(
        facts: &NodeFacts,
        options: WorkerOptions,
    ) -> Result<HandlerFacts, HandlerLoadError> {
        validate(facts, &options)?;
        let of = format!("node {}", facts.node_name);
        let group = WorkerGroup::new(of, options, Arc::default(), &HandlerLoad::default());
        let loaded = block_on(&group, group.inspect(facts));
        let loaded = loaded.map_err(|error| group.options().explained(error))?;
        let (class, misfits) = taken(loaded);
        fit(&facts.handler_path, misfits)?;
        Ok(class)
    }

    /// Checks that its methods can be called as the server calls them.
    ///
    /// # Errors
    ///
    /// Fails with those that cannot.
    pub fn fits(&self) -> Result<(), HandlerLoadError> {
        fit(&self.facts.handler_path, self.misfits.clone())
    }

    /// Returns the name of the node.
    pub fn node_name(&self) -> &str {
        &self.facts.node_name
    }

    /// Returns whether instances have a state. Without, opening and closing one does not run Python.
    pub fn stateful(&self) -> bool {
        self.is_stateful
    }

    /// Returns whether `execute` is a generator function, as far as Python's `inspect` can tell.
    pub fn generates(&self) -> bool {
        self.class.generates
    }

    /// Returns what is known of its class.
    pub fn class(&self) -> &HandlerFacts {
        &self.class
    }

    /// Creates the instance for one run of a graph or pipeline, in a worker with its other nodes.
    pub(crate) fn instance_at(self: &Arc<Self>, seat: &Arc<WorkerSeat>) -> HandlerInstance {
        HandlerInstance::new(Arc::clone(self), Arc::clone(seat))
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn timeout(&self) -> Option<Duration> {
        self.group.timeout()
    }

    /// Returns the workers that have it.
    pub(crate) fn group(&self) -> &Arc<WorkerGroup> {
        &self.group
    }

    pub(super) fn places(&self) -> &Arc<Semaphore> {
        &self.places
    }

    /// Begins a use, unless the handler ends.
    pub(super) fn enter(&self) -> Result<Use, HandlerError> {
        self.life.enter().ok_or_else(|| {
            HandlerError::Raised(Raised {
                kind: "RuntimeError".to_owned(),
                message: format!("the handler of node {} is finalized", self.node_name()),
                ..Raised::default()
            })
        })
    }

    /// Shuts down the handler: no new calls begin, calls in flight end, then `finalize` is called
    /// if the class has it; once, however often this is called. A state of an instance and a
    /// generator count as calls until they are closed.
    ///
    /// Blocks until that is done, but for a limited time. Returns what `finalize` has raised, which is logged.
    pub fn finalize(&self) -> Option<Raised> {
        if std::mem::replace(&mut *self.is_finalized.lock(), true) {
            return None;
        }
        // A task, since a runtime that ends drops those; a thread for blocking work may outlive it.
        let all = self.end();
        let runtime = self.group.runtime();
        let ended = block_on(&self.group, async { Task::spawn_on(runtime, all).await });
        ended.unwrap_or_else(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => None,
        })
    }

    /// Lets no more calls begin, and has all workers finalize it when those in flight have ended; returns what one of
    /// them has raised.
    fn end(&self) -> impl Future<Output = Option<Raised>> + Send + 'static {
        self.life.close();
        let life = Arc::clone(&self.life);
        let (group, number) = (Arc::clone(&self.group), self.number);
        let name = self.node_name().to_owned();
        async move {
            // After that it is finalized beside them.
            let _ = tokio::time::timeout(PATIENCE, life.unused()).await;
            let raised = finalize(&group.of, &group.links(), &name, number).await;
            group.forget(number);
            raised
        }
    }
}

impl Drop for PythonHandler {
    /// Finalizes one that was not.
    fn drop(&mut self) {
        if !*self.is_finalized.lock() {
            Task::spawn_on(self.group.runtime(), self.end()).detach();
        }
    }
}

impl fmt::Debug for PythonHandler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Handler")
            .field("node", &self.node_name())
            .finish_non_exhaustive()
    }
}

/// Takes what a worker has found of a class, and its methods that cannot be called, apart.
fn taken(loaded: pyovms::message::Loaded) -> (HandlerFacts, Vec<Misfit>) {
    let class = HandlerFacts {
        generates: loaded.generates,
        strays: loaded.strays.into_iter().map(Misfit::from).collect(),
    };
    (
        class,
        loaded.misfits.into_iter().map(Misfit::from).collect(),
    )
}

fn fit(path: &Path, misfits: Vec<Misfit>) -> Result<(), HandlerLoadError> {
    match misfits.is_empty() {
        true => Ok(()),
        false => Err(HandlerLoadError::Misfits {
            path: path.to_owned(),
            misfits,
        }),
    }
}

/// Checks what needs no Python.
fn validate(facts: &NodeFacts, options: &WorkerOptions) -> Result<(), HandlerLoadError> {
    let path = &facts.handler_path;
    if !path.is_file() {
        return Err(HandlerLoadError::NoFile {
            near: handler_near(path),
            path: path.clone(),
        });
    }
    if !super::AVAILABLE {
        return Err(HandlerLoadError::NoInterpreter {
            path: path.clone(),
            reason: "this build has no Python; use one with the feature `python`".to_owned(),
        });
    }
    options.validate()
}
