//! Public description of a servable: its tensors, name and version.

use crate::tensor::{DataType, Layout, PartialShape, byte_size};

/// Reason in lists of models for one that is no longer configured.
pub const REMOVED: &str = "removed from the configuration";

/// One input or output of a servable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// The name that clients use.
    pub name: String,
    /// The element type; a placeholder if it is open.
    pub dtype: DataType,
    /// Marks a type that nothing decides: of graphs, and of what no node of a pipeline decides.
    pub is_open: bool,
    /// The shape that is allowed (inputs) or to be expected (outputs); empty where nothing decides it.
    pub shape: PartialShape,
    /// Axis order of requests and responses.
    pub layout: Layout,
    /// The place of the tensor among the own inputs or outputs of the model, pipeline, or graph.
    pub port: usize,
}

impl TensorInfo {
    /// Returns the element type; `None` if it is open.
    pub fn decided(&self) -> Option<DataType> {
        (!self.is_open).then_some(self.dtype)
    }

    /// Returns the bytes of the tensor; `None` if its shape is not fixed, or it is of strings.
    pub fn fixed_bytes(&self) -> Option<usize> {
        byte_size(self.dtype, &self.shape.fixed()?).ok()?
    }
}

/// A tensor that a node takes or gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSource {
    /// The name that the configuration, or a custom node, uses.
    pub name: String,
    /// The element type; `None` if the custom node leaves it open.
    pub dtype: Option<DataType>,
    /// The shape.
    pub shape: PartialShape,
    /// Meaning of each axis.
    pub layout: Layout,
}

impl From<&TensorInfo> for TensorSource {
    fn from(info: &TensorInfo) -> Self {
        Self {
            name: info.name.clone(),
            dtype: Some(info.dtype),
            shape: info.shape.clone(),
            layout: info.layout.clone(),
        }
    }
}

/// Inputs and outputs of a servable, each sorted by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServableInfo {
    /// The inputs, sorted by name.
    pub inputs: Vec<TensorInfo>,
    /// The outputs, sorted by name.
    pub outputs: Vec<TensorInfo>,
}

impl ServableInfo {
    /// Makes the info of a servable from its tensors in any order.
    pub fn new(mut inputs: Vec<TensorInfo>, mut outputs: Vec<TensorInfo>) -> Self {
        inputs.sort_by(|a, b| a.name.cmp(&b.name));
        outputs.sort_by(|a, b| a.name.cmp(&b.name));
        Self { inputs, outputs }
    }
}

/// Step of the server with images, which clients leave to it, or that they must know of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum ImageStep {
    /// A mean is subtracted.
    Mean,
    /// Values are divided.
    Scale,
    /// Images are taken with blue before red.
    Bgr,
}

impl ImageStep {
    /// Property of metadata that has the steps.
    pub const PROPERTY: &str = "images";
}
