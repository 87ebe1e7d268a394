//! Use of a handler by one run of a graph: its state, and the calls.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use pyo3::{
    exceptions::PyTypeError,
    intern,
    prelude::*,
    types::{PyAny, PyDict, PyIterator, PyList},
};

use super::{
    Produced,
    aside::aside,
    capture::capture,
    class::{PyTensor, kind},
    describe,
    error::Raised,
    handler::PythonHandler,
    interpreter,
    life::Running,
    tensor::HandlerTensor,
};

/// Handler for one instance of a graph.
///
/// Its calls block, so run them by [`PythonHandler::try_here`] and [`PythonHandler::elsewhere`].
pub struct HandlerInstance {
    handler: Arc<PythonHandler>,
    state: Mutex<Option<Arc<State>>>,
}

/// Object returned by `create_state`. Generators share it, so that it is destroyed after the last
/// of them; every owner [releases](release) it. The handler is not finalized before.
struct State {
    value: Py<PyAny>,
    running: Running,
}

impl HandlerInstance {
    pub(super) fn new(handler: Arc<PythonHandler>) -> Self {
        Self {
            handler,
            state: Mutex::new(None),
        }
    }

    /// Returns whether each instance has a state of its own.
    #[must_use]
    pub fn has_state(&self) -> bool {
        self.handler.core().stateful
    }

    /// Creates the state of this instance, if the class has `create_state`.
    ///
    /// # Errors
    ///
    /// Fails if that raises an exception.
    pub fn open(&self) -> Result<(), Raised> {
        if !self.handler.core().stateful {
            return Ok(());
        }
        let running = self.handler.core().enter()?;
        let state = interpreter::attach(|py| {
            running
                .object(py)
                .and_then(|object| object.call_method0(intern!(py, "create_state")))
                .map(Bound::unbind)
                .map_err(|error| self.reported(py, &error))
        })?;
        *self.state() = Some(Arc::new(State {
            value: state,
            running,
        }));
        Ok(())
    }

    /// Calls `execute`. `complete` means that all inputs of the node are present; only without that
    /// may it return `None`.
    ///
    /// # Errors
    ///
    /// Fails if it raises an exception, or if its result is invalid.
    pub fn execute(&self, inputs: &[HandlerTensor], complete: bool) -> Result<Produced, Raised> {
        let (running, state) = match &*self.state() {
            Some(state) => (state.running.again(), Some(Arc::clone(state))),
            None => (self.handler.core().enter()?, None),
        };
        let produced = interpreter::attach(|py| {
            let done = (|| {
                let inputs = inputs
                    .iter()
                    .map(|tensor| PyTensor::of(py, tensor))
                    .collect::<PyResult<Vec<_>>>()?;
                let inputs = PyList::new(py, inputs)?;
                let execute = intern!(py, "execute");
                let object = running.object(py)?;
                match &state {
                    None => object.call_method1(execute, (inputs,)),
                    Some(state) => {
                        let named = PyDict::new(py);
                        named.set_item(intern!(py, "state"), state.value.bind(py))?;
                        object.call_method(execute, (inputs,), Some(&named))
                    }
                }
            })();
            done.and_then(|done| self.produced(done, complete, running, state.as_ref()))
                .map_err(|error| self.reported(py, &error))
        });
        release(state);
        produced
    }

    /// Returns the next outputs of a generator; `None` if it has ended.
    ///
    /// # Errors
    ///
    /// Fails if it raises an exception, or if it yields anything but a list of tensors. The
    /// generator is over then.
    pub fn next(
        &self,
        generator: &mut HandlerGenerator,
    ) -> Result<Option<Vec<HandlerTensor>>, Raised> {
        let Some(object) = generator.object.as_ref().map(Arc::clone) else {
            return Ok(None);
        };
        let next = interpreter::attach(|py| {
            let next = object
                .bind(py)
                .clone()
                .cast_into::<PyIterator>()
                .map_err(PyErr::from)
                .and_then(|mut iterator| iterator.next().transpose())
                .and_then(|next| next.map(|next| yielded(&next)).transpose())
                .map_err(|error| self.reported(py, &error));
            if matches!(next, Ok(None)) {
                // It has ended by itself; there is nothing to close.
                generator.object = None;
                drop(object);
            }
            next
        });
        if generator.object.is_none() {
            generator.running = None;
            release(generator.state.take());
        }
        if next.is_err() {
            generator.close();
        }
        next
    }

    /// Closes the state of this instance, if it has one: calls `destroy_state` if the class has
    /// that; after the end of its generators, if some have not ended.
    pub fn close(&self) {
        let state = self.state().take();
        release(state);
    }

