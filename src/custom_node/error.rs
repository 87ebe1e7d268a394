//! Errors of a library, a node, and a run.

use std::path::PathBuf;

use super::outputs::EXPECTED_ENTRIES;
use crate::error::Error;

/// Error of loading a library of custom nodes. The texts are the lines of the log.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The path goes through `..`.
    #[error("Path {} escape with .. is forbidden.", .0.display())]
    Escape(PathBuf),
    /// A file that is missing, or is no library that this machine can load.
    #[error(
        "Library name: {name} failed to open base_path: {} with error: {reason}",
        path.display()
    )]
    Open {
        /// The name of the library.
        name: String,
        /// The file.
        path: PathBuf,
        /// Error of the system.
        reason: String,
    },
    /// One of the six functions is missing.
    #[error("Failed to load library name: {name} with error: {reason}")]
    Symbol {
        /// The name of the library.
        name: String,
        /// Error of the system.
        reason: String,
    },
}

impl LibraryError {
    /// Returns why the library does not open, for texts that have its name anyway.
    pub fn into_reason(self) -> String {
        match self {
            Self::Open { reason, .. } | Self::Symbol { reason, .. } => reason,
            Self::Escape(_) => self.to_string(),
        }
    }
}

/// Error of making a custom node, or of reading its inputs and outputs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// A parameter has a zero byte, where its text would end in C.
    #[error("parameter `{key}` has a zero byte; library `{library}` cannot take it")]
    Parameter {
        /// The name of the library.
        library: String,
        /// The key of the parameter.
        key: String,
    },
    /// `initialize`, `getInputsInfo`, or `getOutputsInfo` failed.
    #[error("`{function}` of library `{library}` returned {code}, expected 0")]
    Call {
        /// The name of the library.
        library: String,
        /// The function.
        function: &'static str,
        /// Return code.
        code: i32,
    },
    /// Missing array.
    #[error("`{function}` of library `{library}` returned no array")]
    NoArray {
        /// The name of the library.
        library: String,
        /// The function.
        function: &'static str,
    },
    /// The array cannot have so many entries.
    #[error(
        "`{function}` of library `{library}` returned {count} entries, expected {EXPECTED_ENTRIES}"
    )]
    Count {
        /// The name of the library.
        library: String,
        /// The function.
        function: &'static str,
        /// The number that it gave.
        count: i32,
    },
}

/// Makes the error of a run, whatever the request was: clients get the status that they know, the
/// log also what happened.
pub(super) fn failed(status: &str, what: String) -> Error {
    Error::internal(status).with_source(what)
}
