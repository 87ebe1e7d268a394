//! The module `pyovms._pyovms` of Python.

mod calls;
mod contents;
mod crew;
mod format;
mod generators;
mod link;
mod loading;
mod results;
mod tensor;
mod view;

use std::sync::{Arc, OnceLock};

use pyo3::{prelude::*, types::PyAny};

use crate::memory::{Shared, forks};

/// Shared memory of this process; of its own, where there is no server, or it is another one than the server's worker.
fn shared() -> &'static Arc<Shared> {
    static CHILDS: OnceLock<Arc<Shared>> = OnceLock::new();
    let shared = if forks() == 0 { &SHARED } else { &CHILDS };
    shared.get_or_init(Shared::alone)
}

static SHARED: OnceLock<Arc<Shared>> = OnceLock::new();

/// Returns the name of an object's type.
fn kind(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(
        |_| "?".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// The parts of the package that are written in Rust.
#[pymodule]
mod _pyovms {
    use pyo3::{
        prelude::*,
        types::{PyAny, PyDict},
    };

    #[pymodule_export]
    use super::tensor::PyTensor;
    use super::tensor::{dimensions, text};

    /// A tensor whose memory the server sees as well, so that sending it needs no copy: numpy.asarray(tensor) is an
    /// array that can be written to. Its contents are anything at first.
    #[pyfunction]
    fn empty(
        name: &Bound<'_, PyAny>,
        shape: &Bound<'_, PyAny>,
        datatype: &Bound<'_, PyAny>,
    ) -> PyResult<PyTensor> {
        let (name, datatype) = (text("name", name)?, text("datatype", datatype)?);
        PyTensor::empty(super::shared(), &name, dimensions(shape)?, &datatype)
    }

    /// The trace that the request belongs to whose code this thread runs, as the headers `traceparent` and, if there is
    /// one, `tracestate`; empty if it is not traced.
    #[pyfunction]
    fn trace_context(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let headers = PyDict::new(py);
        if let Some(trace) = super::calls::current_trace() {
            headers.set_item("traceparent", &trace.traceparent)?;
            if !trace.tracestate.is_empty() {
                headers.set_item("tracestate", &trace.tracestate)?;
            }
        }
        Ok(headers)
    }

    /// Makes this process the parent of what its descendants leave behind.
    #[pyfunction]
    fn _adopt() -> PyResult<()> {
        let own = rustix::process::getpid();
        rustix::process::set_child_subreaper(Some(own)).map_err(std::io::Error::from)?;
        Ok(())
    }

    /// Makes the system send this process a signal when its parent ends.
    #[pyfunction]
    fn _signal_at_parents_end(number: i32) -> PyResult<()> {
        let signal = rustix::process::Signal::from_named_raw(number);
        rustix::process::set_parent_process_death_signal(signal).map_err(std::io::Error::from)?;
        Ok(())
    }

    /// Serves a socket until its other side has closed it; at most so many bytes are shared with that at once.
    #[pyfunction]
    fn _serve(py: Python<'_>, socket: i32, tools: &Bound<'_, PyAny>, limit: u64) -> PyResult<()> {
        super::link::serve(py, socket, tools, limit)
    }

    /// Takes in that this process was forked by the worker, whose link and memory are not its own.
    #[pyfunction]
    fn _forked() {
        crate::memory::forked();
    }

    /// Takes in that this thread has printed the beginning of a line.
    #[pyfunction]
    fn _begin_line() {
        super::calls::begin_line();
    }

    /// The name of the node whose code this thread runs, for its output.
    #[pyfunction]
    fn _node() -> Option<String> {
        super::calls::current_node()
    }
}
