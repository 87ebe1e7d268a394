//! Batches on a slot: rows of requests are copied one behind the other into the tensors of the batch, and
//! out of them each into memory of its own.

use bytes::Bytes;

use super::{
    memory::RowMemory,
    model::{BatchModel, tensor_bytes},
};
use crate::{
    error::Error,
    openvino::{
        slot::Slot,
        slot_error::SlotError,
        slot_input::{InputData, SlotInput},
        state::SequenceState,
    },
    tensor::{Tensor, TensorError},
};

/// One of the requests of a batch.
pub(in crate::openvino) struct BatchItem<'a> {
    /// State that it is a step on.
    pub(in crate::openvino) state: Option<&'a mut SequenceState>,
    pub(in crate::openvino) inputs: &'a [SlotInput],
    pub(in crate::openvino) wanted: &'a [usize],
    /// Number of its rows.
    pub(in crate::openvino) rows: usize,
}

impl<'a> BatchItem<'a> {
    /// Returns the elements of an input.
    fn input(&self, port: usize) -> Result<&'a InputData, SlotError> {
        let found = self.inputs.iter().find(|given| given.port == port);
        let found = found.ok_or_else(|| Error::internal("an input is missing"))?;
        Ok(&found.data)
    }
}

/// The rows of one request.
enum Rows<'a> {
    OfInput(&'a InputData),
    OfState(&'a [u8]),
}

impl Rows<'_> {
    fn size(&self) -> usize {
        match self {
            Self::OfInput(data) => data.size(),
            Self::OfState(contents) => contents.len(),
        }
    }

    fn copy_to(&self, target: &mut [u8]) -> Result<(), SlotError> {
        match self {
            Self::OfInput(data) => data.copy_to(target)?,
            Self::OfState(contents) => target.copy_from_slice(contents),
        }
        Ok(())
    }
}

/// Infer request for batches of one size.
pub(in crate::openvino) struct BatchSlot {
    slot: Slot,
    rows: usize,
    memory: RowMemory,
}

impl BatchSlot {
    fn new(batch: &mut BatchModel) -> Result<Self, SlotError> {
        let BatchModel {
            model,
            inputs,
            outputs,
            rows,
            cost,
        } = batch;
        let bytes: usize = inputs.iter().map(tensor_bytes).sum();
        Ok(Self {
            slot: Slot::new(model, inputs, outputs, None)?,
            rows: *rows,
            memory: cost.of_slot(bytes / *rows),
        })
    }

    /// Writes rows one behind the other; those that no request is for are zero. Each is of this shape, but
    /// for the first dimension.
    fn write<'a>(
        &mut self,
        port: usize,
        shape: &[usize],
        all: impl Iterator<Item = Result<Rows<'a>, SlotError>>,
    ) -> Result<(), SlotError> {
        let mut shape = shape.to_vec();
        let first = shape.first_mut();
        *first.ok_or_else(|| Error::internal("an input of a batch has no rows"))? = self.rows;
        let write = |target: &mut [u8]| -> Result<(), SlotError> {
            let mut done = 0;
            for rows in all {
                let rows = rows?;
                let to = target.get_mut(done..done + rows.size());
                let to = to.ok_or_else(|| Error::internal("a batch has more rows than room"))?;
                rows.copy_to(to)?;
                done += rows.size();
            }
            target[done..].fill(0);
            Ok(())
        };
        self.slot.write_input(port, &shape, write)
    }
}

impl Slot {
    /// Adds an infer request for batches of another size.
    pub(in crate::openvino) fn add_batch(
        &mut self,
        batch: &mut BatchModel,
    ) -> Result<(), SlotError> {
        self.batches.push(BatchSlot::new(batch)?);
        Ok(())
    }

    /// Returns whether runs are steps on states.
    pub(in crate::openvino) fn has_states(&self) -> bool {
        self.states.is_some()
    }

    /// Removes the infer request for a size, by its place.
    pub(super) fn remove_batch(&mut self, size: usize) {
        self.batches.remove(size);
    }

