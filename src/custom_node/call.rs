//! Runs of a node.

use std::{
    ffi::{CString, c_int},
    ptr,
    sync::Arc,
};

use super::{
    abi::{RawTensor, precision},
    error::CallError,
    node::Node,
    outputs::take,
};
use crate::{
    task::blocking,
    tensor::{Tensor, TensorMap},
};

/// Inputs as the library gets them.
struct Inputs {
    raw: Vec<RawTensor>,
    /// Names that `raw` points to.
    _names: Vec<CString>,
    _dims: Vec<Vec<u64>>,
}

impl Node {
    /// Runs the library's `execute` on the calling thread, for as long as it takes; several threads
    /// may do so at once. Async workers take [`Node::run`] instead.
    ///
    /// Tensors of types that the interface does not have come to the library as their bytes,
    /// without a type. The outputs are in the library's order, none of them copied; each keeps the
    /// node until it is dropped.
    ///
    /// # Errors
    ///
    /// Fails if the library does, or returns what cannot be outputs.
    pub fn execute(self: &Arc<Self>, inputs: &[(&str, &Tensor)]) -> Result<TensorMap, CallError> {
        let library = || self.library().name().to_owned();
        let inputs = Inputs::new(inputs).map_err(|name| CallError::InputName {
            library: library(),
            name,
        })?;
        let mut outputs = ptr::null_mut();
        let mut count = 0;
        let (params, params_count) = self.params();
        // SAFETY: the library is open and the handle initialized; all pointers are valid during the
        // call, and the library does not write to the inputs.
        let code = unsafe {
            (self.functions().execute)(
                inputs.as_ptr(),
                inputs.count(),
                &raw mut outputs,
                &raw mut count,
                params,
                params_count,
                self.handle(),
            )
        };
        if code != 0 {
            return Err(CallError::Execute {
                library: library(),
                code,
            });
        }
        // SAFETY: this is what the call has returned.
        unsafe { take(self, outputs, count) }
    }

    /// Runs [`Node::execute`] on one of the threads for work that blocks. How many do so at once,
    /// the caller bounds. A run that has begun goes to its end, also if nobody waits for it any
    /// more.
    ///
    /// # Errors
    ///
    /// As [`Node::execute`].
    pub async fn run(
        self: &Arc<Self>,
        inputs: Vec<(String, Tensor)>,
    ) -> Result<TensorMap, CallError> {
        let node = Arc::clone(self);
        blocking("custom node", move || {
            let inputs: Vec<(&str, &Tensor)> = inputs
                .iter()
                .map(|(name, tensor)| (name.as_str(), tensor))
                .collect();
            node.execute(&inputs)
        })
        .await
    }
}

impl Inputs {
    /// Fails with a name that has a zero byte.
    fn new(inputs: &[(&str, &Tensor)]) -> Result<Self, String> {
        let mut raw = Vec::with_capacity(inputs.len());
        let mut names = Vec::with_capacity(inputs.len());
        let mut all_dims = Vec::with_capacity(inputs.len());
        for &(name, tensor) in inputs {
            let name = CString::new(name).map_err(|_| name.to_owned())?;
            // Lengths of tensors that there are fit in 64 bits.
            let mut dims: Vec<u64> = tensor.shape().iter().map(|&dim| dim as u64).collect();
            raw.push(RawTensor {
                name: name.as_ptr(),
                data: tensor.data().as_ptr().cast_mut(),
                data_bytes: tensor.data().len() as u64,
                dims: dims.as_mut_ptr(),
                dims_count: dims.len() as u64,
                precision: precision(tensor.dtype()),
            });
            // Texts and dimensions stay where they are when their owners move.
            names.push(name);
            all_dims.push(dims);
        }
        Ok(Self {
            raw,
            _names: names,
            _dims: all_dims,
        })
    }

    /// Returns the array; null if it is empty.
    fn as_ptr(&self) -> *const RawTensor {
        if self.raw.is_empty() {
            ptr::null()
        } else {
            self.raw.as_ptr()
        }
    }

    fn count(&self) -> c_int {
        // Nodes have far fewer; fewer than there are would be no harm.
        c_int::try_from(self.raw.len()).unwrap_or(c_int::MAX)
    }
}
