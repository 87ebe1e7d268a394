//! States of several sequences in one batch: further inputs and outputs of it.

use super::{SequenceState, tensors::SlotStates};
use crate::{
    error::Error,
    openvino::{batch::rows::BatchItem, slot_error::SlotError},
};

impl SlotStates {
    /// Makes the states of sequences that begin.
    pub(in crate::openvino) fn begin(
        &mut self,
        items: &mut [BatchItem<'_>],
    ) -> Result<(), SlotError> {
        for item in items {
            let inputs = item.inputs;
            let state = item.state.as_deref_mut().ok_or_else(no_state)?;
            if state.values().is_none() {
                *state = SequenceState::of(self.initial(inputs, None)?);
            }
        }
        Ok(())
    }

    /// Returns the number of variables.
    pub(in crate::openvino) fn count(&self) -> usize {
        self.variables.list.len()
    }

    /// Returns the input of a variable, and its shape.
    pub(in crate::openvino) fn input(&self, place: usize) -> (usize, Vec<usize>) {
        let shape = self.variables.list[place].shape.fixed();
        (self.variables.first[0] + place, shape.unwrap_or_default())
    }

    /// Returns the output of a variable.
    pub(in crate::openvino) fn output(&self, place: usize) -> usize {
        self.variables.first[1] + place
    }

    /// Returns the contents of a variable.
    pub(in crate::openvino) fn contents<'a>(
        &self,
        item: &'a BatchItem<'_>,
        place: usize,
    ) -> Result<&'a [u8], SlotError> {
        let state = item.state.as_deref();
        let values = state.and_then(SequenceState::contents);
        self.variables.of(values.ok_or_else(no_state)?, place)
    }

    /// Sets the contents of a variable.
    pub(in crate::openvino) fn set(
        &self,
        item: &mut BatchItem<'_>,
        place: usize,
        contents: &[u8],
    ) -> Result<(), SlotError> {
        let state = item.state.as_deref_mut();
        let values = state.and_then(SequenceState::values);
        self.variables
            .set(values.ok_or_else(no_state)?, place, contents)
    }
}

fn no_state() -> Error {
    Error::internal("a step has no state")
}