    /// Runs several requests as one inference, of the size at a place; returns the wanted outputs of each, or `None` if
    /// there is not enough memory for rows as large. If it does not run, or what it gave may be wrong, no state has changed.
    pub(in crate::openvino) fn infer_batch(
        &mut self,
        size: usize,
        items: &mut [BatchItem<'_>],
        is_doubtful: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<Vec<Tensor>>>, SlotError> {
        let mut states = self.states.as_deref_mut();
        if let Some(states) = &mut states {
            states.begin(items)?;
        }
        let batch = self.batches.get_mut(size);
        let batch = batch.ok_or_else(|| Error::internal("there is no batch of such a size"))?;
        let Some(item) = items.first() else {
            return Ok(Some(Vec::new()));
        };
        let variables = states.as_ref().map_or(0, |states| states.count());
        let mut row = 0;
        for input in item.inputs {
            row += input.data.size() / item.rows.max(1);
        }
        if let Some(states) = &states {
            for place in 0..variables {
                row += states.contents(item, place)?.len();
            }
        }
        if !batch.memory.admits(row) {
            return Ok(None);
        }
        for input in item.inputs {
            let given = items.iter();
            let given = given.map(|item| item.input(input.port).map(Rows::OfInput));
            batch.write(input.port, &input.shape, given)?;
        }
        if let Some(states) = &states {
            for place in 0..variables {
                let (port, shape) = states.input(place);
                let given = items.iter();
                let given = given.map(|item| states.contents(item, place).map(Rows::OfState));
                batch.write(port, &shape, given)?;
            }
        }
        batch.slot.infer_written()?;
        if is_doubtful() {
            return Err(SlotError::Doubtful);
        }
        let rows = batch.rows;
        let wanted = |item: &BatchItem<'_>| vec![None; item.wanted.len()];
        let mut answers: Vec<Vec<Option<Tensor>>> = items.iter().map(wanted).collect();
        // By output, so that the runtime is asked for each of them once.
        for port in 0..batch.slot.outputs.len() {
            if !items.iter().any(|item| item.wanted.contains(&port)) {
                continue;
            }
            batch.slot.read_output(port, |dtype, shape, data| {
                let row = row_size(shape, data, rows)?;
                let mut start = 0;
                for (item, answer) in items.iter().zip(&mut answers) {
                    let part = start..start + row * item.rows;
                    start = part.end;
                    let places = item.wanted.iter().zip(answer);
                    for (_, answer) in places.filter(|(wanted, _)| **wanted == port) {
                        let shape = [&[item.rows], &shape[1..]].concat();
                        let data = Bytes::copy_from_slice(&data[part.clone()]);
                        *answer = Some(Tensor::new(dtype, shape, data).map_err(internal)?);
                    }
                }
                Ok(())
            })?;
        }
        if let Some(states) = &states {
            for place in 0..variables {
                let port = states.output(place);
                batch.slot.read_output(port, |_, shape, data| {
                    let row = row_size(shape, data, rows)?;
                    for (number, item) in items.iter_mut().enumerate() {
                        states.set(item, place, &data[number * row..(number + 1) * row])?;
                    }
                    Ok(())
                })?;
            }
        }
        let complete = |answer: Vec<Option<Tensor>>| -> Result<Vec<Tensor>, SlotError> {
            let outputs: Option<Vec<_>> = answer.into_iter().collect();
            outputs.ok_or_else(|| Error::internal("the model has no such output").into())
        };
        let answers: Result<_, _> = answers.into_iter().map(complete).collect();
        answers.map(Some)
    }
}

/// Returns the bytes of a row.
fn row_size(shape: &[usize], data: &[u8], rows: usize) -> Result<usize, SlotError> {
    if shape.first() != Some(&rows) {
        let text = format!("an output of a batch of {rows} rows has the shape {shape:?}");
        return Err(Error::internal(text).into());
    }
    Ok(data.len() / rows)
}

fn internal(error: TensorError) -> SlotError {
    Error::internal("Internal error").with_source(error).into()
}