    /// Validates the result of `execute`.
    fn produced(
        &self,
        done: Bound<'_, PyAny>,
        complete: bool,
        running: Running,
        state: Option<&Arc<State>>,
    ) -> PyResult<Produced> {
        if let Ok(list) = done.cast::<PyList>() {
            return outputs(list, "execute must return a list of pyovms.Tensor")
                .map(Produced::Outputs);
        }
        if done.is_none() && !complete {
            return Ok(Produced::Nothing);
        }
        if done.cast::<PyIterator>().is_ok() {
            return Ok(Produced::Generator(HandlerGenerator {
                object: Some(Arc::new(done.unbind())),
                running: Some(running),
                state: state.map(Arc::clone),
            }));
        }
        Err(PyTypeError::new_err(format!(
            "execute must return a list of pyovms.Tensor or a generator; it returned {}",
            kind(&done)
        )))
    }

    /// Describes an exception, and logs it.
    fn reported(&self, py: Python<'_>, error: &PyErr) -> Raised {
        let raised = describe::raised(py, error);
        tracing::error!(
            node = self.handler.node_name(),
            "Error occurred during node execution: {} - {raised}\n{}",
            self.handler.node_name(),
            raised.traceback.trim_end()
        );
        raised
    }

    fn state(&self) -> MutexGuard<'_, Option<Arc<State>>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HandlerInstance {
    fn drop(&mut self) {
        if let Some(state) = self.state().take() {
            let handler = Arc::clone(&self.handler);
            aside(self.handler.core(), move || {
                release(Some(state));
                drop(handler);
            });
        }
    }
}

impl fmt::Debug for HandlerInstance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Instance")
            .field("node", &self.handler.node_name())
            .finish_non_exhaustive()
    }
}

/// Releases a state, which is destroyed if this is the last reference.
fn release(state: Option<Arc<State>>) {
    if let Some(state) = state.and_then(Arc::into_inner) {
        destroy(state);
    }
}

/// Destroys a state.
fn destroy(state: State) {
    let State { value, running } = state;
    interpreter::attach(|py| {
        let core = running.core();
        if core.destroys {
            let done = running.object(py).and_then(|object| {
                object.call_method1(intern!(py, "destroy_state"), (value.bind(py),))
            });
            if let Err(error) = done {
                let raised = describe::raised(py, &error);
                tracing::error!(
                    node = core.node_name(),
                    "Failed to process python node destroy_state method: {raised}\n{}",
                    raised.traceback.trim_end()
                );
            }
        }
        drop(value);
    });
}

/// Validates an item yielded by a generator.
fn yielded(value: &Bound<'_, PyAny>) -> PyResult<Vec<HandlerTensor>> {
    let rule = "execute must yield lists of pyovms.Tensor";
    match value.cast::<PyList>() {
        Ok(list) => outputs(list, rule),
        Err(_) => Err(PyTypeError::new_err(format!(
            "{rule}; it yielded {}",
            kind(value)
        ))),
    }
}

/// Captures the tensors of a list.
fn outputs(list: &Bound<'_, PyList>, rule: &str) -> PyResult<Vec<HandlerTensor>> {
    list.iter()
        .enumerate()
        .map(|(index, element)| match element.cast::<PyTensor>() {
            Ok(tensor) => capture(tensor),
            Err(_) => Err(PyTypeError::new_err(format!(
                "{rule}; element {index} of the list is {}",
                kind(&element)
            ))),
        })
        .collect()
}

/// Generator of outputs that has not ended. Dropping it closes it: the handler sees
/// `GeneratorExit`, on another thread, and is not finalized before.
pub struct HandlerGenerator {
    object: Option<Arc<Py<PyAny>>>,
    running: Option<Running>,
    state: Option<Arc<State>>,
}

impl HandlerGenerator {
    fn close(&mut self) {
        let (Some(object), Some(running)) = (self.object.take(), self.running.take()) else {
            return;
        };
        let state = self.state.take();
        let core = Arc::clone(running.shared());
        aside(&core, move || {
            interpreter::attach(|py| {
                // Iterators of other kinds have nothing to close.
                let closed = object
                    .bind(py)
                    .getattr_opt(intern!(py, "close"))
                    .and_then(|close| close.map(|close| close.call0()).transpose());
                if let Err(error) = closed {
                    let raised = describe::raised(py, &error);
                    let node = running.core().node_name();
                    tracing::error!(
                        node,
                        "Failed to close the generator of python node {node}: {raised}\n{}",
                        raised.traceback.trim_end()
                    );
                }
                drop(object);
            });
            release(state);
            drop(running);
        });
    }
}

impl Drop for HandlerGenerator {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for HandlerGenerator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Generator")
            .field("ended", &self.object.is_none())
            .finish_non_exhaustive()
    }
}
