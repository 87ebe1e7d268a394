//! Errors of loading a model.

use std::path::PathBuf;

use super::{
    layouts::LayoutMismatch, low_latency::LowLatencyError, names::NamesError,
    runtime_error::OpenVinoError, shapes::ShapeMismatch, slot::SlotError,
};
use crate::tensor::PartialShape;

/// Errors of loading a model.
#[derive(Debug, thiserror::Error)]
pub enum ModelLoadError {
    /// The runtime does not start.
    #[error("cannot start OpenVINO")]
    Runtime(#[source] OpenVinoError),
    /// A library with more operations is none that the runtime can load.
    #[error("cannot load the CPU extension {}", path.display())]
    Extension {
        /// The library.
        path: PathBuf,
        /// Error from the runtime.
        #[source]
        source: OpenVinoError,
    },
    /// There is no such device.
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
    /// A stateful model is for another device than the CPU.
    #[error("Stateful models are supported only on CPU - found the device `{0}`")]
    StatefulDevice(String),
    /// The device does not know a property.
    #[error(
        "Model config is invalid - device {device} has no property {key}{}",
        instead(*successor, nearest.as_deref())
    )]
    UnknownProperty {
        /// The device.
        device: String,
        /// The property's name.
        key: String,
        /// Property to use instead, if older releases had this one.
        successor: Option<&'static str>,
        /// The nearest name that the device knows.
        nearest: Option<String>,
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
    /// The properties for each device cannot be read.
    #[error("Model config is invalid - DEVICE_PROPERTIES: {0}")]
    DeviceProperties(String),
    /// The system does not let the server read a file of the model.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
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
        /// Their names.
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
    /// The file with the public names cannot be used.
    #[error("cannot use {}", path.display())]
    Mapping {
        /// The file.
        path: PathBuf,
        /// Error in the file.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Public names do not fit the model.
    #[error(transparent)]
    Names(#[from] NamesError),
    /// Shapes do not fit the model.
    #[error(transparent)]
    Shape(#[from] ShapeMismatch),
    /// Layouts do not fit the model.
    #[error(transparent)]
    Layout(#[from] LayoutMismatch),
    /// The model does not take the shapes.
    #[error(
        "Model could not be reshaped with requested shape - {}",
        shapes(wanted)
    )]
    Reshape {
        /// The inputs that were to have another shape, and which.
        wanted: Vec<(String, PartialShape)>,
        /// Error from the runtime.
        #[source]
        source: OpenVinoError,
    },
    /// Loops cannot be unrolled into one step.
    #[error("cannot apply low_latency_transformation")]
    LowLatency(#[from] LowLatencyError),
    /// The transposition of an input cannot be added.
    #[error("cannot add the transposition of inputs")]
    Transpose(#[source] OpenVinoError),
    /// Preprocessing is for models with one input.
    #[error(
        "mean, scale, color_format and precision are for models with one input - the model has \
         {count}: {known}"
    )]
    PreprocessingInputs {
        /// Number of inputs.
        count: usize,
        /// Their names.
        known: String,
    },
    /// The preprocessing of the input cannot be added.
    #[error("cannot add {setting} to the model")]
    Preprocessing {
        /// The setting that the runtime refuses, or all of them.
        setting: &'static str,
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
    /// An input or output cannot be described.
    #[error("cannot describe {direction} {port} of the model")]
    Port {
        /// `input` or `output`.
        direction: &'static str,
        /// Its place.
        port: usize,
        /// Error from the runtime.
        #[source]
        source: OpenVinoError,
    },
    /// A tensor has a type that no protocol can carry.
    #[error("{direction} `{name}` has element type {element}, which no protocol can carry")]
    ElementType {
        /// `input` or `output`.
        direction: &'static str,
        /// Its name.
        name: String,
        /// OpenVINO's name of the type.
        element: String,
    },
    /// A tensor has no fixed rank.
    #[error("{direction} `{name}` has no fixed number of dimensions; give it a shape")]
    Rank {
        /// `input` or `output`.
        direction: &'static str,
        /// Its name.
        name: String,
    },
    /// Too many infer requests are asked for.
    #[error("Nireq parameter too high - Exceeded allowed nireq value: {0}; at most 100000")]
    Nireq(u32),
    /// The infer requests cannot be made.
    #[error(transparent)]
    Slot(#[from] SlotError),
}

impl ModelLoadError {
    /// Names the device of a refused property that was set for all of them.
    pub(super) fn of_device(mut self, name: &str) -> Self {
        if let Self::Property { device, .. } = &mut self {
            name.clone_into(device);
        }
        self
    }
}

fn instead(successor: Option<&str>, nearest: Option<&str>) -> String {
    match successor {
        Some(successor) => format!(", which is of older releases; {successor} instead"),
        None => did_you_mean(nearest),
    }
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean {name}?"))
}

fn named(operators: &[String]) -> String {
    match operators {
        [one] => format!("operator `{one}`"),
        several => format!("operators `{}`", several.join("`, `")),
    }
}

fn shapes(shapes: &[(String, PartialShape)]) -> String {
    let shapes: Vec<String> = shapes
        .iter()
        .map(|(name, shape)| format!("{name} {shape}"))
        .collect();
    shapes.join(", ")
}
