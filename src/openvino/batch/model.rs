//! A model compiled for a batch.

use super::memory::{BatchCost, BatchMemory, TooMuchMemory};
use crate::{
    openvino::{
        describe::{self, Described},
        error::ModelLoadError,
        ffi::{CompiledModel, Core, Side},
        model_file::{self, Load},
        names::Port,
        prepare::Prepared,
    },
    tensor::{DataType, Dim, PartialShape},
};

/// Length of a dimension that is open, for the requests that are compared and measured, and for what tensors take.
pub(super) const OPEN_LENGTH: usize = 64;

/// A model compiled for batches of one size, with its inputs and outputs, those of variables behind the
/// others.
pub(in crate::openvino) struct BatchModel {
    pub(super) model: CompiledModel,
    pub(super) inputs: Vec<Described>,
    pub(super) outputs: Vec<Described>,
    pub(super) rows: usize,
    pub(super) cost: BatchCost,
}

/// Reason why a size of batch is not there.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoBatch {
    /// Memory beyond the limit for this size; smaller sizes may fit.
    #[error(transparent)]
    Memory(#[from] TooMuchMemory),
    /// The model is not fit for it.
    #[error(transparent)]
    Unfit(#[from] ModelLoadError),
}

impl BatchModel {
    /// Compiles a prepared model for so many rows, and leaves it as it was; `variables` are the ports behind
    /// those of clients.
    ///
    /// # Errors
    ///
    /// Fails if the first dimensions of the model are no batch of one row each, shapes within it depend on values,
    /// it does not compile, or there is not enough memory.
    pub(super) fn ready(
        core: &mut Core,
        load: &Load<'_>,
        prepared: &mut Prepared<'_>,
        variables: &[Port<'_>],
        (rows, memory): (usize, &BatchMemory),
    ) -> Result<Self, NoBatch> {
        let before = first_dimensions(load, prepared, variables.len(), rows)?;
        let made = Self::compiled(core, load, prepared, variables, &before, (rows, memory));
        let reshaped = prepared.model.reshape(&before);
        reshaped.map_err(ModelLoadError::refused("reshape the model"))?;
        made
    }

    /// Gives the model another shape, and compiles it.
    fn compiled(
        core: &mut Core,
        load: &Load<'_>,
        prepared: &mut Prepared<'_>,
        variables: &[Port<'_>],
        before: &[(usize, PartialShape)],
        (rows, memory): (usize, &BatchMemory),
    ) -> Result<Self, NoBatch> {
        let reshape = ModelLoadError::refused("reshape the model");
        let of_batch = |length: fn(&Dim) -> Dim| {
            let shapes = before.iter().map(|(port, shape)| {
                let mut shape = PartialShape(shape.0.iter().map(length).collect());
                shape.0[0] = Dim::Fixed(rows);
                (*port, shape)
            });
            shapes.collect::<Vec<_>>()
        };
        let model = &mut prepared.model;
        if model.is_dynamic() {
            model
                .reshape(&of_batch(|dim| Dim::Fixed(open_length(dim))))
                .map_err(&reshape)?;
            if model.is_dynamic() {
                // A run that fails for one row may be taken for done for all of them by the runtime, which compares
                // such values with those of the run before.
                return Err(ModelLoadError::unfit(
                    "shapes within the model depend on values, so that a request that fails alone may not fail in a batch",
                )
                .into());
            }
        }
        model.reshape(&of_batch(Clone::clone)).map_err(&reshape)?;
        let all = |side, mut ports: Vec<_>| {
            ports.extend(variables.iter().cloned());
            describe::all(side, ports, load.layouts, |side, place| {
                prepared.model.port(side, place)
            })
        };
        let inputs = all(Side::Input, prepared.inputs.clone())?;
        let outputs = all(Side::Output, prepared.outputs.clone())?;
        for Described { info, axes, .. } in inputs.iter().chain(&outputs) {
            let is_batch = info.shape.0.first() == Some(&Dim::Fixed(rows));
            if !is_batch || axes.is_some() || info.dtype == DataType::String {
                let name = &info.name;
                let text = format!("`{name}` has no row for each request of a batch");
                return Err(ModelLoadError::unfit(text).into());
            }
        }
        let tensors = inputs.iter().chain(&outputs).map(tensor_bytes);
        let mut cost = memory.begin(rows, tensors.fold(0, usize::saturating_add))?;
        let model = model_file::compile(core, &prepared.model, load.options)?;
        cost.compiled()?;
        Ok(Self {
            model,
            inputs,
            outputs,
            rows,
            cost,
        })
    }
}

/// Returns the shapes of all inputs, those of variables among them.
fn first_dimensions(
    load: &Load<'_>,
    prepared: &Prepared<'_>,
    variables: usize,
    rows: usize,
) -> Result<Vec<(usize, PartialShape)>, ModelLoadError> {
    let mut shapes = Vec::new();
    for port in 0..prepared.inputs.len() + variables {
        let shape = prepared.model.port(Side::Input, port);
        let shape = shape.and_then(|port| port.get_shape());
        let shape = shape.map_err(ModelLoadError::refused("describe an input"))?;
        match shape {
            Some(shape) if is_batch(&shape, rows) => shapes.push((port, shape)),
            _ if load.options.stateful => {
                return Err(ModelLoadError::unfit(
                    "an input or a variable has no first dimension of length 1",
                ));
            }
            _ => {
                return Err(ModelLoadError::unfit(format!(
                    "an input has no first dimension of length 1, or open for {rows}"
                )));
            }
        }
    }
    Ok(shapes)
}

/// Returns whether the first dimension takes one row, and so many.
fn is_batch(shape: &PartialShape, rows: usize) -> bool {
    match shape.0.first() {
        Some(Dim::Fixed(length)) => *length == 1,
        Some(Dim::Range(low, high)) => *low <= 1 && rows <= *high,
        Some(Dim::Any) => true,
        None => false,
    }
}

/// Returns the length of a dimension, or one that it may have.
pub(super) fn open_length(dim: &Dim) -> usize {
    match *dim {
        Dim::Fixed(length) => length,
        Dim::Range(low, high) => OPEN_LENGTH.clamp(low, high),
        Dim::Any => OPEN_LENGTH,
    }
}

/// Returns the bytes of a tensor of numbers.
pub(super) fn tensor_bytes(tensor: &Described) -> usize {
    let lengths = tensor.info.shape.0.iter().map(open_length);
    let width = tensor.info.dtype.size().unwrap_or_default();
    lengths.fold(width, usize::saturating_mul)
}
