//! Runs of a node.

use std::{ffi::CString, ptr, sync::Arc};

use super::{
    abi::{RawTensor, as_array, precision},
    error::failed,
    node::Node,
    outputs::take,
};
use crate::{
    budget::{Budget, Charge},
    error::Result,
    tensor::{Tensor, TensorMap},
};

/// Inputs as the library gets them.
struct Inputs {
    raw: Vec<RawTensor>,
    /// Names that `raw` points to.
    _names: Vec<CString>,
    _dims: Vec<Vec<u64>>,
    /// Copies of the data that would not be aligned, with their charge.
    _copies: Vec<Vec<u8>>,
    _charge: Charge,
}

/// Text of the error of a failed run.
const FAILED: &str = "Custom node failed during execution";

/// Alignment of the data of inputs, which is that of memory from `malloc`: a compiler may read elements
/// with instructions that end the process at other addresses. Within a body, and among parts of a tensor,
/// data begins anywhere.
const ALIGNMENT: usize = 16;

impl Node {
    /// Runs the library's `execute` on the calling thread, for as long as it takes; several threads
    /// may do so at once: not for an async worker.
    ///
    /// Tensors of types that the interface does not have come to the library as their bytes,
    /// without a type. The outputs are in the library's order, none of them copied; each keeps the
    /// node until it is dropped.
    ///
    /// # Errors
    ///
    /// Fails if the library does, or returns what cannot be outputs.
    pub fn execute(self: &Arc<Self>, inputs: &[(&str, &Tensor)]) -> Result<TensorMap> {
        self.execute_within(inputs, &Budget::default())
    }

    /// Runs the library's `execute`, as [`execute`](Self::execute) does. Copies of inputs, which are
    /// made where their bytes do not begin at the place that the library needs, are charged to the
    /// budget while it runs.
    ///
    /// # Errors
    ///
    /// Fails as [`execute`](Self::execute) does, and if the budget has no room.
    pub(crate) fn execute_within(
        self: &Arc<Self>,
        inputs: &[(&str, &Tensor)],
        budget: &Budget,
    ) -> Result<TensorMap> {
        let library = self.library.name();
        let inputs = Inputs::new(inputs, library, budget)?;
        let (raw, raw_count) = as_array(&inputs.raw);
        let mut outputs = ptr::null_mut();
        let mut count = 0;
        let (params, params_count) = self.params();
        // SAFETY: the library is open and the handle initialized; all pointers are valid during the
        // call, and the library does not write to the inputs.
        let code = unsafe {
            (self.library.functions.execute)(
                raw,
                raw_count,
                &raw mut outputs,
                &raw mut count,
                params,
                params_count,
                self.handle,
            )
        };
        if code != 0 {
            let what = format!("`execute` of library `{library}` returned {code}, expected 0");
            return Err(failed(FAILED, what));
        }
        // SAFETY: this is what the call has returned.
        unsafe { take(self, outputs, count) }
    }
}

impl Inputs {
    /// Fails if a name has a zero byte, or the budget has no room for copies.
    fn new(inputs: &[(&str, &Tensor)], library: &str, budget: &Budget) -> Result<Self> {
        let mut raw = Vec::with_capacity(inputs.len());
        let mut names = Vec::with_capacity(inputs.len());
        let mut all_dims = Vec::with_capacity(inputs.len());
        let mut copies = Vec::new();
        let mut charge = budget.empty();
        for &(name, tensor) in inputs {
            let name = CString::new(name).map_err(|_| {
                let name = name.escape_debug();
                let cannot = format!("library `{library}` cannot take it");
                failed(
                    FAILED,
                    format!("input name `{name}` has a zero byte; {cannot}"),
                )
            })?;
            // Lengths of tensors that there are fit in 64 bits.
            let mut dims: Vec<u64> = tensor.shape().iter().map(|&dim| dim as u64).collect();
            let mut data = tensor.data().as_ptr();
            if data.align_offset(ALIGNMENT) != 0 {
                charge.add(tensor.data().len() + ALIGNMENT)?;
                let (copy, start) = aligned(tensor.data());
                data = copy[start..].as_ptr();
                copies.push(copy);
            }
            raw.push(RawTensor {
                name: name.as_ptr(),
                data: data.cast_mut(),
                data_bytes: tensor.data().len() as u64,
                dims: dims.as_mut_ptr(),
                dims_count: dims.len() as u64,
                precision: precision(tensor.dtype()),
            });
            // Texts, dimensions, and copies stay where they are when their owners move.
            names.push(name);
            all_dims.push(dims);
        }
        Ok(Self {
            raw,
            _names: names,
            _dims: all_dims,
            _copies: copies,
            _charge: charge,
        })
    }
}

/// Copies data to an aligned address; the second value is where it begins in the copy.
fn aligned(data: &[u8]) -> (Vec<u8>, usize) {
    let mut copy: Vec<u8> = Vec::with_capacity(data.len() + ALIGNMENT - 1);
    let start = copy.as_ptr().align_offset(ALIGNMENT);
    // Within its capacity, so that it stays where it is.
    copy.resize(start, 0);
    copy.extend_from_slice(data);
    (copy, start)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{ALIGNMENT, Inputs, aligned};
    use crate::{
        budget::Budget,
        error::ErrorKind,
        tensor::{DataType, Tensor},
    };

    #[test]
    fn inputs_are_aligned_and_those_that_are_so_are_not_copied() {
        let body = Bytes::from_iter(0..100);
        let mut same = 0;
        for from in 0..2 * ALIGNMENT {
            let data = body.slice(from..from + 40);
            let (copy, start) = aligned(&data);
            assert_eq!(copy[start..], data);
            let tensor = Tensor::new(DataType::F32, vec![10], data).unwrap();
            let budget = Budget::new(1000);
            let inputs = Inputs::new(&[("a", &tensor), ("b", &tensor)], "", &budget).unwrap();
            let copied = from % ALIGNMENT != body.as_ptr().align_offset(ALIGNMENT);
            assert_eq!(budget.charged(), usize::from(copied) * 2 * (40 + ALIGNMENT));
            for raw in &inputs.raw {
                assert_eq!(raw.data.align_offset(ALIGNMENT), 0, "{from}");
                same += usize::from(raw.data.cast_const() == tensor.data().as_ptr());
            }
            drop(inputs);
            assert_eq!(budget.charged(), 0);
            if copied {
                let refused = Inputs::new(&[("a", &tensor)], "", &Budget::new(50));
                assert_eq!(refused.err().unwrap().kind(), ErrorKind::TooLarge);
            }
        }
        assert_eq!(same, 4);
        let nothing = Tensor::new(DataType::F32, vec![0], Bytes::new()).unwrap();
        let inputs = Inputs::new(&[("a", &nothing)], "", &Budget::default()).unwrap();
        assert!(!inputs.raw[0].data.is_null());
    }
}
