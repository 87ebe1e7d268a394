//! Input of the check of a pipeline: models, and the custom nodes of libraries.

use std::path::Path;

use crate::{
    config::NodeConfig, custom_node::NodeError, python::HandlerLoadError, servable::ServableInfo,
};

pub use crate::servable::TensorSource;

/// Source of models and custom nodes.
pub trait Sources {
    /// Returns whether another servable than this pipeline has the name.
    fn name_taken(&self, name: &str) -> bool;

    /// Describes a version of a model, the default one if none is named.
    ///
    /// # Errors
    ///
    /// Fails if it is not there or not available.
    fn model(&self, name: &str, version: Option<i64>) -> Result<ModelFacts, MissingModel>;

    /// Initialises the custom node of a pipeline's node, if that has not been done, and describes
    /// it. It is called once for each custom node in a check.
    ///
    /// # Errors
    ///
    /// Fails if the library is not there, or a call of it fails.
    fn custom(&self, node: &NodeConfig, library: &str) -> Result<CustomFacts, CustomError>;

    /// Returns whether what the configuration calls a library is a Python handler. Nothing is run to
    /// find out.
    fn is_python(&self, _library: &str) -> bool {
        false
    }
}

/// A version of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFacts {
    /// Its inputs and outputs, under the names that clients use.
    pub info: ServableInfo,
    /// Marks a stateful model.
    pub stateful: bool,
    /// Indicates that its batch size or a shape is `auto`.
    pub auto: bool,
}

#[cfg(test)]
impl ModelFacts {
    /// Makes a model of tensors that have a type each.
    pub(crate) fn of(inputs: Vec<TensorSource>, outputs: Vec<TensorSource>) -> Self {
        let infos = |tensors: Vec<TensorSource>| {
            let info = |(port, tensor): (usize, TensorSource)| crate::servable::TensorInfo {
                name: tensor.name,
                dtype: tensor.dtype.expect("a model's tensor has a type"),
                shape: tensor.shape,
                layout: tensor.layout,
                is_open: false,
                port,
            };
            tensors.into_iter().enumerate().map(info).collect()
        };
        Self {
            info: ServableInfo::new(infos(inputs), infos(outputs)),
            stateful: false,
            auto: false,
        }
    }
}

/// Reason why a model cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MissingModel {
    /// No model of this name; the names that there are.
    Unknown(Vec<String>),
    /// No such version; the versions that there are.
    Version(Vec<i64>),
    /// A model that is known, but not available: its state or what is wrong with it.
    NotAvailable(String),
    /// Model that was not looked at, which is no error. A server never says so.
    NotLooked {
        /// Reason why not.
        reason: String,
        /// Indicates that the configuration makes it stateful.
        stateful: bool,
        /// Indicates that its batch size or a shape is `auto`.
        auto: bool,
    },
}

/// A custom node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CustomFacts {
    /// Its inputs.
    pub inputs: Vec<TensorSource>,
    /// Its outputs.
    pub outputs: Vec<TensorSource>,
    /// Indicates that it takes and gives whatever the configuration names, of any type and shape, as Python
    /// nodes do. It lists no inputs and outputs then, and what is connected to it is validated when it
    /// is there.
    pub is_open: bool,
}

impl From<&ServableInfo> for CustomFacts {
    fn from(info: &ServableInfo) -> Self {
        Self {
            inputs: info.inputs.iter().map(TensorSource::from).collect(),
            outputs: info.outputs.iter().map(TensorSource::from).collect(),
            is_open: false,
        }
    }
}

/// Reason why a custom node cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CustomError {
    /// No open library of this name; the names that there are.
    Library(Vec<String>),
    /// Library that does not open, with the reason.
    NotOpen(String),
    /// A call of it fails.
    Node(NodeError),
    /// A Python handler does not load.
    Handler {
        /// The reason.
        reason: String,
        /// The next step.
        advice: &'static str,
        /// Line of the handler file where an exception passed, and its traceback; or where its worker ended.
        raised: Option<Box<HandlerPlace>>,
    },
    /// The `execute` of a Python handler is a generator. A server does not say so before a request.
    Generator,
    /// The Python environment of the pipeline cannot be used: why.
    Environment(String),
    /// Node that was not asked, which is no error, with the reason. A server never says so.
    NotLooked(String),
}

/// Place in a handler where it has raised an exception, or has ended its worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandlerPlace {
    /// Path of the file.
    pub file: String,
    /// Line, from 1, if it passed there.
    pub line: Option<usize>,
    /// Traceback; empty if no Python code raised it.
    pub traceback: String,
}

impl From<NodeError> for CustomError {
    fn from(error: NodeError) -> Self {
        Self::Node(error)
    }
}

impl From<HandlerLoadError> for CustomError {
    fn from(error: HandlerLoadError) -> Self {
        if let HandlerLoadError::Environment { reason, .. } = error {
            return Self::Environment(reason);
        }
        let place = |path: &Path, line: Option<u32>, traceback: &str| {
            Box::new(HandlerPlace {
                file: path.display().to_string(),
                line: line.and_then(|line| usize::try_from(line).ok()),
                traceback: traceback.trim_end().to_owned(),
            })
        };
        Self::Handler {
            reason: error.to_string(),
            advice: error.advice(),
            raised: match &error {
                HandlerLoadError::Raised { path, raised } => {
                    Some(place(path, raised.line, &raised.traceback))
                }
                HandlerLoadError::Worker { path, line, .. } => Some(place(path, *line, "")),
                _ => None,
            },
        }
    }
}
