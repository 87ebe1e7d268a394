//! Steps of several sequences as one inference, on a model whose first dimensions are a batch.
//!
//! The model is compiled a second time for it. Whether rows of a batch are what each is alone is
//! found out at load, by running some.

use super::{SequenceState, tensors::SlotStates, variables::Variables};
use crate::{
    error::Error,
    openvino::{
        describe::{self, Described},
        error::ModelLoadError,
        ffi::{CompiledModel, Core, Side},
        load::{self, Load},
        prepare::Prepared,
        slot::{Slot, SlotError, SlotInput, Step},
    },
    tensor::{DataType, Dim, PartialShape, Tensor, cast, values::values},
};

/// The most that a number of a batch may differ from that of a step alone, of the larger of 1 and the
/// number.
const TOLERANCE: f64 = 1e-3;

/// Number of steps that are compared.
const STEPS: usize = 3;

/// A model compiled for a batch, with its inputs and outputs, those of variables behind the others.
pub(super) struct BatchModel {
    pub(super) model: CompiledModel,
    pub(super) inputs: Vec<Described>,
    pub(super) outputs: Vec<Described>,
}

impl BatchModel {
    /// Compiles a prepared model for `rows` steps at once, and leaves it as it was.
    pub(super) fn ready(
        core: &mut Core,
        load: &Load<'_>,
        prepared: &mut Prepared<'_>,
        variables: &Variables,
        rows: usize,
    ) -> Result<Self, ModelLoadError> {
        let refused = |text: &str| Err(ModelLoadError::unfit(text));
        if load.options.inference_timeout.is_some() {
            return refused("inference_timeout_ms is set");
        }
        let mut before = Vec::new();
        for port in 0..prepared.inputs.len() + variables.list.len() {
            let shape = prepared.model.port(Side::Input, port);
            let shape = shape.and_then(|port| port.get_shape());
            match shape.map_err(ModelLoadError::refused("describe an input"))? {
                Some(shape) if shape.fixed().is_some_and(|it| it.first() == Some(&1)) => {
                    before.push((port, shape));
                }
                _ => return refused("an input or a variable has no first dimension of length 1"),
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
            ports.extend(variables.ports());
            describe::all(side, ports, load.layouts, |side, place| {
                model.port(side, place)
            })
        };
        let inputs = all(Side::Input, prepared.inputs.clone())?;
        let outputs = all(Side::Output, prepared.outputs.clone())?;
        for Described { info, axes, .. } in inputs.iter().chain(&outputs) {
            let is_batch = info
                .shape
                .fixed()
                .is_some_and(|it| it.first() == Some(&rows));
            if !is_batch || axes.is_some() || info.dtype == DataType::String {
                return refused("an output has no rows for the steps of a batch");
            }
        }
        Ok(Self {
            model,
            inputs,
            outputs,
        })
    }
}

impl SlotStates {
    /// Returns how many steps run at once, if more than one can.
    pub(in crate::openvino) fn batch(&self) -> Option<usize> {
        self.batch.as_ref().map(|(_, rows)| *rows)
    }

    /// Has steps run one by one.
    pub(in crate::openvino) fn without_batch(&mut self) {
        self.batch = None;
    }

