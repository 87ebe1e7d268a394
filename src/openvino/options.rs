//! How a model is to be loaded: plain data that [`crate::config`] fills.

use std::{path::PathBuf, time::Duration};

use crate::budget::Budget;
use crate::tensor::{DataType, Dim, Layout, PartialShape, images::PixelLimit};

/// How to load a model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LoadOptions {
    /// The device, such as `CPU`, `AUTO:GPU,CPU` or `BATCH:CPU(4)`.
    pub device: String,
    /// Properties of the device, by OpenVINO's names.
    pub properties: Vec<(String, String)>,
    /// Whether each sequence of requests has a state of its own.
    pub stateful: bool,
    /// How many infer requests; 0 for as many as the device says is best, and one for each core at
    /// least if the model's tensors are small.
    pub nireq: u32,
    /// How many requests may wait for one.
    pub most_waiting: usize,
    /// The most pixels of an encoded image that an input takes.
    pub most_image_pixels: PixelLimit,
    /// What requests and answers may take of the memory.
    pub budget: Budget,
    /// The batch dimension of all inputs; the model's own if `None`. Shapes come before it.
    pub batch: Option<BatchOption>,
    /// The shapes of inputs; the model's own for those that are not named.
    pub shapes: PerTensor<ShapeOption>,
    /// The layouts of inputs and outputs; the model's own for those that are not named.
    pub layouts: PerTensor<LayoutOption>,
    /// What is done to the elements of the input before the model sees them.
    pub preprocessing: Preprocessing,
    /// Where compiled models are kept between starts; nowhere if `None`.
    pub cache_dir: Option<PathBuf>,
    /// A library with more operations for the CPU.
    pub cpu_extension: Option<PathBuf>,
    /// Whether operators that iterate become one step with its state in variables.
    pub low_latency: bool,
    /// On which threads it runs.
    pub placement: Placement,
    /// How long an inference may take before its client is answered; any time if `None`.
    pub inference_timeout: Option<Duration>,
    /// The shortest time between two replacements of the compiled model after failed inferences.
    pub recovery_interval: Duration,
    /// Whether clients are not told why an inference failed.
    pub hide_errors: bool,
}

/// On which threads a model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// Where its runs are done best, as long as they were found to take.
    #[default]
    Measured,
    /// On the thread that asks, as runs of a few microseconds: for whoever counts what a request
    /// costs while time says nothing. No flag and no configuration file sets it.
    InPlace,
}

impl LoadOptions {
    /// Tells whether a shape or the batch is that of each request.
    #[must_use]
    pub fn is_auto(&self) -> bool {
        self.batch == Some(BatchOption::Auto)
            || match &self.shapes {
                PerTensor::Unset => false,
                PerTensor::Anonymous(shape) => *shape == ShapeOption::Auto,
                PerTensor::Named(shapes) => {
                    let mut shapes = shapes.iter();
                    shapes.any(|(_, shape)| *shape == ShapeOption::Auto)
                }
            }
    }
}

/// The batch dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchOption {
    /// As configured.
    Dim(Dim),
    /// As the latest request has it: the model is compiled again for another one.
    Auto,
}

/// The shape of one input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShapeOption {
    /// As configured.
    Dims(PartialShape),
    /// As the latest request has it: the model is compiled again for another one.
    Auto,
}

/// The layout of one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutOption {
    /// What requests and responses have.
    pub tensor: Layout,
    /// What the model has, if it is another one: the server transposes.
    pub model: Option<Layout>,
}

/// A setting for the one input of a model, or for tensors by their public names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PerTensor<T> {
    /// Not set.
    #[default]
    Unset,
    /// For whichever input the model has; `Auto` shapes are for all of them.
    Anonymous(T),
    /// By name, in the order given.
    Named(Vec<(String, T)>),
}

/// Preprocessing of a model's one input, within the compiled model. The order of the fields is that of
/// the steps.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Preprocessing {
    /// The colors that clients send, and those that the model is given.
    pub color: Option<Conversion<ColorFormat>>,
    /// The element type that clients send, and the one that the steps behind have.
    pub precision: Option<Conversion<Precision>>,
    /// Subtracted from the values.
    pub mean: Option<PerChannel>,
    /// Divides the values.
    pub scale: Option<PerChannel>,
}

impl Preprocessing {
    /// Returns true if nothing is done.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A conversion of what clients send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conversion<T> {
    /// As sent.
    pub source: T,
    /// As converted.
    pub target: T,
}

/// A number for all channels, or one for each.
#[derive(Debug, Clone, PartialEq)]
pub enum PerChannel {
    /// For all of them.
    All(f32),
    /// For each, in the order of the channels.
    Each(Vec<f32>),
}

/// Colors of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of OpenVINO")]
pub enum ColorFormat {
    Rgb,
    Bgr,
    Gray,
    /// One tensor with both planes.
    Nv12,
    /// A tensor for each plane.
    Nv12Planes,
    /// One tensor with all planes.
    I420,
    /// A tensor for each plane.
    I420Planes,
}

impl ColorFormat {
    /// Returns the names of its planes, if each is a tensor.
    #[must_use]
    pub const fn planes(self) -> &'static [&'static str] {
        match self {
            Self::Nv12Planes => &["Y", "UV"],
            Self::I420Planes => &["Y", "U", "V"],
            Self::Rgb | Self::Bgr | Self::Gray | Self::Nv12 | Self::I420 => &[],
        }
    }
}

/// An element type of the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// One that clients can send.
    Type(DataType),
    /// Single bits.
    Bit,
}
