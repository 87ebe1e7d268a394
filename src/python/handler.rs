//! The `OvmsPythonModel` of a node, from its file to its end.

use std::{
    fmt,
    path::Path,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Duration,
};

use pyo3::{
    prelude::*,
    types::{PyAny, PyDict, PyType},
};

use super::{
    NodeFacts,
    aside::aside,
    describe,
    error::{LoadError, Raised},
    instance::Instance,
    interpreter, loading,
    place::Calls,
};
use crate::task;

/// How long [`Handler::finalize`] waits for calls that still run. After that the last of them
/// finalizes.
const PATIENCE: Duration = Duration::from_secs(10);

/// The `OvmsPythonModel` of one node, shared by all instances of the graph.
pub struct Handler {
    facts: NodeFacts,
    calls: Calls,
    core: Arc<Core>,
}

/// What belongs to Python.
pub(super) struct Core {
    node_name: String,
    /// `None` once it is finalized.
    object: Mutex<Life>,
    ended: Condvar,
    /// Whether the class has `create_state` and `destroy_state`.
    pub(super) stateful: bool,
    pub(super) destroys: bool,
}

struct Life {
    model: Option<Model>,
    /// Calls under way.
    running: usize,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// In use.
    Open,
    /// No more calls; `finalize` is to be called when the last one ends.
    Closing,
    /// `finalize` is being called.
    Finalizing,
    /// `finalize` has been called.
    Over,
}

/// The object and its modules.
struct Model {
    object: Arc<Py<PyAny>>,
    space: Py<PyAny>,
}

impl Handler {
    /// Loads a handler file: runs it, makes its `OvmsPythonModel` and initializes that.
    ///
    /// Blocks for as long as the handler takes.
    ///
    /// # Errors
    ///
    /// Fails if there is no such file, if Python raises, and if the class is not as it must be. What
    /// was made by then is finalized and gone.
    pub fn load(facts: NodeFacts) -> Result<Arc<Self>, LoadError> {
        Self::start(&facts.handler_path)?;
        let core = interpreter::attach(|py| Self::make(py, &facts))?;
        Ok(Arc::new(Self {
            facts,
            calls: Calls::new(),
            core: Arc::new(core),
        }))
    }

    /// Runs a handler file and looks at its `OvmsPythonModel`, without making one. Returns whether its
    /// `execute` is a generator function, as far as Python's `inspect` can tell.
    ///
    /// Blocks for as long as the file takes.
    ///
    /// # Errors
    ///
    /// Fails as [`load`](Self::load) does, but for what the object says.
    pub fn inspect(facts: &NodeFacts) -> Result<bool, LoadError> {
        Self::start(&facts.handler_path)?;
        interpreter::attach(|py| {
            let space = Self::space(py, facts)?;
            let generates = Self::class(py, facts, &space).map(|class| is_generator(&class));
            close(py, space.as_unbound());
            drop(space);
            collect(py);
            generates
        })
    }

    /// Sees to it that there are a file and an interpreter.
    fn start(path: &Path) -> Result<(), LoadError> {
        if !path.is_file() {
            return Err(LoadError::NoFile(path.to_owned()));
        }
        interpreter::start().map_err(|reason| LoadError::NoInterpreter {
            path: path.to_owned(),
            reason,
        })
    }

