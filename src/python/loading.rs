//! The part of loading that is written in Python.

use std::ffi::CString;

use pyo3::{
    exceptions::PyRuntimeError,
    prelude::*,
    sync::PyOnceLock,
    types::{PyAny, PyModule},
};

/// What `loading.py` offers.
pub(super) struct Tools {
    /// The class of the modules of a handler.
    pub(super) space: Py<PyAny>,
    /// Tells an exception.
    pub(super) describe: Py<PyAny>,
    /// Frees what a handler has left behind.
    pub(super) collect: Py<PyAny>,
}

static TOOLS: PyOnceLock<Tools> = PyOnceLock::new();

/// Loads them; once, at the start of the interpreter.
pub(super) fn prepare(py: Python<'_>) -> PyResult<()> {
    let code = CString::new(include_str!("loading.py"))?;
    let module = PyModule::from_code(py, &code, c"<ovms loading>", c"_ovms_loading")?;
    let part = |name| module.getattr(name).map(Bound::unbind);
    let tools = Tools {
        space: part("Space")?,
        describe: part("describe")?,
        collect: part("collect")?,
    };
    let _ = TOOLS.set(py, tools);
    Ok(())
}

/// Returns them.
pub(super) fn tools(py: Python<'_>) -> PyResult<&'static Tools> {
    TOOLS
        .get(py)
        .ok_or_else(|| PyRuntimeError::new_err("the interpreter has not started"))
}
