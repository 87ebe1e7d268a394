//! Description of a model's inputs and outputs, for clients and for slots; `node` is a port of the
//! model that is compiled, or would be.

use std::collections::BTreeMap;

use openvino::InferenceError;

use super::{
    convert,
    error::ModelLoadError,
    ffi::{self, Side},
    layouts,
    names::Port,
    options::LoadOptions,
};
use crate::{
    servable::{ServableInfo, TensorInfo},
    tensor::{DataType, Dim, Layout, PartialShape},
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

/// Returns whether the first dimension of requests is a number of rows, each of which is a request by itself: a batch, by
/// the layouts of all inputs, whose length is open, there and in the outputs, or set. A list of numbers is a row.
pub(super) fn have_rows(
    inputs: &[Described],
    outputs: &[Described],
    options: &LoadOptions,
) -> bool {
    let is_set = options.batch.is_some() || options.is_auto();
    let is_open = |it: &Described| {
        let first = it.info.shape.0.first();
        is_set || first.is_some_and(|length| !matches!(length, Dim::Fixed(_)))
    };
    let is_batch = |it: &Described| {
        let rank = it.info.shape.0.len();
        let is_list = rank == 1 && it.info.dtype != DataType::String && !is_set;
        !is_list && it.info.layout.axis('N', rank) == Some(0)
    };
    !inputs.is_empty()
        && inputs.iter().all(|it| is_batch(it) && is_open(it))
        && outputs.iter().all(is_open)
}

/// Describes the inputs or outputs, given in the model's order.
pub(super) fn all(
    side: Side,
    ports: Vec<Port<'_>>,
    own: &BTreeMap<String, Layout>,
    node: impl Fn(Side, usize) -> Result<ffi::Port, InferenceError>,
) -> Result<Vec<Described>, ModelLoadError> {
    let mut all = Vec::with_capacity(ports.len());
    for (place, mut port) in ports.into_iter().enumerate() {
        let fail = ModelLoadError::refused(format!("describe {side} {place} of the model"));
        let node = node(side, place).map_err(&fail)?;
        let element = node.get_element_type().map_err(&fail)?;
        let name = &port.public;
        let dtype = convert::dtype(element).ok_or_else(|| {
            ModelLoadError::unfit(format!(
                "{side} `{name}` has element type {element}, which no protocol can carry"
            ))
        })?;
        let Some(mut shape) = node.get_shape().map_err(&fail)? else {
            return Err(ModelLoadError::unfit(format!(
                "{side} `{name}` has no fixed number of dimensions; give it a shape"
            )));
        };
        port.shape = Some(shape.clone());
        layouts::check(&port)?;
        // Inputs are transposed within the model.
        let axes = match side {
            Side::Output => layouts::turned(&port)?,
            Side::Input => None,
        };
        if let Some(axes) = &axes {
            if dtype == DataType::String {
                return Err(ModelLoadError::unfit(format!(
                    "Layout incompatible with given shape - `{}` is of strings, which are not \
                     transposed",
                    port.public
                )));
            }
            shape = PartialShape(axes.iter().map(|&axis| shape.0[axis]).collect());
        }
        all.push(Described {
            info: TensorInfo {
                dtype,
                layout: layouts::public(&port, own),
                shape,
                is_open: false,
                port: place,
                name: port.public,
            },
            own: port.own,
            axes,
        });
    }
    Ok(all)
}

/// Returns the public descriptions. A tensor that is several outputs of the model is one of them, as for the C++ server.
pub(super) fn info(inputs: Vec<Described>, outputs: Vec<Described>) -> ServableInfo {
    let infos = |tensors: Vec<Described>| tensors.into_iter().map(|tensor| tensor.info).collect();
    let mut info = ServableInfo::new(infos(inputs), infos(outputs));
    info.outputs.dedup_by(|next, first| next.name == first.name);
    info
}

/// Returns the bytes of all tensors together; `None` if a shape is not fixed, or strings are among them.
pub(super) fn fixed_bytes(inputs: &[Described], outputs: &[Described]) -> Option<usize> {
    let mut tensors = inputs.iter().chain(outputs);
    tensors.try_fold(0_usize, |sum, tensor| {
        sum.checked_add(tensor.info.fixed_bytes()?)
    })
}