    /// Makes what the modules of a handler live in.
    fn space<'py>(py: Python<'py>, facts: &NodeFacts) -> Result<Bound<'py, PyAny>, LoadError> {
        let path = facts.handler_path.as_os_str();
        let tools = loading::tools(py);
        let space = tools.and_then(|tools| tools.space.bind(py).call1((path,)));
        space.map_err(|error| raised(py, facts, &error))
    }

    /// Runs a handler file and returns its class.
    fn class<'py>(
        py: Python<'py>,
        facts: &NodeFacts,
        space: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyAny>, LoadError> {
        let path = &facts.handler_path;
        let class = space
            .call_method0("run")
            .map_err(|error| raised(py, facts, &error))?;
        if !class.is_instance_of::<PyType>() {
            return Err(LoadError::NoClass(path.clone()));
        }
        if !has(&class, "execute") {
            return Err(LoadError::NoExecute(path.clone()));
        }
        Ok(class)
    }

    /// The steps of a load that need the lock.
    fn make(py: Python<'_>, facts: &NodeFacts) -> Result<Core, LoadError> {
        let space = Self::space(py, facts)?;
        let made = Self::construct(py, facts, &space);
        if made.is_err() {
            close(py, space.as_unbound());
            drop(space);
            collect(py);
        }
        made
    }

    fn construct(
        py: Python<'_>,
        facts: &NodeFacts,
        space: &Bound<'_, PyAny>,
    ) -> Result<Core, LoadError> {
        let path = &facts.handler_path;
        let failed = |error: PyErr| raised(py, facts, &error);
        let class = Self::class(py, facts, space)?;
        let object = space.call_method1("call", (&class,)).map_err(failed)?;
        let core = Core {
            node_name: facts.node_name.clone(),
            object: Mutex::new(Life {
                model: Some(Model {
                    object: Arc::new(object.clone().unbind()),
                    space: space.clone().unbind(),
                }),
                running: 0,
                phase: Phase::Open,
            }),
            ended: Condvar::new(),
            stateful: has(&class, "create_state"),
            destroys: has(&class, "destroy_state"),
        };
        let initialized = (|| {
            let Some(initialize) = object.getattr_opt("initialize")? else {
                return Ok(());
            };
            let told = PyDict::new(py);
            told.set_item("node_name", &facts.node_name)?;
            told.set_item("input_names", &facts.input_names)?;
            told.set_item("output_names", &facts.output_names)?;
            told.set_item("outputs_names", &facts.output_names)?;
            told.set_item("base_path", path.parent().map(Path::as_os_str))?;
            if let Some(params) = &facts.params {
                let dict = PyDict::new(py);
                for (key, value) in params {
                    dict.set_item(key, value)?;
                }
                told.set_item("params", dict)?;
            }
            space.call_method1("call", (initialize, told)).map(drop)
        })();
        match initialized {
            Ok(()) => Ok(core),
            Err(error) => {
                let fault = failed(error);
                core.finalize_now(py);
                Err(fault)
            }
        }
    }

    /// Returns the name of the node.
    #[must_use]
    pub fn node_name(&self) -> &str {
        &self.facts.node_name
    }

    /// Tells whether instances have a state. Without, opening and closing one does not run Python.
    #[must_use]
    pub fn stateful(&self) -> bool {
        self.core.stateful
    }

    /// Returns what one run of a graph has of it.
    #[must_use]
    pub fn instance(self: &Arc<Self>) -> Instance {
        Instance::new(Arc::clone(self))
    }

    /// Ends the handler: no call begins any more, those that run end, then `finalize` is called if
    /// the class has it; once, however often this is called. A state of an instance and a generator
    /// count as calls until they are closed.
    ///
    /// Blocks until that is done, but not for ever: after 10 seconds the last call finalizes when it
    /// ends.
    pub fn finalize(&self) {
        self.core.finalize(PATIENCE);
    }

    /// Runs short work on this thread, or gives it back: if the handler's calls take long, or if
    /// others are in Python now.
    ///
    /// # Errors
    ///
    /// Returns the work, which is for [`elsewhere`](Self::elsewhere) then.
    pub fn try_here<T, F: FnOnce() -> T>(&self, work: F) -> Result<T, F> {
        self.calls.here(work)
    }

    /// Runs work on a thread that may block, when there is a place for it. Work that has begun goes
    /// on if the future is dropped.
    pub async fn elsewhere<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let places = self.calls.place().await;
        let handler = Arc::clone(self);
        task::blocking("python", move || {
            let done = handler.calls.away(work);
            drop(places);
            done
        })
        .await
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

/// Tells whether the `execute` of a class is a generator function; one that hides it is none.
fn is_generator(class: &Bound<'_, PyAny>) -> bool {
    let told = || {
        let execute = class.getattr("execute")?;
        let inspect = class.py().import("inspect")?;
        inspect
            .call_method1("isgeneratorfunction", (execute,))?
            .is_truthy()
    };
    told().unwrap_or(false)
}

impl Core {
    /// Returns the object for a call, which counts until the answer is dropped.
    pub(super) fn enter(self: &Arc<Self>) -> Result<Running, Raised> {
        let mut life = self.life();
        match &life.model {
            Some(model) if life.phase == Phase::Open => {
                let object = Arc::clone(&model.object);
                life.running += 1;
                drop(life);
                Ok(Running {
                    core: Arc::clone(self),
                    object: Some(object),
                })
            }
            _ => Err(Raised::fault(
                "RuntimeError",
                format!("the handler of node {} is finalized", self.node_name),
            )),
        }
    }

