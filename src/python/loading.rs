//! Bindings to the part of the loader written in Python.

use std::{
    ffi::CString,
    sync::atomic::{AtomicBool, Ordering},
};

use pyo3::{
    exceptions::PyRuntimeError,
    prelude::*,
    sync::PyOnceLock,
    types::{PyAny, PyCFunction, PyModule},
};

/// Objects of `loading.py`.
pub(super) struct Tools {
    /// Class of the modules of a handler.
    pub(super) space: Py<PyAny>,
    /// Function that describes an exception.
    pub(super) describe: Py<PyAny>,
    /// Function that frees the objects left behind by a handler.
    pub(super) collect: Py<PyAny>,
}

/// Whether the output of handlers goes to the log.
static PRINTS_TO_LOG: AtomicBool = AtomicBool::new(false);

/// Redirects the output of handlers to log events, a line each, for structured logs. Takes effect
/// if the interpreter has not started yet.
pub fn print_to_log() {
    PRINTS_TO_LOG.store(true, Ordering::Relaxed);
}

fn prints_to_log() -> bool {
    PRINTS_TO_LOG.load(Ordering::Relaxed)
}

static TOOLS: PyOnceLock<Tools> = PyOnceLock::new();

/// Loads the tools; once, at the start of the interpreter.
pub(super) fn prepare(py: Python<'_>) -> PyResult<()> {
    let code = CString::new(include_str!("loading.py"))?;
    let module = PyModule::from_code(py, &code, c"<ovms loading>", c"_ovms_loading")?;
    if prints_to_log() {
        let sys = py.import("sys")?;
        let class = module.getattr("Lines")?;
        for name in ["stdout", "stderr"] {
            let emit = PyCFunction::new_closure(py, None, None, move |args, _| {
                let line: String = args.get_item(0)?.extract()?;
                // The reader of the log may be slow; other handlers must not wait for that.
                args.py().detach(|| {
                    tracing::info!(target: "ovms::python", stream = name, "{line}");
                });
                PyResult::Ok(())
            })?;
            sys.setattr(name, class.call1((emit, sys.getattr(name)?))?)?;
        }
    }
    let part = |name| module.getattr(name).map(Bound::unbind);
    let tools = Tools {
        space: part("Space")?,
        describe: part("describe")?,
        collect: part("collect")?,
    };
    let _ = TOOLS.set(py, tools);
    Ok(())
}

/// Returns the tools.
pub(super) fn tools(py: Python<'_>) -> PyResult<&'static Tools> {
    TOOLS
        .get(py)
        .ok_or_else(|| PyRuntimeError::new_err("the interpreter has not started"))
}
