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

    /// Returns whether inputs validated for this model can run on another: the same tensors in the same places, and shapes
    /// that are allowed there.
    pub(crate) fn is_same_but_for_shapes(&self, other: &Self) -> bool {
        let same = |one: &[TensorInfo], other: &[TensorInfo]| {
            let key = |info: &TensorInfo| (info.port, info.dtype);
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| one.name == other.name && key(one) == key(other))
        };
        let mut inputs = self.inputs.iter().zip(&other.inputs);
        let shapes = inputs.all(|(one, other)| {
            let fixed = || one.shape.fixed();
            one.shape == other.shape || fixed().is_some_and(|shape| other.shape.allows(&shape))
        });
        same(&self.inputs, &other.inputs) && same(&self.outputs, &other.outputs) && shapes
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

#[cfg(test)]
mod tests {
    use super::{ServableInfo, TensorInfo};
    use crate::tensor::{DataType, Dim, Layout, PartialShape};

    fn info(input: Dim, outputs: &[(&str, DataType)]) -> ServableInfo {
        let tensor = |name: &str, port, dtype, dim| TensorInfo {
            name: name.to_owned(),
            dtype,
            shape: PartialShape(vec![dim]),
            layout: Layout::unspecified(1),
            is_open: false,
            port,
        };
        let outputs = outputs.iter().enumerate();
        ServableInfo::new(
            vec![tensor("x", 0, DataType::F32, input)],
            outputs
                .map(|(port, (name, dtype))| tensor(name, port, *dtype, Dim::Any))
                .collect(),
        )
    }

    #[test]
    fn what_was_validated_for_one_model_does_not_run_on_another() {
        let validated = info(Dim::Fixed(4), &[("y", DataType::F32)]);
        let same = |loaded: &ServableInfo| validated.is_same_but_for_shapes(loaded);
        assert!(same(&validated));
        assert!(same(&info(Dim::Any, &[("y", DataType::F32)])));
        assert!(!same(&info(Dim::Fixed(5), &[("y", DataType::F32)])));
        assert!(!same(&info(Dim::Fixed(4), &[("y", DataType::I32)])));
        assert!(!same(&info(Dim::Fixed(4), &[("z", DataType::F32)])));
        let two = [("y", DataType::F32), ("z", DataType::F32)];
        assert!(!same(&info(Dim::Fixed(4), &two)));
    }
}
