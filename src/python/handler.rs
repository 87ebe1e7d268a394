//! Lifecycle of the `OvmsPythonModel` of a node.

use std::{fmt, path::Path, sync::Arc, time::Duration};

use pyo3::{
    prelude::*,
    types::{PyAny, PyDict, PyType},
};

use super::{
    NodeFacts,
    aside::aside,
    describe,
    error::HandlerLoadError,
    instance::HandlerInstance,
    interpreter,
    life::{Core, close, collect, has},
    loading,
    place::Calls,
};
use crate::task;

/// Time that [`PythonHandler::finalize`] waits for calls in flight. After that the last of them
/// finalizes.
const PATIENCE: Duration = Duration::from_secs(10);

/// `OvmsPythonModel` of one node, shared by all instances of the graph.
pub struct PythonHandler {
    facts: NodeFacts,
    calls: Calls,
    core: Arc<Core>,
}

impl PythonHandler {
    /// Loads a handler file: runs it, creates its `OvmsPythonModel` and initializes that.
    ///
    /// Blocks for as long as the handler takes.
    ///
    /// # Errors
    ///
    /// Fails if the file does not exist, if Python raises an exception, or if the class is invalid.
    /// Anything created by then is finalized and dropped.
    pub fn load(facts: NodeFacts) -> Result<Arc<Self>, HandlerLoadError> {
        Self::start(&facts.handler_path)?;
        let core = interpreter::attach(|py| Self::make(py, &facts))?;
        Ok(Arc::new(Self {
            facts,
            calls: Calls::new(),
            core: Arc::new(core),
        }))
    }

    /// Runs a handler file and checks its `OvmsPythonModel`, without creating one. Returns whether
    /// its `execute` is a generator function, as far as Python's `inspect` can tell.
    ///
    /// Blocks for as long as the file takes.
    ///
    /// # Errors
    ///
    /// Fails as [`load`](Self::load) does, except for errors of the object.
    pub fn inspect(facts: &NodeFacts) -> Result<bool, HandlerLoadError> {
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

    /// Checks that the file exists, and starts the interpreter.
    fn start(path: &Path) -> Result<(), HandlerLoadError> {
        if !path.is_file() {
            return Err(HandlerLoadError::NoFile(path.to_owned()));
        }
        interpreter::start().map_err(|reason| HandlerLoadError::NoInterpreter {
            path: path.to_owned(),
            reason,
        })
    }

    /// Creates the namespace for the modules of a handler.
    fn space<'py>(
        py: Python<'py>,
        facts: &NodeFacts,
    ) -> Result<Bound<'py, PyAny>, HandlerLoadError> {
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
    ) -> Result<Bound<'py, PyAny>, HandlerLoadError> {
        let path = &facts.handler_path;
        let class = space
            .call_method0("run")
            .map_err(|error| raised(py, facts, &error))?;
        if !class.is_instance_of::<PyType>() {
            return Err(HandlerLoadError::NoClass(path.clone()));
        }
        if !has(&class, "execute") {
            return Err(HandlerLoadError::NoExecute(path.clone()));
        }
        Ok(class)
    }

    /// Runs the steps of a load that need the lock.
    fn make(py: Python<'_>, facts: &NodeFacts) -> Result<Core, HandlerLoadError> {
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
    ) -> Result<Core, HandlerLoadError> {
        let path = &facts.handler_path;
        let failed = |error: PyErr| raised(py, facts, &error);
        let class = Self::class(py, facts, space)?;
        let object = space.call_method1("call", (&class,)).map_err(failed)?;
        let core = Core::new(&facts.node_name, &class, &object, space);
        let initialized = (|| {
            let Some(initialize) = object.getattr_opt("initialize")? else {
                return Ok(());
            };
            let reported = PyDict::new(py);
            reported.set_item("node_name", &facts.node_name)?;
            reported.set_item("input_names", &facts.input_names)?;
            reported.set_item("output_names", &facts.output_names)?;
            reported.set_item("outputs_names", &facts.output_names)?;
            reported.set_item("base_path", path.parent().map(Path::as_os_str))?;
            if let Some(params) = &facts.params {
                let dict = PyDict::new(py);
                for (key, value) in params {
                    dict.set_item(key, value)?;
                }
                reported.set_item("params", dict)?;
            }
            space.call_method1("call", (initialize, reported)).map(drop)
        })();
        match initialized {
            Ok(()) => Ok(core),
            Err(error) => {
                let failure = failed(error);
                core.finalize_now(py);
                Err(failure)
            }
        }
    }

    /// Returns the name of the node.
    #[must_use]
    pub fn node_name(&self) -> &str {
        &self.facts.node_name
    }

    /// Returns whether instances have a state. Without, opening and closing one does not run Python.
    #[must_use]
    pub fn stateful(&self) -> bool {
        self.core.stateful
    }

    /// Creates the instance for one run of a graph.
    #[must_use]
    pub fn instance(self: &Arc<Self>) -> HandlerInstance {
        HandlerInstance::new(Arc::clone(self))
    }

    /// Shuts down the handler: no new calls begin, calls in flight end, then `finalize` is called
    /// if the class has it; once, however often this is called. A state of an instance and a
    /// generator count as calls until they are closed.
    ///
    /// Blocks until that is done, but for a limited time: after 10 seconds the last call finalizes
    /// when it ends.
    pub fn finalize(&self) {
        self.core.finalize(PATIENCE);
    }

    /// Runs short work on this thread, or returns it: if the handler's calls take long, or if other
    /// threads are in Python now.
    ///
    /// # Errors
    ///
    /// Returns the work, to be run by [`elsewhere`](Self::elsewhere).
    pub fn try_here<T, F: FnOnce() -> T>(&self, work: F) -> Result<T, F> {
        self.calls.here(work)
    }

    /// Runs work on a thread that may block, when a slot is free. Work that has begun goes on if
    /// the future is dropped.
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

/// Returns whether the `execute` of a class is detectably a generator function.
fn is_generator(class: &Bound<'_, PyAny>) -> bool {
    let reported = || {
        let execute = class.getattr("execute")?;
        let inspect = class.py().import("inspect")?;
        inspect
            .call_method1("isgeneratorfunction", (execute,))?
            .is_truthy()
    };
    reported().unwrap_or(false)
}

/// Converts an exception raised by the code of a handler.
fn raised(py: Python<'_>, facts: &NodeFacts, error: &PyErr) -> HandlerLoadError {
    HandlerLoadError::Raised {
        path: facts.handler_path.clone(),
        raised: describe::raised(py, error),
    }
}

impl Drop for PythonHandler {
    fn drop(&mut self) {
        if self.core.is_open() {
            let core = Arc::clone(&self.core);
            aside(&self.core, move || core.finalize(Duration::ZERO));
        }
    }
}

impl fmt::Debug for PythonHandler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Handler")
            .field("facts", &self.facts)
            .finish_non_exhaustive()
    }
}
