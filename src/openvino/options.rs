//! Options of a model load: plain data that [`crate::config`] fills.

use std::{path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use serde::Serialize;

use crate::budget::Budget;
use crate::servable::ImageStep;
use crate::tensor::{DataType, Dim, Layout, PartialShape, images::PixelLimit};

/// Options of a model load.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LoadOptions {
    /// The device, such as `CPU`, `AUTO:GPU,CPU` or `BATCH:CPU(4)`.
    pub device: String,
    /// Properties of the device, by OpenVINO's names.
    pub properties: Vec<(String, String)>,
    /// Gives each sequence of requests a state of its own.
    pub stateful: bool,
    /// The `config.pbtxt` that asks for sequences, if one does: a model without state is refused then.
    pub sequences_file: Option<PathBuf>,
    /// Error of a `config.pbtxt` that cannot be read, with which the model is refused; none otherwise.
    pub settings_error: Option<Arc<str>>,
    /// Name of the model file in version folders, as a `config.pbtxt` gives it; found by its ending if `None`.
    pub model_file: Option<Arc<str>>,
    /// Next step where the options do not fit the model; none if they are for it alone.
    pub advice: Option<Arc<str>>,
    /// Place of the states of sequences, if the model allows it.
    pub state_mode: StateMode,
    /// Batching of requests that wait for an infer request; of steps, if the model is stateful.
    pub batching: Batching,
    /// Maximum memory of the batches of the model, in bytes; a share of what all models may have if `None`.
    pub batch_bytes: Option<usize>,
    /// Memory budget of the batches of all models.
    pub batch_budget: Budget,
    /// Number of infer requests; 0 for the device's own recommendation, and one for each core at
    /// least if the model's tensors are small.
    pub nireq: u32,
    /// Maximum number of requests waiting for an infer request.
    pub max_waiting: usize,
    /// Time that a request waits for an infer request as if it had come earlier, for each step of priority.
    pub priority_step: Duration,
    /// Maximum pixels of an encoded image that an input takes.
    pub max_image_pixels: PixelLimit,
    /// Memory budget of requests and responses.
    pub budget: Budget,
    /// The batch dimension of all inputs; the model's own if `None`. Shapes come before it.
    pub batch: Option<BatchOption>,
    /// The shapes of inputs; the model's own for those that are not named.
    pub shapes: PerTensor<ShapeOption>,
    /// The layouts of inputs and outputs; the model's own for those that are not named.
    pub layouts: PerTensor<LayoutOption>,
    /// Preprocessing of the input's elements before the model sees them.
    pub preprocessing: Preprocessing,
    /// Folder of compiled models between starts; no cache if `None`.
    pub cache_dir: Option<PathBuf>,
    /// A library with more operations for the CPU.
    pub cpu_extension: Option<PathBuf>,
    /// Turns operators that iterate into one step with its state in variables.
    pub low_latency: bool,
    /// Threads that it runs on.
    pub placement: Placement,
    /// Maximum duration of an inference before its client gets a response; no limit if `None`.
    pub inference_timeout: Option<Duration>,
    /// Minimum time between two replacements of the compiled model after failed inferences.
    pub recovery_interval: Duration,
    /// Hides the reason of a failed inference from clients.
    pub hide_errors: bool,
}

/// Place of the states of sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StateMode {
    /// Tensors that the server gives to each run.
    #[default]
    Tensors,
    /// An infer request for each sequence.
    Requests,
}

impl FromStr for StateMode {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "tensors" => Ok(Self::Tensors),
            "requests" => Ok(Self::Requests),
            _ => Err(()),
        }
    }
}

/// Batching of requests that wait for an infer request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Batching {
    /// Requests run one by one.
    #[default]
    Off,
    /// Batches of the sizes that are measured to raise the throughput.
    Auto,
    /// Batches of a limited number of rows, whatever the sizes in between take.
    UpTo {
        /// Maximum number of rows.
        rows: usize,
        /// Maximum time that a request waits for others although it could run.
        delay: Duration,
    },
}

/// Threads that a model runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// The threads on which its runs are fastest, by their measured duration.
    #[default]
    Measured,
    /// The calling thread, as for runs of a few microseconds: for measuring the cost of a request
    /// where time is no measure. No flag and no configuration file sets it.
    InPlace,
}

impl LoadOptions {
    /// Returns whether a shape or the batch is taken from each request.
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
    /// A fixed setting.
    Dim(Dim),
    /// The setting of the latest request: the model is compiled again for another one.
    Auto,
}

/// The shape of one input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShapeOption {
    /// A fixed setting.
    Dims(PartialShape),
    /// The setting of the latest request: the model is compiled again for another one.
    Auto,
}

/// The layout of one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutOption {
    /// Layout in requests and responses.
    pub tensor: Layout,
    /// Layout of the model, if it is another one: the server transposes.
    pub model: Option<Layout>,
}

/// A setting for the one input of a model, or for tensors by their public names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PerTensor<T> {
    /// No setting.
    #[default]
    Unset,
    /// Setting for the one input of the model; an `Auto` shape is for all inputs.
    Anonymous(T),
    /// Settings by name, in the order given.
    Named(Vec<(String, T)>),
}

impl<T> PerTensor<T> {
    /// Returns the setting of an input.
    pub(crate) fn of(&self, name: &str) -> Option<&T> {
        match self {
            Self::Unset => None,
            Self::Anonymous(setting) => Some(setting),
            Self::Named(named) => {
                let found = named.iter().find(|(known, _)| known == name);
                found.map(|(_, setting)| setting)
            }
        }
    }
}

/// Preprocessing of a model's one input, within the compiled model. The order of the fields is that of
/// the steps.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Preprocessing {
    /// The colors that clients send, and those that the model is given.
    pub color: Option<Conversion<ColorFormat>>,
    /// The element type that clients send, and the one that the steps behind have.
    pub precision: Option<Conversion<Precision>>,
    /// Mean, which is subtracted from the values.
    pub mean: Option<PerChannel>,
    /// Scale, which divides the values.
    pub scale: Option<PerChannel>,
}

impl Preprocessing {
    /// Returns whether nothing is done.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns what clients must not do with images themselves, or must do otherwise, as metadata say it: the steps
    /// that values go through, and the order of the colors if blue comes first.
    pub fn of_images(&self) -> Option<String> {
        let is_bgr = (self.color).is_some_and(|color| color.source == ColorFormat::Bgr);
        let steps = [
            (self.mean.is_some(), ImageStep::Mean),
            (self.scale.is_some(), ImageStep::Scale),
            (is_bgr, ImageStep::Bgr),
        ];
        let steps = steps.into_iter().filter(|(is_done, _)| *is_done);
        let steps: Vec<&str> = steps.map(|(_, step)| step.into()).collect();
        (!steps.is_empty()).then(|| steps.join(" "))
    }
}

/// A conversion of what clients send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conversion<T> {
    /// Form as sent.
    pub source: T,
    /// Form after the conversion.
    pub target: T,
}

/// A number for all channels, or one for each.
#[derive(Debug, Clone, PartialEq)]
pub enum PerChannel {
    /// One number for all channels.
    All(f32),
    /// A number for each channel, in their order.
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
    /// A type that clients can send.
    Type(DataType),
    /// Single bits.
    Bit,
}
