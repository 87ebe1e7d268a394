//! Inputs and outputs, as a node describes them.

use std::ptr;

use super::{
    abi::{GetInfo, RawInfo, dtype},
    error::NodeError,
    node::Node,
    outputs::{Borrowed, entries, take_dims, take_name},
};
use crate::{
    servable::TensorSource,
    tensor::{Dim, Layout, PartialShape},
};

impl Node {
    /// Asks the library for the node's inputs, in its order.
    ///
    /// # Errors
    ///
    /// Fails if the library does, or gives no array.
    pub fn inputs(&self) -> Result<Vec<TensorSource>, NodeError> {
        self.tensors("getInputsInfo", self.library.functions.inputs)
    }

    /// Asks the library for the node's outputs, in its order.
    ///
    /// # Errors
    ///
    /// Fails if the library does, or gives no array.
    pub fn outputs(&self) -> Result<Vec<TensorSource>, NodeError> {
        self.tensors("getOutputsInfo", self.library.functions.outputs)
    }

    fn tensors(
        &self,
        function: &'static str,
        get: GetInfo,
    ) -> Result<Vec<TensorSource>, NodeError> {
        let library = || self.library.name().to_owned();
        let mut info: *mut RawInfo = ptr::null_mut();
        let mut count = 0;
        let (params, params_count) = self.params();
        // SAFETY: the library is open and the handle initialized; all pointers are valid during the
        // call.
        let code = unsafe {
            get(
                &raw mut info,
                &raw mut count,
                params,
                params_count,
                self.handle,
            )
        };
        if code != 0 {
            return Err(NodeError::Call {
                library: library(),
                function,
                code,
            });
        }
        if info.is_null() {
            return Err(NodeError::NoArray {
                library: library(),
                function,
            });
        }
        // Given back at the end, after the dimensions of each entry.
        // SAFETY: the call above returned the array, and it is given back here only.
        let _array = unsafe { Borrowed::new(self, info) };
        let entries = entries(count).ok_or_else(|| NodeError::Count {
            library: library(),
            function,
            count,
        })?;
        let mut tensors = Vec::with_capacity(entries);
        for index in 0..entries {
            // SAFETY: the library says that the array has so many entries; wherever it is.
            let raw = unsafe { info.add(index).read_unaligned() };
            // SAFETY: the entry is one of the array, and its dimensions are taken once.
            let dims = unsafe { take_dims(self, raw.dims, raw.dims_count) };
            // SAFETY: the interface says that a name is null or such a text.
            let Some(name) = (unsafe { take_name(raw.name) }) else {
                continue;
            };
            let Some(dims) = dims else {
                tracing::warn!(
                    library = self.library.name(),
                    function,
                    tensor = name,
                    dimensions = raw.dims_count,
                    "skipping a tensor of a custom node whose dimensions are nonsense"
                );
                continue;
            };
            tensors.push(TensorSource {
                name,
                dtype: dtype(raw.precision),
                layout: Layout::unspecified(dims.len()),
                shape: PartialShape(dims.into_iter().map(dim).collect()),
            });
        }
        Ok(tensors)
    }
}

/// Reads a dimension, of which 0 may have any length.
fn dim(length: usize) -> Dim {
    match length {
        0 => Dim::Any,
        length => Dim::Fixed(length),
    }
}
