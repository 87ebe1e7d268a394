//! Formatting of exceptions.

use pyo3::prelude::*;

use super::{error::Raised, loading};

/// Maximum number of characters of a message to clients.
const MESSAGE: usize = 4096;

/// Maximum number of characters of a traceback in the log.
const TRACEBACK: usize = 32_768;

/// Describes an exception. Never fails: unreadable parts are named.
pub(super) fn raised(py: Python<'_>, error: &PyErr) -> Raised {
    let value = error.value(py);
    let reported = loading::tools(py).and_then(|tools| {
        tools
            .describe
            .bind(py)
            .call1((value, error.traceback(py), MESSAGE, TRACEBACK))?
            .extract::<(String, String, String)>()
    });
    match reported {
        Ok((kind, message, traceback)) => Raised {
            kind,
            message,
            traceback,
        },
        Err(_) => Raised::error(
            &error.get_type(py).name().map_or_else(
                |_| "Exception".to_owned(),
                |name| name.to_string_lossy().into_owned(),
            ),
            "the exception cannot be told",
        ),
    }
}
