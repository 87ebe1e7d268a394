//! Inputs and outputs of a pipeline as a whole.

use crate::{
    servable::{ServableInfo, TensorInfo},
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

    /// Returns the same as models have it; `None` if the type of a tensor is left open.
    #[must_use]
    pub fn servable(&self) -> Option<ServableInfo> {
        let all = |tensors: &[PipelineTensor]| -> Option<Vec<TensorInfo>> {
            tensors.iter().map(PipelineTensor::info).collect()
        };
        Some(ServableInfo::new(all(&self.inputs)?, all(&self.outputs)?))
    }
}

impl PipelineTensor {
    /// Returns the same as models have it; `None` if the type is left open.
    #[must_use]
    pub fn info(&self) -> Option<TensorInfo> {
        Some(TensorInfo {
            name: self.name.clone(),
            dtype: self.dtype?,
            shape: self.shape.clone(),
            layout: self.layout.clone(),
            port: self.port,
        })
    }
}
