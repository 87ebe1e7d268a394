//! An infer request: runs inferences, one at a time, on the tensors that it has.

use std::mem;

use bytes::Bytes;
use openvino::ElementType;
use openvino_sys as sys;

use super::{
    Side, Tensor,
    handle::{Handle, Result, check, text},
};

/// An infer request, which keeps its compiled model alive.
pub(in crate::openvino) type InferRequest = Handle<sys::ov_infer_request_t>;

// SAFETY: an infer request belongs to no thread, and all that changes it takes it alone (`&mut`).
unsafe impl Send for InferRequest {}

/// An input that an inference reads where it lies, in memory that is not the runtime's.
pub(in crate::openvino) struct LentInput<'a> {
    /// Place of the input.
    pub(in crate::openvino) index: usize,
    /// Type of its elements: numbers.
    pub(in crate::openvino) element: ElementType,
    /// Lengths of its dimensions.
    pub(in crate::openvino) shape: &'a [usize],
    /// The elements, as many as that, at an address that is a multiple of their size.
    pub(in crate::openvino) bytes: &'a Bytes,
    /// Tensor that the infer request has for it afterwards.
    pub(in crate::openvino) own: &'a Tensor,
}

/// Gives an infer request its own tensors back.
struct Lending<'a> {
    request: &'a mut InferRequest,
    inputs: &'a [LentInput<'a>],
}

impl Drop for Lending<'_> {
    fn drop(&mut self) {
        for LentInput {
            index, bytes, own, ..
        } in self.inputs
        {
            if self.request.set_tensor(Side::Input, *index, own).is_err() {
                // The request may still have their address.
                mem::forget(Bytes::clone(bytes));
            }
        }
    }
}

impl InferRequest {
    /// Runs a function with inputs that are read where they lie, and gives the request its own tensors back; no
    /// inference may be running when `run` returns.
    pub(crate) fn lend<R>(
        &mut self,
        inputs: &[LentInput<'_>],
        run: impl FnOnce(&mut Self) -> R,
    ) -> Result<R> {
        let lending = Lending {
            request: self,
            inputs,
        };
        for input in inputs {
            // SAFETY: the bytes are shared, so nothing of this process writes to them, and live as long as `inputs`, before
            // whose end the request has another tensor, or they are never freed. The runtime writes to no input. A Python
            // worker could write to those that it has sent, which stay mapped: numbers are then neither old nor new, and
            // any bytes are numbers.
            let tensor = unsafe { Tensor::over(input.element, input.shape, input.bytes) }?;
            lending
                .request
                .set_tensor(Side::Input, input.index, &tensor)?;
        }
        Ok(run(lending.request))
    }

    /// Returns the tensor of the input or output that has a name.
    pub(crate) fn named_tensor(&self, name: &str) -> Result<Tensor> {
        let name = text(name)?;
        let get = sys::ov_infer_request_get_tensor;
        // SAFETY: the request is alive, the name ends with a zero byte and lives until the call
        // returns; the function puts the pointer to a new tensor there.
        unsafe { Handle::made(|tensor| get(self.get(), name.as_ptr(), tensor)) }
    }

    /// Returns the tensor of an input or output, by its place.
    pub(crate) fn tensor(&self, side: Side, index: usize) -> Result<Tensor> {
        let get = match side {
            Side::Input => sys::ov_infer_request_get_input_tensor_by_index,
            Side::Output => sys::ov_infer_request_get_output_tensor_by_index,
        };
        // SAFETY: the request is alive; the function puts the pointer to a new tensor there.
        unsafe { Handle::made(|tensor| get(self.get(), index, tensor)) }
    }

    /// Sets the tensor that inferences read an input from, or write an output to. The tensor stays
    /// alive for as long.
    pub(crate) fn set_tensor(&mut self, side: Side, index: usize, tensor: &Tensor) -> Result<()> {
        let set = match side {
            Side::Input => sys::ov_infer_request_set_input_tensor_by_index,
            Side::Output => sys::ov_infer_request_set_output_tensor_by_index,
        };
        // SAFETY: request and tensor are alive, and the request holds the tensor's memory itself.
        check(unsafe { set(self.get(), index, tensor.get()) })
    }

    /// Runs an inference and waits for its end.
    pub(crate) fn infer(&mut self) -> Result<()> {
        // SAFETY: the request is alive and ours alone (`&mut`).
        check(unsafe { sys::ov_infer_request_infer(self.get()) })
    }

    /// Starts an inference, and does not wait for it.
    pub(crate) fn infer_async(&mut self) -> Result<()> {
        // SAFETY: the request is alive and ours alone (`&mut`).
        check(unsafe { sys::ov_infer_request_start_async(self.get()) })
    }

    /// Waits for the end of an inference, in milliseconds; that it has not ended is an error.
    pub(crate) fn wait(&mut self, most: i64) -> Result<()> {
        // SAFETY: the request is alive and ours alone (`&mut`).
        check(unsafe { sys::ov_infer_request_wait_for(self.get(), most) })
    }

    /// Asks the device to end the inference early.
    pub(crate) fn cancel(&mut self) -> Result<()> {
        // SAFETY: the request is alive and ours alone (`&mut`).
        check(unsafe { sys::ov_infer_request_cancel(self.get()) })
    }
}
