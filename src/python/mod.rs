//! Python nodes: handlers that run in an interpreter of this process.
//!
//! [`PythonHandler::load`] runs a handler file and creates its `OvmsPythonModel`; the first one
//! starts the interpreter. A [`HandlerInstance`] is its use by one run of a graph; it
//! [executes](HandlerInstance::execute) with [`HandlerTensor`]s. The module `pyovms`, which handlers
//! import, is built in.
//!
//! The interpreter's lock is held only while Python runs. Short calls run on the thread of their
//! caller ([`PythonHandler::try_here`]), all others on threads that may block
//! ([`PythonHandler::elsewhere`]).
//!
//! # Modules
//!
//! `loading.py`, which is built in, gives each handler a package of its own with a unique name. The
//! file and the modules beside it are compiled from their sources, each time, and `import` in them
//! looks there first. In order: the standard library; modules beside the handler, unless they are
//! handlers or folders without `__init__.py` and something is installed under that name; installed
//! packages. Two nodes with the same file share nothing, not even its helpers.
//!
//! # Memory
//!
//! A request's bytes reach Python without a copy and live as long as the tensor is referenced.
//! Results are captured when a handler returns: copied, unless they are large and can no longer be
//! changed (`capture.rs`). They are passed to the next Python node as the same object.
//!
//! # Shutdown
//!
//! States of instances and suspended generators count as calls; a handler is finalized after the
//! last of them, once. Objects nobody waits for are closed by separate threads (`aside.rs`). The
//! interpreter never ends, and neither `sys.exit` nor `os._exit` of a handler ends the process.
//!
//! The interpreter is used in this folder only. Without the feature `python` all items are still
//! available, but no handler loads.

mod error;
mod tensor;

#[cfg(feature = "python")]
mod aside;
#[cfg(feature = "python")]
mod capture;
#[cfg(feature = "python")]
mod class;
#[cfg(feature = "python")]
mod describe;
#[cfg(feature = "python")]
mod environment;
#[cfg(feature = "python")]
mod format;
#[cfg(feature = "python")]
mod handler;
#[cfg(feature = "python")]
mod instance;
#[cfg(feature = "python")]
mod interpreter;
#[cfg(feature = "python")]
mod life;
#[cfg(feature = "python")]
mod loading;
#[cfg(feature = "python")]
mod place;
#[cfg(feature = "python")]
mod survey;
#[cfg(feature = "python")]
mod view;
#[cfg(feature = "python")]
mod watch;

#[cfg(not(feature = "python"))]
mod off;

#[cfg(test)]
#[cfg(feature = "python")]
mod tests;

use std::path::PathBuf;

pub use error::{HandlerLoadError, Raised};
#[cfg(not(feature = "python"))]
pub use off::{
    HandlerGenerator, HandlerInstance, PythonHandler, configure, describe, environment_error,
    print_to_log, set_limits, stop, survey,
};
use serde::{Deserialize, Serialize};
pub use tensor::HandlerTensor;
#[cfg(feature = "python")]
pub use {
    environment::environment_error,
    handler::PythonHandler,
    instance::{HandlerGenerator, HandlerInstance},
    interpreter::{configure, describe, stop},
    loading::print_to_log,
    place::set_limits,
    survey::survey,
};

/// Type stubs of the module `pyovms`, for editors and type checkers.
pub const STUB: &str = include_str!("pyovms.pyi");

/// Pure Python implementation of the module `pyovms`, for tests of handlers without a server.
pub const PLAIN: &str = include_str!("plain/pyovms.py");

/// Whether this build can run Python.
pub const AVAILABLE: bool = cfg!(feature = "python");

/// Description of the interpreter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PythonSurvey {
    /// Version, such as `3.11.2`.
    pub version: String,
    /// Installation or environment whose packages handlers see.
    pub prefix: PathBuf,
    /// Path of the shared library.
    pub library: Option<PathBuf>,
    /// Version of numpy, or the reason for its absence.
    pub numpy: Result<String, String>,
}

/// Facts about a node that are passed to its handler.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    /// Name of the node.
    pub node_name: String,
    /// Names of its inputs, in the order of the file that configures it.
    pub input_names: Vec<String>,
    /// Names of its outputs, in the order of the file that configures it.
    pub output_names: Vec<String>,
    /// Absolute path of the handler file.
    pub handler_path: PathBuf,
    /// Additional parameters of the configuration, passed to `initialize` under `params`; `None`
    /// where nodes have no parameters.
    pub params: Option<Vec<(String, String)>>,
}

/// Result of `execute`.
#[derive(Debug)]
pub enum Produced {
    /// List of tensors.
    Outputs(Vec<HandlerTensor>),
    /// Generator, which has not begun.
    Generator(HandlerGenerator),
    /// `None`, where that is allowed.
    Nothing,
}
