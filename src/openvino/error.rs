//! Errors of loading a model.

use std::{fmt, path::PathBuf};

use openvino::InferenceError;

use super::{runtime_error::OpenVinoError, slot_error::SlotError};
use crate::error::Error;

/// Errors of loading a model.
#[derive(Debug, thiserror::Error)]
pub enum ModelLoadError {
    /// The runtime does not start.
    #[error("cannot start OpenVINO")]
    Runtime(#[source] OpenVinoError),
    /// Unknown device.
    #[error("cannot use device `{device}`")]
    Device {
        /// The device as configured.
        device: String,
        /// The devices of this machine.
        known: Vec<String>,
        /// Error from the runtime.
        #[source]
        source: Option<OpenVinoError>,
    },
    /// The device does not know a property.
    #[error("Model config is invalid - device {device} has no property {key}{instead}")]
    UnknownProperty {
        /// The device.
        device: String,
        /// The property's name.
        key: String,
        /// Advice on what to use instead, behind a separator; empty if there is none.
        instead: String,
    },
    /// The device refuses the value of a property.
    #[error("Model config is invalid - device {device} refuses property {key}={value}")]
    Property {
        /// The device.
        device: String,
        /// The property's name.
        key: String,
        /// The value given.
        value: String,
        /// Error from the runtime.
        #[source]
        source: OpenVinoError,
    },
    /// The system does not let the server read a file of the model.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Error from the operating system.
        #[source]
        source: std::io::Error,
    },
    /// A file beside the model, in which its weights are, cannot be opened.
    #[error("cannot read {}: its weights are in {}", model.display(), path.display())]
    Weights {
        /// The model file.
        model: PathBuf,
        /// The file of the weights.
        path: PathBuf,
        /// Error from the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The model has operators that the runtime does not have.
    #[error("cannot read {}: OpenVINO has no {}", path.display(), named(operators))]
    Operators {
        /// The file.
        path: PathBuf,
        /// Names of the operators.
        operators: Vec<String>,
        /// Error from the runtime.
        #[source]
        source: OpenVinoError,
    },
    /// The model file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error from the runtime.
        #[source]
        source: OpenVinoError,
    },
    /// The model does not take the shapes.
    #[error("Model could not be reshaped with requested shape - {wanted}")]
    Reshape {
        /// The inputs that were to have another shape, and which.
        wanted: String,
        /// Error from the runtime.
        #[source]
        source: OpenVinoError,
    },
    /// The device cannot compile the model.
    #[error("Cannot compile model into target device - {device}")]
    Compile {
        /// The device.
        device: String,
        /// The devices of this machine.
        known: Vec<String>,
        /// Error from the runtime.
        #[source]
        source: OpenVinoError,
    },
    /// The infer requests cannot be made.
    #[error(transparent)]
    Slot(#[from] SlotError),
    /// Any other error, such as options that do not fit the model.
    #[error(transparent)]
    Other(#[from] Error),
}

impl ModelLoadError {
    /// Makes the error of options, or of names that clients use, that do not fit the model or the device.
    pub(super) fn unfit(text: impl Into<String>) -> Self {
        Self::Other(Error::invalid(text))
    }

    /// Makes the error of an operation that the runtime refuses.
    pub(super) fn refused(what: impl fmt::Display) -> impl Fn(InferenceError) -> Self {
        move |error| {
            let source = OpenVinoError::from(error);
            Self::Other(Error::internal(format!("cannot {what}")).with_source(source))
        }
    }
}

fn named(operators: &[String]) -> String {
    match operators {
        [one] => format!("operator `{one}`"),
        several => format!("operators `{}`", several.join("`, `")),
    }
}
