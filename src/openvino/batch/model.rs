//! A model compiled for a batch.

use crate::{
    openvino::{
        describe::{self, Described},
        error::ModelLoadError,
        ffi::{CompiledModel, Core, Side},
        load::{self, Load},
        names::Port,
        prepare::Prepared,
    },
    tensor::{DataType, Dim, PartialShape},
};

/// A model compiled for batches of one size, with its inputs and outputs, those of variables behind the
/// others.
pub(in crate::openvino) struct BatchModel {
    pub(super) model: CompiledModel,
    pub(super) inputs: Vec<Described>,
    pub(super) outputs: Vec<Described>,
    pub(super) rows: usize,
}

impl BatchModel {
    /// Compiles a prepared model for so many rows, and leaves it as it was; `variables` are the ports behind
    /// those of clients.
    ///
    /// # Errors
    ///
    /// Fails if the first dimensions of the model are no batch of one row each, or it does not compile.
    pub(super) fn ready(
        core: &mut Core,
        load: &Load<'_>,
        prepared: &mut Prepared<'_>,
        variables: &[Port<'_>],
        rows: usize,
    ) -> Result<Self, ModelLoadError> {
        let refused = |text: &str| Err(ModelLoadError::unfit(text));
        let mut before = Vec::new();
        for port in 0..prepared.inputs.len() + variables.len() {
            let shape = prepared.model.port(Side::Input, port);
            let shape = shape.and_then(|port| port.get_shape());
            let shape = shape.map_err(ModelLoadError::refused("describe an input"))?;
            match shape {
                Some(shape) if is_batch(&shape, rows) => before.push((port, shape)),
                _ if load.options.stateful => {
                    return refused("an input or a variable has no first dimension of length 1");
                }
                _ => {
                    let length = format!("of length 1, or open for {rows}");
                    return refused(&format!("an input has no first dimension {length}"));
                }
            }
        }
        let of_batch = |(port, shape): &(usize, PartialShape)| {
            let mut shape = shape.clone();
            shape.0[0] = Dim::Fixed(rows);
            (*port, shape)
        };
        let batch: Vec<_> = before.iter().map(of_batch).collect();
        let reshape = ModelLoadError::refused("reshape the model");
        let compiled = prepared
            .model
            .reshape(&batch)
            .map_err(&reshape)
            .and_then(|()| load::compile(core, &prepared.model, load.options));
        prepared.model.reshape(&before).map_err(&reshape)?;
        let model = compiled?;
        let all = |side, mut ports: Vec<_>| {
            ports.extend(variables.iter().cloned());
            describe::all(side, ports, load.layouts, |side, place| {
                model.port(side, place)
            })
        };
        let inputs = all(Side::Input, prepared.inputs.clone())?;
        let outputs = all(Side::Output, prepared.outputs.clone())?;
        for Described { info, axes, .. } in inputs.iter().chain(&outputs) {
            let is_batch = info.shape.0.first() == Some(&Dim::Fixed(rows));
            if !is_batch || axes.is_some() || info.dtype == DataType::String {
                let name = &info.name;
                return refused(&format!("`{name}` has no row for each request of a batch"));
            }
        }
        Ok(Self {
            model,
            inputs,
            outputs,
            rows,
        })
    }
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
