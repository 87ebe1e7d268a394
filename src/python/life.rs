//! State of a handler in Python: its object, the calls in flight, and its end.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Duration,
};

use pyo3::{prelude::*, types::PyAny};

use super::{aside::aside, describe, error::Raised, interpreter, loading};

/// Python part of a handler.
pub(super) struct Core {
    node_name: String,
    /// Object and lifecycle state.
    object: Mutex<Life>,
    ended: Condvar,
    /// Whether the class has `create_state` and `destroy_state`.
    pub(super) stateful: bool,
    pub(super) destroys: bool,
}

struct Life {
    model: Option<Model>,
    /// Number of calls in flight.
    running: usize,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// In use.
    Open,
    /// Rejects calls; `finalize` is to be called when the last one ends.
    Closing,
    /// `finalize` is being called.
    Finalizing,
    /// `finalize` has been called.
    Over,
}

/// Object and its modules.
struct Model {
    object: Arc<Py<PyAny>>,
    space: Py<PyAny>,
}

impl Core {
    /// Keeps an object of a class, and the modules loaded with it.
    pub(super) fn new(
        node_name: &str,
        class: &Bound<'_, PyAny>,
        object: &Bound<'_, PyAny>,
        space: &Bound<'_, PyAny>,
    ) -> Self {
        Self {
            node_name: node_name.to_owned(),
            object: Mutex::new(Life {
                model: Some(Model {
                    object: Arc::new(object.clone().unbind()),
                    space: space.clone().unbind(),
                }),
                running: 0,
                phase: Phase::Open,
            }),
            ended: Condvar::new(),
            stateful: has(class, "create_state"),
            destroys: has(class, "destroy_state"),
        }
    }

    /// Returns whether it is in use.
    pub(super) fn is_open(&self) -> bool {
        self.life().phase == Phase::Open
    }

    /// Returns the object for a call, which counts until the guard is dropped.
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
            _ => Err(Raised::error(
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
    pub(super) fn finalize(self: &Arc<Self>, patience: Duration) {
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
        // The thread that ends the last call, or has begun, does it.
        let _ = self
            .ended
            .wait_timeout_while(life, patience, |life| life.phase != Phase::Over);
    }

    /// Calls `finalize` and drops the object.
    pub(super) fn finalize_now(&self, py: Python<'_>) {
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

/// Returns whether a class has a method.
pub(super) fn has(class: &Bound<'_, PyAny>, name: &str) -> bool {
    let method = class.getattr_opt(name).ok().flatten();
    method.is_some_and(|method| method.is_callable())
}

/// Call in flight.
pub(super) struct Running {
    core: Arc<Core>,
    object: Option<Arc<Py<PyAny>>>,
}

impl Running {
    /// Returns another call; also while the handler is closing, because this one is not over.
    pub(super) fn again(&self) -> Self {
        self.core.life().running += 1;
        Self {
            core: Arc::clone(&self.core),
            object: self.object.clone(),
        }
    }

    /// Returns the handler of the call.
    pub(super) fn core(&self) -> &Core {
        &self.core
    }

    /// Returns a shared reference to the handler of the call.
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

/// Removes the modules of a handler.
pub(super) fn close(py: Python<'_>, space: &Py<PyAny>) {
    if let Err(error) = space.call_method0(py, "close") {
        tracing::warn!(
            "modules of a python handler stay: {}",
            describe::raised(py, &error)
        );
    }
}

/// Frees reference cycles.
pub(super) fn collect(py: Python<'_>) {
    if let Err(error) = loading::tools(py).and_then(|tools| tools.collect.call0(py)) {
        tracing::warn!(
            "objects of a python handler stay: {}",
            describe::raised(py, &error)
        );
    }
}
