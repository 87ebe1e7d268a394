//! A model before it is compiled.

use std::ptr;

use openvino::InferenceError;
use openvino_sys::{
    ov_dimension_t, ov_model_const_input_by_index, ov_model_const_output_by_index, ov_model_free,
    ov_model_inputs_size, ov_model_is_dynamic, ov_model_outputs_size,
    ov_model_reshape_by_port_indexes, ov_model_t, ov_partial_shape_t, ov_rank_t,
};

use super::{
    Port, Range,
    handle::{Handle, freed},
    status::check,
};

freed!(ov_model_t: ov_model_free);

/// A model with its graph and weights.
pub(in crate::openvino) struct Model(Handle<ov_model_t>);

// SAFETY: a model belongs to no thread, and calls that change it take it alone (`&mut`).
unsafe impl Send for Model {}

impl Model {
    pub(super) const fn new(model: Handle<ov_model_t>) -> Self {
        Self(model)
    }

    /// Returns the pointer, for calls that take a model.
    pub(super) const fn get(&self) -> *const ov_model_t {
        self.0.get()
    }

    /// Returns the number of inputs.
    pub(in crate::openvino) fn get_inputs_len(&self) -> Result<usize, InferenceError> {
        let mut count = 0;
        // SAFETY: the model is alive; the number goes into a variable of ours.
        check(unsafe { ov_model_inputs_size(self.get(), &raw mut count) })?;
        Ok(count)
    }

    /// Returns the number of outputs.
    pub(in crate::openvino) fn get_outputs_len(&self) -> Result<usize, InferenceError> {
        let mut count = 0;
        // SAFETY: the model is alive; the number goes into a variable of ours.
        check(unsafe { ov_model_outputs_size(self.get(), &raw mut count) })?;
        Ok(count)
    }

    /// Returns an input by its place.
    pub(in crate::openvino) fn get_input_by_index(
        &self,
        index: usize,
    ) -> Result<Port, InferenceError> {
        // SAFETY: the model is alive; the function puts the pointer to a new port there.
        let port =
            unsafe { Handle::made(|port| ov_model_const_input_by_index(self.get(), index, port)) }?;
        Ok(Port::new(port))
    }

    /// Returns an output by its place.
    pub(in crate::openvino) fn get_output_by_index(
        &self,
        index: usize,
    ) -> Result<Port, InferenceError> {
        // SAFETY: the model is alive; the function puts the pointer to a new port there.
        let port = unsafe {
            Handle::made(|port| ov_model_const_output_by_index(self.get(), index, port))
        }?;
        Ok(Port::new(port))
    }

    /// Returns whether a shape of the model may vary.
    pub(in crate::openvino) fn is_dynamic(&self) -> bool {
        // SAFETY: the model is alive.
        unsafe { ov_model_is_dynamic(self.get()) }
    }

    /// Gives inputs other shapes, by their places.
    pub(in crate::openvino) fn reshape(
        &mut self,
        shapes: &[(usize, Vec<Range>)],
    ) -> Result<(), InferenceError> {
        let mut dims: Vec<Vec<ov_dimension_t>> = shapes
            .iter()
            .map(|(_, shape)| shape.iter().map(Range::dimension).collect())
            .collect();
        let ports: Vec<usize> = shapes.iter().map(|(port, _)| *port).collect();
        let shapes: Vec<ov_partial_shape_t> = dims
            .iter_mut()
            .map(|dims| {
                let rank = i64::try_from(dims.len()).unwrap_or(i64::MAX);
                ov_partial_shape_t {
                    rank: ov_rank_t {
                        min: rank,
                        max: rank,
                    },
                    dims: match dims.is_empty() {
                        true => ptr::null_mut(),
                        false => dims.as_mut_ptr(),
                    },
                }
            })
            .collect();
        // SAFETY: the model is alive and ours alone (`&mut`); both lists have as many elements as is
        // said, and each shape as many dimensions as its rank. The call copies them.
        check(unsafe {
            ov_model_reshape_by_port_indexes(
                self.get(),
                ports.as_ptr(),
                shapes.as_ptr(),
                shapes.len(),
            )
        })
    }
}
