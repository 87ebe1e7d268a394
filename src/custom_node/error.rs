//! Errors of a library, a node, and a call.
//!
//! The text of an error says what happened; its `status` is the text that clients and operators of
//! model servers know for it.

use std::path::PathBuf;

use crate::error::Error;

/// Why a library of custom nodes cannot be used. The texts are the lines of the log.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The path goes through `..`.
    #[error("Path {} escape with .. is forbidden.", .0.display())]
    Escape(PathBuf),
    /// There is no such file, or it is no library that this machine can load.
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
    #[must_use]
    pub fn into_reason(self) -> String {
        match self {
            Self::Open { reason, .. } | Self::Symbol { reason, .. } => reason,
            Self::Escape(_) => self.to_string(),
        }
    }

    /// Returns the text that operators know.
    #[must_use]
    pub const fn status(&self) -> &'static str {
        match self {
            Self::Escape(_) => "The provided base path is invalid or doesn't exists",
            Self::Open { .. } => "Custom node library failed to open",
            Self::Symbol { .. } => "Custom node library failed to load symbol",
        }
    }
}

/// Why a node cannot be made, or does not tell its inputs and outputs.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// A parameter has a zero byte, where its text would end in C.
    #[error("parameter `{key}` has a zero byte; library `{library}` cannot take it")]
    Parameter {
        /// The name of the library.
        library: String,
        /// The key of the parameter.
        key: String,
    },
    /// `initialize` failed.
    #[error("`initialize` of library `{library}` returned {code}, expected 0")]
    Initialize {
        /// The name of the library.
        library: String,
        /// Return code.
        code: i32,
    },
    /// `getInputsInfo` or `getOutputsInfo` failed.
    #[error("`{function}` of library `{library}` returned {code}, expected 0")]
    Metadata {
        /// The name of the library.
        library: String,
        /// The function.
        function: &'static str,
        /// Return code.
        code: i32,
    },
    /// There is no array.
    #[error("`{function}` of library `{library}` returned no array")]
    NoArray {
        /// The name of the library.
        library: String,
        /// The function.
        function: &'static str,
    },
    /// The array cannot have so many entries.
    #[error("`{function}` of library `{library}` returned {count} entries, expected {expected}")]
    Count {
        /// The name of the library.
        library: String,
        /// The function.
        function: &'static str,
        /// The number that it gave.
        count: i32,
        /// Allowed values.
        expected: &'static str,
    },
}

impl NodeError {
    /// Returns the text that operators know.
    #[must_use]
    pub const fn status(&self) -> &'static str {
        match self {
            Self::Parameter { .. } | Self::Initialize { .. } => {
                "Failure during custom node library initialization"
            }
            Self::Metadata { .. } => "Custom node failed on metadata call",
            Self::NoArray { .. } => NO_OUTPUTS,
            Self::Count { .. } => BAD_COUNT,
        }
    }
}

/// Why a node gave no outputs.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The name of an input has a zero byte, where its text would end in C.
    #[error("input name `{}` has a zero byte; library `{library}` cannot take it", .name.escape_debug())]
    InputName {
        /// The name of the library.
        library: String,
        /// The name of the input.
        name: String,
    },
    /// `execute` failed.
    #[error("`execute` of library `{library}` returned {code}, expected 0")]
    Execute {
        /// The name of the library.
        library: String,
        /// Return code.
        code: i32,
    },
    /// There is no array of outputs.
    #[error("`execute` of library `{library}` returned no array")]
    NoArray {
        /// The name of the library.
        library: String,
    },
    /// The array cannot have so many outputs.
    #[error("`execute` of library `{library}` returned {count} outputs, expected {expected}")]
    Count {
        /// The name of the library.
        library: String,
        /// The number that it gave.
        count: i32,
        /// Allowed values.
        expected: &'static str,
    },
    /// An output has no name.
    #[error("output {index} of library `{library}` has no name")]
    Name {
        /// The name of the library.
        library: String,
        /// The place of the output.
        index: usize,
    },
    /// An output has no type.
    #[error("output `{name}` of library `{library}` has precision {precision}, expected 1 to 9")]
    Precision {
        /// The name of the library.
        library: String,
        /// The name of the output.
        name: String,
        /// The number that it gave.
        precision: i32,
    },
    /// The bytes of an output are not those of its type and shape.
    #[error("output `{name}` of library `{library}`: {reason}")]
    Size {
        /// The name of the library.
        library: String,
        /// The name of the output.
        name: String,
        /// Reason.
        reason: String,
    },
    /// An output that is asked for is not there.
    #[error("found no output `{name}`; the node returned {found}")]
    Missing {
        /// The name of the output.
        name: String,
        /// The names that there are.
        found: String,
    },
}

impl CallError {
    /// Returns the text that clients know.
    #[must_use]
    pub const fn status(&self) -> &'static str {
        match self {
            Self::InputName { .. } | Self::Execute { .. } => "Custom node failed during execution",
            Self::NoArray { .. } => NO_OUTPUTS,
            Self::Count { .. } => BAD_COUNT,
            Self::Name { .. } => "Custom node output is missing name",
            Self::Precision { .. } => "Custom node has produced tensor with unspecified precision",
            Self::Size { .. } => "Custom node output has invalid content size",
            Self::Missing { .. } => "Custom node output is missing",
        }
    }
}

impl From<CallError> for Error {
    /// The error is the node's, whatever the request was: clients get the text they know, the log
    /// also what happened.
    fn from(error: CallError) -> Self {
        Self::internal(error.status()).with_source(error)
    }
}

const NO_OUTPUTS: &str = "Custom node library has returned corrupted outputs handle";
const BAD_COUNT: &str = "Custom node library has produced corrupted number of outputs";
