//! Description of the interpreter, for troubleshooting.

use std::path::PathBuf;

use pyo3::prelude::*;

use super::{
    PythonSurvey, describe,
    interpreter::{attach, library, start},
};

/// Starts the interpreter unless it is running, and describes it. Blocks for as long as `import
/// numpy` takes.
///
/// # Errors
///
/// Fails if the interpreter does not start.
pub fn survey() -> Result<PythonSurvey, String> {
    start()?;
    attach(|py| {
        let prefix: PathBuf = py.import("sys")?.getattr("prefix")?.extract()?;
        let numpy = py
            .import("numpy")
            .and_then(|numpy| numpy.getattr("__version__")?.extract())
            .map_err(|error| describe::raised(py, &error).to_string());
        let version = Python::version_str().split_whitespace().next();
        PyResult::Ok(PythonSurvey {
            version: version.unwrap_or_default().to_owned(),
            prefix,
            library: library(),
            numpy,
        })
    })
    .map_err(|error| error.to_string())
}
