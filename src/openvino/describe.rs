//! Description of a model's inputs and outputs, for clients and for slots; `node` is a port of the
//! model that is compiled, or would be.

use std::collections::BTreeMap;

use openvino::InferenceError;

use super::{convert, error::ModelLoadError, ffi, layouts, names::Port, options::LayoutOption};
use crate::{
    servable::TensorInfo,
    tensor::{DataType, Layout, PartialShape},
};

/// An input or output: its public description, and the data for the runtime alone.
#[derive(Clone)]
pub(super) struct Described {
    pub(super) info: TensorInfo,
    /// The model's own name of it.
    pub(super) own: String,
    /// The axes of the runtime's tensor in the order that clients have them; `None` if that is
    /// its own order, as for all inputs.
    pub(super) axes: Option<Vec<usize>>,
}

impl Described {
    /// Returns the shape that the runtime has where clients have this one.
    pub(super) fn runtime_shape(&self, shape: &[usize]) -> Vec<usize> {
        let mut own = shape.to_vec();
        if let Some(axes) = &self.axes {
            for (&axis, &length) in axes.iter().zip(shape) {
                own[axis] = length;
            }
        }
        own
    }
}

/// Describes the inputs, given in the model's order.
pub(super) fn inputs(
    node: impl Fn(usize) -> Result<ffi::Port, InferenceError>,
    ports: Vec<(Port, Option<&LayoutOption>)>,
    own: &BTreeMap<String, Layout>,
) -> Result<Vec<Described>, ModelLoadError> {
    all("input", ports, own, node)
}

/// Describes the outputs, given in the model's order.
pub(super) fn outputs(
    node: impl Fn(usize) -> Result<ffi::Port, InferenceError>,
    ports: Vec<(Port, Option<&LayoutOption>)>,
    own: &BTreeMap<String, Layout>,
) -> Result<Vec<Described>, ModelLoadError> {
    all("output", ports, own, node)
}

fn all(
    direction: &'static str,
    ports: Vec<(Port, Option<&LayoutOption>)>,
    own: &BTreeMap<String, Layout>,
    node: impl Fn(usize) -> Result<ffi::Port, InferenceError>,
) -> Result<Vec<Described>, ModelLoadError> {
    let mut all = Vec::with_capacity(ports.len());
    for (place, (mut port, option)) in ports.into_iter().enumerate() {
        let fail = |error: InferenceError| ModelLoadError::Port {
            direction,
            port: place,
            source: error.into(),
        };
        let node = node(place).map_err(fail)?;
        let element = node.get_element_type().map_err(fail)?;
        let shape = node.get_shape().map_err(fail)?;
        let dtype = convert::dtype(element).ok_or_else(|| ModelLoadError::ElementType {
            direction,
            name: port.public.clone(),
            element: element.to_string(),
        })?;
        let Some(mut shape) = shape.as_deref().map(convert::partial_shape) else {
            return Err(ModelLoadError::Rank {
                direction,
                name: port.public,
            });
        };
        port.shape = Some(shape.clone());
        layouts::check(&port, option)?;
        // Inputs are transposed within the model.
        let axes = match direction {
            "output" => layouts::turned(&port, option)?,
            _ => None,
        };
        if let Some(axes) = &axes {
            if dtype == DataType::String {
                return Err(ModelLoadError::Layout(layouts::LayoutMismatch::Strings(
                    port.public,
                )));
            }
            shape = PartialShape(axes.iter().map(|&axis| shape.0[axis]).collect());
        }
        all.push(Described {
            info: TensorInfo {
                dtype,
                layout: layouts::public(&port, option, own),
                shape,
                port: place,
                name: port.public,
            },
            own: port.own,
            axes,
        });
    }
    Ok(all)
}
