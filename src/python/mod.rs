//! Python nodes: handlers that run in worker processes.
//!
//! A [`WorkerGroup`] has the workers of a graph or a pipeline. [`PythonHandler::load`] runs a handler file in each of
//! them and creates its `OvmsPythonModel`; the first one starts them. A [`HandlerInstance`] is the use of a handler by
//! one run of a graph; it [executes](HandlerInstance::execute) with [`HandlerTensor`]s. The package `pyovms`, which
//! handlers import and workers run, is carried by this program (`worker/package.rs`), without the feature `python` but for
//! its compiled part, so that no handler loads.
//!
//! # Processes
//!
//! A process for each interpreter forks the workers, adopts what they leave behind, and kills all of them when the
//! server has gone, however that comes (`worker/zygote.rs`). A worker that dies fails the calls in flight there and is
//! replaced (`worker/group.rs`).
//!
//! # Memory
//!
//! Small tensors are within the messages of the link. The bytes of a large one are copied once into memory that both
//! sides have, where Python sees them; a result that lies there is not copied. What another node of the worker gets
//! alone does not leave it. What the server hands to workers is charged to its budget, and so are their results while it
//! has them (`worker/link/tensors.rs`).

mod environment;
mod error;
mod handler;
mod instance;
mod survey;
mod tensor;
mod worker;

#[cfg(test)]
#[cfg(feature = "python")]
pub(crate) mod tests;

use std::{path::PathBuf, sync::atomic::Ordering, time::Duration};

pub use environment::{configure, environment_error};
pub use error::{
    HandlerError, HandlerLoadError, Misfit, OF_TRITON, Raised, brief, handler_near, is_of_triton,
};
pub use handler::{HandlerFacts, PythonHandler};
pub use instance::{HandlerGenerator, HandlerInstance};
use serde::{Deserialize, Serialize};
pub use survey::survey;
pub use tensor::HandlerTensor;
pub(crate) use worker::WorkerSeat;
use worker::group::COMMON;
pub use worker::{
    HandlerLoad, PACKAGE, PythonEnvironment, WORKER_OPTIONS, WorkerGroup, WorkerOptions, end_loads,
};

use crate::budget::Budget;

/// Type stubs of the module `pyovms`, for editors and type checkers.
pub const STUB: &str = include_str!("../../pyovms/python/pyovms/__init__.pyi");

/// Support of Python in this build.
pub const AVAILABLE: bool = cfg!(feature = "python");

/// Returns version and paths of the interpreter, once one has started.
pub fn describe() -> Option<String> {
    COMMON.description.lock().clone()
}

/// Terminal of this process, for handlers.
#[derive(Debug, Clone, Copy)]
pub struct HandlerTerminal {
    /// Shows a text, such as where a worker was that has died.
    pub show: fn(&str),
    /// Clears what is drawn there for good: the code of handlers runs from now on, and may begin a debugger.
    pub clear: fn(),
    /// Indicates that somebody can type there, and so may be at the prompt of a debugger: calls may then take as long
    /// as they like.
    pub has_keyboard: bool,
    /// Makes workers show there what handlers raise, first.
    pub shows_raised: bool,
}

/// Gives workers the terminal of this process, so that handlers can be debugged there, instead of logging what they
/// print. Applies to workers that start afterwards.
pub fn give_terminal(terminal: HandlerTerminal) {
    // Once is enough.
    let _ = COMMON.terminal.set(terminal);
}

/// Asks all workers where their handlers are, as `/m/model.py:3 in execute`; `None` if they are nowhere.
pub async fn handler_places() -> Option<String> {
    let mut places = Vec::new();
    for link in COMMON.links() {
        places.extend(link.handler_places().await);
    }
    (!places.is_empty()).then(|| places.join(", and at "))
}

/// Asks all workers whether Python's debugger has stopped a handler.
pub async fn is_debugged() -> bool {
    for link in COMMON.links() {
        if link.is_debugged().await {
            return true;
        }
    }
    false
}

/// Charges the memory that is shared with workers. Applies to those of graphs and pipelines that are loaded afterwards.
pub fn charge(budget: &Budget) {
    COMMON.charge(budget);
}

/// Sets the most calls in flight, of one handler and of all handlers of a graph or pipeline; further calls wait. One
/// handler should not have all of them, so that one with hanging calls leaves some for the others. Applies to what is
/// loaded afterwards.
pub fn set_limits(per_handler: usize, per_group: usize) {
    COMMON
        .per_handler
        .store(per_handler.max(1), Ordering::Relaxed);
    COMMON.per_group.store(per_group.max(1), Ordering::Relaxed);
}

/// Ends all workers, whatever they do, and waits until they have gone, but no longer than a limit.
pub fn stop(limit: Duration) {
    worker::stop(limit);
}

/// Description of the interpreter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PythonSurvey {
    /// Version, such as `3.11.2`.
    pub version: String,
    /// Installation or environment whose packages handlers see.
    pub prefix: PathBuf,
    /// Path of the interpreter.
    pub program: PathBuf,
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
    /// Its outputs, in the order of the file that configures it.
    pub outputs: Vec<HandlerOutput>,
    /// Absolute path of the handler file.
    pub handler_path: PathBuf,
    /// Additional parameters of the configuration, passed to `initialize` under `params`; `None`
    /// where nodes have no parameters.
    pub params: Option<Vec<(String, String)>>,
}

/// An output of a node, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerOutput {
    /// Name.
    pub name: String,
    /// Indicates that something other than a Python node of the same workers takes it.
    pub has_contents: bool,
    /// Indicates that another Python node of the same workers may get it.
    pub has_object: bool,
}

impl HandlerOutput {
    /// Describes an output that leaves the worker.
    pub fn outward(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            has_contents: true,
            has_object: false,
        }
    }

    fn message(&self) -> pyovms::message::Output {
        pyovms::message::Output {
            name: self.name.clone(),
            contents: self.has_contents,
            object: self.has_object,
        }
    }
}

/// Result of `execute`.
#[derive(Debug)]
pub enum Produced {
    /// List of tensors.
    Outputs(Vec<HandlerTensor>),
    /// Generator, which has begun.
    Generator(HandlerGenerator),
    /// `None`, where that is allowed.
    Nothing,
}
