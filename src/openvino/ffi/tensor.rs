//! A tensor in the runtime's memory.

use std::{ptr, slice};

use openvino::{ElementType, InferenceError};
use openvino_sys::{
    ov_element_type_e, ov_shape_free, ov_shape_t, ov_tensor_create, ov_tensor_data, ov_tensor_free,
    ov_tensor_get_byte_size, ov_tensor_get_element_type, ov_tensor_get_shape, ov_tensor_get_size,
    ov_tensor_t,
};

use super::{
    handle::{Handle, freed},
    status::{check, unfit},
};

freed!(ov_tensor_t: ov_tensor_free);

/// A tensor of the runtime's, or the share of one that an infer request has.
pub(in crate::openvino) struct Tensor(Handle<ov_tensor_t>);

// SAFETY: a tensor belongs to no thread, and all that changes it takes it alone (`&mut`). An infer
// request that has it, too, is used by its owner alone: a slot has both.
unsafe impl Send for Tensor {}

impl Tensor {
    pub(super) const fn new(tensor: Handle<ov_tensor_t>) -> Self {
        Self(tensor)
    }

    /// Makes a tensor whose elements are zero. It has at least one dimension: the C interface knows
    /// no others.
    pub(in crate::openvino) fn zeros(
        element: ElementType,
        shape: &[usize],
    ) -> Result<Self, InferenceError> {
        if shape.is_empty() {
            return Err(unfit("a tensor without dimensions cannot be made"));
        }
        let mut dims: Vec<i64> = shape
            .iter()
            .map(|&length| i64::try_from(length).unwrap_or(i64::MAX))
            .collect();
        let shape = ov_shape_t {
            rank: i64::try_from(dims.len()).unwrap_or(i64::MAX),
            dims: dims.as_mut_ptr(),
        };
        // SAFETY: the shape has as many dimensions as its rank and lives until the call returns,
        // which copies it; the function puts the pointer to a new tensor there.
        let tensor =
            unsafe { Handle::made(|tensor| ov_tensor_create(element.into(), shape, tensor)) }?;
        let mut tensor = Self(tensor);
        tensor.clear()?;
        Ok(tensor)
    }

    /// Makes the elements zero, so that none is memory that nobody wrote; strings are empty anyway.
    pub(super) fn clear(&mut self) -> Result<(), InferenceError> {
        if self.get_element_type()? == ElementType::String {
            return Ok(());
        }
        let size = self.get_byte_size()?;
        if size > 0 {
            let start = self.start()?;
            // SAFETY: the tensor has `size` bytes from `start`, is ours alone (`&mut`), and is of
            // numbers, which may have any bytes.
            unsafe { ptr::write_bytes(start, 0, size) };
        }
        Ok(())
    }

    /// Returns the pointer, for calls that take a tensor.
    pub(in crate::openvino) const fn as_ptr(&self) -> *const ov_tensor_t {
        self.0.get()
    }

    /// Returns the pointer, for calls that change a tensor.
    pub(in crate::openvino) const fn as_mut_ptr(&mut self) -> *mut ov_tensor_t {
        self.0.get()
    }

    /// Returns the lengths of its dimensions.
    pub(in crate::openvino) fn get_shape(&self) -> Result<Vec<usize>, InferenceError> {
        let mut shape = ov_shape_t {
            rank: 0,
            dims: ptr::null_mut(),
        };
        // SAFETY: the tensor is alive; the shape goes into a variable of ours.
        check(unsafe { ov_tensor_get_shape(self.as_ptr(), &raw mut shape) })?;
        let count = match shape.dims.is_null() {
            true => 0,
            false => usize::try_from(shape.rank).unwrap_or(0),
        };
        let length = |index| {
            // SAFETY: the shape has as many dimensions as its rank, and is freed below.
            let length = unsafe { *shape.dims.add(index) };
            usize::try_from(length).unwrap_or(0)
        };
        let lengths = (0..count).map(length).collect();
        // SAFETY: the shape was filled by the call above, and its dimensions have been copied.
        check(unsafe { ov_shape_free(&raw mut shape) })?;
        Ok(lengths)
    }

    /// Returns the type of its elements.
    pub(in crate::openvino) fn get_element_type(&self) -> Result<ElementType, InferenceError> {
        let mut element = ov_element_type_e::DYNAMIC;
        // SAFETY: the tensor is alive; the type goes into a variable of ours.
        check(unsafe { ov_tensor_get_element_type(self.as_ptr(), &raw mut element) })?;
        Ok(element.into())
    }

    /// Returns the number of its elements.
    pub(in crate::openvino) fn get_size(&self) -> Result<usize, InferenceError> {
        let mut count = 0;
        // SAFETY: the tensor is alive; the number goes into a variable of ours.
        check(unsafe { ov_tensor_get_size(self.as_ptr(), &raw mut count) })?;
        Ok(count)
    }

    /// Returns the number of its bytes.
    pub(in crate::openvino) fn get_byte_size(&self) -> Result<usize, InferenceError> {
        let mut size = 0;
        // SAFETY: the tensor is alive; the number goes into a variable of ours.
        check(unsafe { ov_tensor_get_byte_size(self.as_ptr(), &raw mut size) })?;
        Ok(size)
    }

    /// Returns its bytes.
    pub(in crate::openvino) fn get_raw_data(&self) -> Result<&[u8], InferenceError> {
        let (start, size) = (self.start()?, self.get_byte_size()?);
        if size == 0 {
            return Ok(&[]);
        }
        // SAFETY: the tensor has `size` bytes from `start` for as long as it lives, all of which
        // have been written; what changes them takes it alone (`&mut`), or the infer request that
        // has it, too.
        Ok(unsafe { slice::from_raw_parts(start, size) })
    }

    /// Returns its bytes, to be changed; they are those of numbers.
    pub(in crate::openvino) fn get_raw_data_mut(&mut self) -> Result<&mut [u8], InferenceError> {
        let (start, size) = (self.start()?, self.get_byte_size()?);
        if size == 0 {
            return Ok(&mut []);
        }
        // SAFETY: as above, and the tensor is ours alone (`&mut`).
        Ok(unsafe { slice::from_raw_parts_mut(start, size) })
    }

    /// Returns where its elements begin; null if it has none.
    fn start(&self) -> Result<*mut u8, InferenceError> {
        let mut start = ptr::null_mut();
        // SAFETY: the tensor is alive; the pointer goes into a variable of ours.
        check(unsafe { ov_tensor_data(self.as_ptr(), &raw mut start) })?;
        Ok(start.cast())
    }
}
