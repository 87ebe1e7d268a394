//! Inputs and outputs of a pipeline as a whole.

use super::sources::TensorSource;
use crate::{
    servable::TensorInfo,
    tensor::{DataType, Layout, PartialShape},
};

/// Inputs and outputs of a pipeline, each sorted by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PipelineInfo {
    /// The inputs.
    pub inputs: Vec<PipelineTensor>,
    /// The outputs.
    pub outputs: Vec<PipelineTensor>,
}

/// An input or output of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineTensor {
    /// The name that clients use.
    pub name: String,
    /// The element type; `None` where no node decides it: what goes from the request straight to
    /// the response, what a custom node leaves open, or what only Python nodes take or give.
    pub dtype: Option<DataType>,
    /// The shape; empty where no node decides it.
    pub shape: PartialShape,
    /// Which axis is which.
    pub layout: Layout,
    /// Its place among the outputs of the entry, or the inputs of the exit.
    pub port: usize,
}

impl PipelineInfo {
    /// Makes the info from tensors in any order.
    pub(super) fn new(mut inputs: Vec<PipelineTensor>, mut outputs: Vec<PipelineTensor>) -> Self {
        inputs.sort_by(|a, b| a.name.cmp(&b.name));
        outputs.sort_by(|a, b| a.name.cmp(&b.name));
        Self { inputs, outputs }
    }
}

impl PipelineTensor {
    /// Makes a tensor of what the nodes say of it, if they do.
    pub(super) fn new(name: &str, tensor: Option<&TensorSource>, port: usize) -> Self {
        Self {
            name: name.to_owned(),
            dtype: tensor.and_then(|tensor| tensor.dtype),
            shape: tensor.map_or(PartialShape(Vec::new()), |tensor| tensor.shape.clone()),
            layout: tensor.map_or(Layout::unspecified(0), |tensor| tensor.layout.clone()),
            port,
        }
    }

    /// Returns the same as models have it, with a placeholder for a type that is left open.
    pub(super) fn info(&self) -> TensorInfo {
        TensorInfo {
            name: self.name.clone(),
            // What JSON numbers without a type are read as.
            dtype: self.dtype.unwrap_or(DataType::F32),
            shape: self.shape.clone(),
            layout: self.layout.clone(),
            port: self.port,
        }
    }
}