    /// Runs a step of each of several sequences at once; returns the wanted outputs of each. If it
    /// fails, no state has changed.
    pub(in crate::openvino) fn run_batch(
        &mut self,
        steps: &mut [Step<'_>],
    ) -> Result<Vec<Vec<Tensor>>, SlotError> {
        for step in &mut *steps {
            if step.state.values().is_none() {
                *step.state = SequenceState::of(self.initial(step.inputs, None)?);
            }
        }
        let variables = &*self.variables;
        let Some((batch, rows)) = &mut self.batch else {
            return Err(Error::internal("the model has no batch").into());
        };
        let (rows, [ports, first]) = (*rows, variables.first);
        let mut inputs = Vec::with_capacity(ports + variables.list.len());
        for port in 0..ports {
            let given = steps.iter().filter_map(|step| {
                let input = step.inputs.iter().find(|input| input.port == port)?;
                Some((&*input.shape, &*input.data))
            });
            inputs.push(stacked(port, given, rows)?);
        }
        for (place, variable) in variables.list.iter().enumerate() {
            let shape = variable.shape.fixed().unwrap_or_default();
            let mut given = Vec::with_capacity(steps.len());
            for step in &*steps {
                let values = step.state.contents();
                let values = values.ok_or_else(|| Error::internal("a step has no state"))?;
                given.push((&*shape, variables.of(values, place)?));
            }
            inputs.push(stacked(ports + place, given.into_iter(), rows)?);
        }
        let wanted: Vec<usize> = (0..first + variables.list.len()).collect();
        let outputs = batch.infer(None, &inputs, &wanted, None)?;
        let row = |port: usize, number: usize| -> Result<Tensor, SlotError> {
            let output = outputs.get(port);
            let output = output.ok_or_else(|| Error::internal("no such output"))?;
            let length = output.data().len() / rows;
            let data = output.data().slice(number * length..(number + 1) * length);
            let shape = [&[1], &output.shape()[1..]].concat();
            let tensor = Tensor::new(output.dtype(), shape, data);
            Ok(tensor.map_err(|error| Error::internal("Internal error").with_source(error))?)
        };
        let mut answers = Vec::with_capacity(steps.len());
        for (number, step) in steps.iter().enumerate() {
            let answer = step.wanted.iter().map(|&port| row(port, number));
            answers.push(answer.collect::<Result<Vec<_>, _>>()?);
        }
        for (number, step) in steps.iter_mut().enumerate() {
            for place in 0..variables.list.len() {
                if let Some(values) = step.state.values() {
                    variables.set(values, place, row(first + place, number)?.data())?;
                }
            }
        }
        Ok(answers)
    }
}

/// Puts rows one behind the other; those that no step is for are zero.
fn stacked<'a>(
    port: usize,
    given: impl Iterator<Item = (&'a [usize], &'a [u8])>,
    rows: usize,
) -> Result<SlotInput, Error> {
    let mut data = Vec::new();
    let (mut shape, mut length) = (Vec::new(), 0);
    for (row, bytes) in given {
        if data.is_empty() {
            shape.extend_from_slice(row);
            length = bytes.len();
            data.reserve_exact(length * rows);
        }
        data.extend_from_slice(bytes);
    }
    let first = shape.first_mut();
    *first.ok_or_else(|| Error::internal("an input of a batch has no rows"))? = rows;
    data.resize(length * rows, 0);
    Ok(SlotInput::new(port, shape, data.into()))
}

/// Runs steps of sequences in a batch and alone.
///
/// # Errors
///
/// Fails if outputs differ by more than the tolerance, or anything does not run.
pub(in crate::openvino) fn check(
    slot: &mut Slot,
    inputs: &[Described],
    outputs: usize,
) -> Result<(), SlotError> {
    let rows = slot.batch();
    let refused = |text: String| SlotError::Other(Error::invalid(text));
    let wanted: Vec<usize> = (0..outputs).collect();
    let mut seed = 1;
    let mut alone: Vec<SequenceState> = (0..rows).map(|_| SequenceState::default()).collect();
    let mut together: Vec<SequenceState> = (0..rows).map(|_| SequenceState::default()).collect();
    for _ in 0..STEPS {
        let mut given = Vec::new();
        for _ in 0..rows {
            let row = inputs.iter().map(|input| numbers(input, &mut seed));
            given.push(
                row.collect::<Option<Vec<_>>>()
                    .ok_or_else(|| refused("an input is of strings".to_owned()))?,
            );
        }
        let expected = alone
            .iter_mut()
            .zip(&given)
            .map(|(state, inputs)| slot.infer(Some(state), inputs, &wanted, None));
        let expected = expected.collect::<Result<Vec<_>, _>>()?;
        let steps = together.iter_mut().zip(&given);
        let mut steps: Vec<Step<'_>> = steps
            .map(|(state, inputs)| Step {
                state,
                inputs,
                wanted: &wanted,
            })
            .collect();
        let found = slot.infer_batch(&mut steps)?;
        for (one, other) in expected.iter().flatten().zip(found.iter().flatten()) {
            let pairs = values(one).zip(values(other));
            for (one, other) in
                pairs.filter_map(|(one, other)| Some((one.as_f64()?, other.as_f64()?)))
            {
                // Not-a-number is no less than anything.
                let is_near = (one - other).abs() <= TOLERANCE * one.abs().max(1.0);
                if one.to_bits() != other.to_bits() && !is_near {
                    return Err(refused(format!(
                        "a batch gives {other} where a step alone gives {one}"
                    )));
                }
            }
        }
    }
    Ok(())
}

/// Makes an input of numbers from -4 to 4; `None` if it is of strings.
fn numbers(input: &Described, seed: &mut u64) -> Option<SlotInput> {
    let shape = input.info.shape.fixed()?;
    let count = shape.iter().product();
    let mut next = || {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let high = u32::try_from(*seed >> 32).unwrap_or_default();
        f64::from(high) / f64::from(u32::MAX) * 8.0 - 4.0
    };
    let data: Vec<u8> = (0..count)
        .flat_map(|_: usize| next().to_le_bytes())
        .collect();
    let tensor = Tensor::new(DataType::F64, shape, data.into()).ok()?;
    let (_, shape, data) = cast(&tensor, input.info.dtype)?.into_parts();
    Some(SlotInput::new(input.info.port, shape, data))
}
