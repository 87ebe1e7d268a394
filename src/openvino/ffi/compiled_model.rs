//! A model that is compiled for a device.

use std::ptr;

use openvino::{InferenceError, PropertyKey};
use openvino_sys::{
    ov_compiled_model_create_infer_request, ov_compiled_model_free, ov_compiled_model_get_property,
    ov_compiled_model_input_by_index, ov_compiled_model_inputs_size,
    ov_compiled_model_output_by_index, ov_compiled_model_outputs_size, ov_compiled_model_t,
};

use super::{
    InferRequest, Port,
    handle::{Handle, freed},
    status::{check, take_text, text},
};

freed!(ov_compiled_model_t: ov_compiled_model_free);

/// A model that makes infer requests.
pub(in crate::openvino) struct CompiledModel(Handle<ov_compiled_model_t>);

// SAFETY: a compiled model belongs to no thread, and making infer requests takes it alone (`&mut`).
unsafe impl Send for CompiledModel {}

impl CompiledModel {
    pub(super) const fn new(model: Handle<ov_compiled_model_t>) -> Self {
        Self(model)
    }

    /// Makes an infer request; its tensors are zero where the runtime has made them already.
    pub(in crate::openvino) fn create_infer_request(
        &mut self,
    ) -> Result<InferRequest, InferenceError> {
        // SAFETY: the model is alive; the function puts the pointer to a new infer request there.
        let request = unsafe {
            Handle::made(|request| ov_compiled_model_create_infer_request(self.0.get(), request))
        }?;
        let (mut inputs, mut outputs) = (0, 0);
        // SAFETY: the model is alive; the numbers go into variables of ours.
        check(unsafe { ov_compiled_model_inputs_size(self.0.get(), &raw mut inputs) })?;
        // SAFETY: as above.
        check(unsafe { ov_compiled_model_outputs_size(self.0.get(), &raw mut outputs) })?;
        InferRequest::new(request, inputs, outputs)
    }

    /// Returns an input by its place.
    pub(in crate::openvino) fn get_input_by_index(
        &self,
        index: usize,
    ) -> Result<Port, InferenceError> {
        // SAFETY: the model is alive; the function puts the pointer to a new port there.
        let port = unsafe {
            Handle::made(|port| ov_compiled_model_input_by_index(self.0.get(), index, port))
        }?;
        Ok(Port::new(port))
    }

    /// Returns an output by its place.
    pub(in crate::openvino) fn get_output_by_index(
        &self,
        index: usize,
    ) -> Result<Port, InferenceError> {
        // SAFETY: the model is alive; the function puts the pointer to a new port there.
        let port = unsafe {
            Handle::made(|port| ov_compiled_model_output_by_index(self.0.get(), index, port))
        }?;
        Ok(Port::new(port))
    }

    /// Asks for a property of the compiled model.
    pub(in crate::openvino) fn get_property(
        &self,
        key: &PropertyKey,
    ) -> Result<String, InferenceError> {
        let key = text(key.as_ref())?;
        let mut value = ptr::null_mut();
        // SAFETY: the model is alive, the text ends with a zero byte and lives until the call returns.
        check(unsafe {
            ov_compiled_model_get_property(self.0.get(), key.as_ptr(), &raw mut value)
        })?;
        // SAFETY: the call has just made the text.
        Ok(unsafe { take_text(value) })
    }
}