    /// Returns the name of the node.
    pub(super) fn node_name(&self) -> &str {
        &self.node_name
    }

    fn life(&self) -> std::sync::MutexGuard<'_, Life> {
        self.object.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the calls to end and finalizes.
    fn finalize(self: &Arc<Self>, patience: Duration) {
        let mut life = self.life();
        if life.phase == Phase::Open {
            life.phase = Phase::Closing;
        }
        if life.phase == Phase::Closing && life.running == 0 {
            life.phase = Phase::Finalizing;
            drop(life);
            interpreter::attach(|py| self.finalize_now(py));
            return;
        }
        // Whoever ends the last call, or has begun, does it.
        let _ = self
            .ended
            .wait_timeout_while(life, patience, |life| life.phase != Phase::Over);
    }

    /// Calls `finalize` and lets the object go.
    fn finalize_now(&self, py: Python<'_>) {
        let model = {
            let mut life = self.life();
            life.phase = Phase::Finalizing;
            life.model.take()
        };
        if let Some(model) = model {
            let object = model.object.bind(py);
            let finalized = object
                .getattr_opt("finalize")
                .and_then(|method| method.map(|method| method.call0()).transpose());
            if let Err(error) = finalized {
                let raised = describe::raised(py, &error);
                tracing::error!(
                    node = self.node_name,
                    "Failed to process python node finalize method: {raised}\n{}",
                    raised.traceback.trim_end()
                );
            }
            let Model { object, space } = model;
            drop(object);
            close(py, &space);
            drop(space);
            collect(py);
        }
        self.life().phase = Phase::Over;
        self.ended.notify_all();
    }
}

/// Tells whether a class has a method.
fn has(class: &Bound<'_, PyAny>, name: &str) -> bool {
    let method = class.getattr_opt(name).ok().flatten();
    method.is_some_and(|method| method.is_callable())
}

/// Explains what the code of a handler has raised.
fn raised(py: Python<'_>, facts: &NodeFacts, error: &PyErr) -> LoadError {
    LoadError::Raised {
        path: facts.handler_path.clone(),
        raised: describe::raised(py, error),
    }
}

/// A call under way.
pub(super) struct Running {
    core: Arc<Core>,
    object: Option<Arc<Py<PyAny>>>,
}

impl Running {
    /// Returns another call; also while the handler waits for its end, because this one is not over.
    pub(super) fn again(&self) -> Self {
        self.core.life().running += 1;
        Self {
            core: Arc::clone(&self.core),
            object: self.object.clone(),
        }
    }

    /// Returns what it is a call of.
    pub(super) fn core(&self) -> &Core {
        &self.core
    }

    /// Returns what it is a call of, to keep.
    pub(super) fn shared(&self) -> &Arc<Core> {
        &self.core
    }

    /// Returns the object.
    pub(super) fn object<'a, 'py>(&'a self, py: Python<'py>) -> PyResult<&'a Bound<'py, PyAny>> {
        self.object
            .as_ref()
            .map(|object| object.bind(py))
            .ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("the call is over"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.object = None;
        let mut life = self.core.life();
        life.running -= 1;
        if life.running > 0 || life.phase != Phase::Closing {
            return;
        }
        life.phase = Phase::Finalizing;
        drop(life);
        let core = Arc::clone(&self.core);
        aside(&self.core, move || {
            interpreter::attach(|py| core.finalize_now(py));
        });
    }
}

/// Forgets the modules of a handler.
fn close(py: Python<'_>, space: &Py<PyAny>) {
    if let Err(error) = space.call_method0(py, "close") {
        tracing::warn!(
            "modules of a python handler stay: {}",
            describe::raised(py, &error)
        );
    }
}

/// Frees what only refers to itself.
fn collect(py: Python<'_>) {
    if let Err(error) = loading::tools(py).and_then(|tools| tools.collect.call0(py)) {
        tracing::warn!(
            "objects of a python handler stay: {}",
            describe::raised(py, &error)
        );
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        if self.core.life().phase == Phase::Open {
            let core = Arc::clone(&self.core);
            aside(&self.core, move || core.finalize(Duration::ZERO));
        }
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Handler")
            .field("facts", &self.facts)
            .finish_non_exhaustive()
    }
}
