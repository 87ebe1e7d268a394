//! Python nodes: handlers that run in an interpreter of this process.
//!
//! [`Handler::load`] runs a handler file and makes its `OvmsPythonModel`; the first one starts the
//! interpreter. An [`Instance`] is what one run of a graph has of it; it [executes](Instance::execute)
//! with [`Tensor`]s. The module `pyovms`, which handlers import, is built in.
//!
//! The interpreter's lock is held only while Python runs. Short calls run on the thread of their
//! caller ([`Handler::try_here`]), all others on threads that may block ([`Handler::elsewhere`]).
//!
//! # Modules
//!
//! `loading.py`, which is built in, gives each handler a package of its own with a name that nobody
//! else has. The file and the modules beside it are compiled from their sources, each time, and
//! `import` in them looks there first. In order: the standard library; modules beside the handler,
//! unless they are handlers or folders without `__init__.py` and something is installed under that
//! name; what is installed. Two nodes with the same file share nothing, not even its helpers.
//!
//! # Memory
//!
//! A request's bytes reach Python without a copy and live as long as somebody has the tensor. What a
//! handler returns is taken when it returns: copied, unless it is large and nobody can change it any
//! more (`capture.rs`). To the next Python node it goes as the object that it is.
//!
//! # Ends
//!
//! States of instances and suspended generators count as calls; a handler is finalized after the
//! last of them, once. What nobody waits for is closed by threads of its own (`aside.rs`). The
//! interpreter never ends, and neither `sys.exit` nor `os._exit` of a handler ends the process.
//!
//! The only folder that knows the interpreter. Without the feature `python` everything is here as
//! well, but no handler loads.

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
    Generator, Handler, Instance, configure, describe, environment_error, print_to_log, set_limits,
    stop, survey,
};
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

/// The types of the module `pyovms`, for editors and type checkers.
pub const STUB: &str = include_str!("pyovms.pyi");

/// The module `pyovms` in Python alone, for tests of handlers without a server.
pub const PLAIN: &str = include_str!("plain/pyovms.py");

/// Whether this build can run Python.
pub const AVAILABLE: bool = cfg!(feature = "python");

/// What there is to tell of the interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PythonSurvey {
    /// Its version, such as `3.11.2`.
    pub version: String,
    /// The installation or environment whose packages handlers see.
    pub prefix: PathBuf,
    /// The shared library.
    pub library: Option<PathBuf>,
    /// The version of numpy, or why there is none.
    pub numpy: Result<String, String>,
}

/// What a handler is told about its node.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    /// The name of the node.
    pub node_name: String,
    /// The names of its inputs, in the order of the file that configures it.
    pub input_names: Vec<String>,
    /// The names of its outputs, in the order of the file that configures it.
    pub output_names: Vec<String>,
    /// The handler file, absolute.
    pub handler_path: PathBuf,
    /// What else the configuration says to it, as `initialize` is told under `params`; `None` where
    /// nodes have no parameters.
    pub params: Option<Vec<(String, String)>>,
}

/// What `execute` returned.
#[derive(Debug)]
pub enum Produced {
    /// A list.
    Outputs(Vec<HandlerTensor>),
    /// A generator, which has not begun.
    Generator(HandlerGenerator),
    /// `None`, where that is allowed.
    Nothing,
}
