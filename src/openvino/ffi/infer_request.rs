//! An infer request: runs inferences, one at a time, on the tensors that it has.

use openvino::InferenceError;
use openvino_sys::{
    ov_infer_request_cancel, ov_infer_request_free, ov_infer_request_get_input_tensor_by_index,
    ov_infer_request_get_output_tensor_by_index, ov_infer_request_get_tensor,
    ov_infer_request_infer, ov_infer_request_set_input_tensor_by_index,
    ov_infer_request_set_output_tensor_by_index, ov_infer_request_start_async, ov_infer_request_t,
    ov_infer_request_wait_for,
};

use super::{
    Tensor,
    handle::{Handle, freed},
    status::{check, text},
};

freed!(ov_infer_request_t: ov_infer_request_free);

/// An infer request, which keeps its compiled model alive.
pub(in crate::openvino) struct InferRequest(Handle<ov_infer_request_t>);

// SAFETY: an infer request belongs to no thread, and all that changes it takes it alone (`&mut`).
unsafe impl Send for InferRequest {}

impl InferRequest {
    /// Takes an infer request over, and makes its tensors zero.
    pub(super) fn new(
        request: Handle<ov_infer_request_t>,
        inputs: usize,
        outputs: usize,
    ) -> Result<Self, InferenceError> {
        let request = Self(request);
        for index in 0..inputs {
            // SAFETY: the request is alive; the function puts the pointer to a new tensor there.
            let tensor = unsafe {
                Handle::made(|tensor| {
                    ov_infer_request_get_input_tensor_by_index(request.0.get(), index, tensor)
                })
            }?;
            Tensor::new(tensor).clear()?;
        }
        for index in 0..outputs {
            request.get_output_tensor_by_index(index)?.clear()?;
        }
        Ok(request)
    }

    /// Returns the tensor of the input or output that has a name.
    pub(in crate::openvino) fn get_tensor(&self, name: &str) -> Result<Tensor, InferenceError> {
        let name = text(name)?;
        // SAFETY: the request is alive, the name ends with a zero byte and lives until the call
        // returns; the function puts the pointer to a new tensor there.
        let tensor = unsafe {
            Handle::made(|tensor| ov_infer_request_get_tensor(self.0.get(), name.as_ptr(), tensor))
        }?;
        Ok(Tensor::new(tensor))
    }

    /// Returns the tensor of an output, by its place.
    pub(in crate::openvino) fn get_output_tensor_by_index(
        &self,
        index: usize,
    ) -> Result<Tensor, InferenceError> {
        // SAFETY: the request is alive; the function puts the pointer to a new tensor there.
        let tensor = unsafe {
            Handle::made(|tensor| {
                ov_infer_request_get_output_tensor_by_index(self.0.get(), index, tensor)
            })
        }?;
        Ok(Tensor::new(tensor))
    }

    /// Has the inferences read an input from a tensor, which stays alive for as long.
    pub(in crate::openvino) fn set_input_tensor_by_index(
        &mut self,
        index: usize,
        tensor: &Tensor,
    ) -> Result<(), InferenceError> {
        // SAFETY: request and tensor are alive, and the request holds the tensor's memory itself.
        check(unsafe {
            ov_infer_request_set_input_tensor_by_index(self.0.get(), index, tensor.as_ptr())
        })
    }

    /// Has the inferences write an output to a tensor, which stays alive for as long.
    pub(in crate::openvino) fn set_output_tensor_by_index(
        &mut self,
        index: usize,
        tensor: &Tensor,
    ) -> Result<(), InferenceError> {
        // SAFETY: request and tensor are alive, and the request holds the tensor's memory itself.
        check(unsafe {
            ov_infer_request_set_output_tensor_by_index(self.0.get(), index, tensor.as_ptr())
        })
    }

    /// Runs an inference and waits for its end.
    pub(in crate::openvino) fn infer(&mut self) -> Result<(), InferenceError> {
        // SAFETY: the request is alive and ours alone (`&mut`).
        check(unsafe { ov_infer_request_infer(self.0.get()) })
    }

    /// Starts an inference, and does not wait for it.
    pub(in crate::openvino) fn infer_async(&mut self) -> Result<(), InferenceError> {
        // SAFETY: the request is alive and ours alone (`&mut`).
        check(unsafe { ov_infer_request_start_async(self.0.get()) })
    }

    /// Waits for the end of an inference, in milliseconds; that it has not ended is an error.
    pub(in crate::openvino) fn wait(&mut self, most: i64) -> Result<(), InferenceError> {
        // SAFETY: the request is alive and ours alone (`&mut`).
        check(unsafe { ov_infer_request_wait_for(self.0.get(), most) })
    }

    /// Asks the device to end the inference early.
    pub(in crate::openvino) fn cancel(&mut self) -> Result<(), InferenceError> {
        // SAFETY: the request is alive and ours alone (`&mut`).
        check(unsafe { ov_infer_request_cancel(self.0.get()) })
    }
}
