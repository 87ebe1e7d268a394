//! Tensors as the whole crate passes them: a type, a shape and little-endian bytes.
//!
//! Not for arithmetic: bytes are carried, checked and handed to the runtime. Wire formats are in
//! [`crate::frontends`], the runtime's own tensors in [`crate::openvino`].

mod cast;
mod dtype;
pub mod images;
mod layout;
pub(crate) mod nested;
pub mod npy;
mod shape;
pub mod strings;
pub(crate) mod tensorflow;
mod transpose;
pub mod values;

use bytes::Bytes;

use crate::budget::Charge;

pub use cast::cast;
pub use dtype::DataType;
pub use layout::{Layout, LayoutError};
pub use shape::{Dim, PartialShape, ShapeText, elements, excess_rows};
pub use transpose::transpose;

/// Maximum number of axes of a tensor of a file or of another server: as many as NumPy has.
pub const MAX_RANK: usize = 64;

/// A tensor: elements in row-major order, little endian, tightly packed.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    dtype: DataType,
    shape: Vec<usize>,
    data: Bytes,
}

/// Errors of the parts of a tensor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TensorError {
    /// The bytes are more or fewer than type and shape need.
    #[error("shape {shape} of {dtype} needs {expected} bytes, found {actual}")]
    Size {
        /// The element type.
        dtype: DataType,
        /// The shape, printed.
        shape: String,
        /// Bytes needed.
        expected: usize,
        /// Bytes found.
        actual: usize,
    },
    /// The number of elements or bytes does not fit in memory.
    #[error("shape {0} is too large")]
    Overflow(String),
}

impl Tensor {
    /// Makes a tensor from its parts.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not exactly those that type and shape need. Strings are not
    /// counted: their framing is checked by who reads them.
    pub fn new(dtype: DataType, shape: Vec<usize>, data: Bytes) -> Result<Self, TensorError> {
        if let Some(expected) = byte_size(dtype, &shape)?
            && expected != data.len()
        {
            return Err(TensorError::Size {
                dtype,
                shape: ShapeText(&shape).to_string(),
                expected,
                actual: data.len(),
            });
        }
        Ok(Self { dtype, shape, data })
    }

    /// Returns the tensor with a charge, which lasts as long as any part of the elements.
    #[must_use]
    pub fn charged(self, charge: Charge) -> Self {
        Self {
            data: charge.keep(self.data),
            ..self
        }
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// Returns the shape; empty for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the shape as messages of the protocols have it.
    pub fn lengths(&self) -> impl Iterator<Item = i64> {
        let lengths = self.shape.iter();
        lengths.map(|&length| i64::try_from(length).unwrap_or(i64::MAX))
    }

    /// Returns the bytes.
    pub fn data(&self) -> &Bytes {
        &self.data
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        elements(&self.shape).expect("checked by `new`")
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the tensor apart.
    pub fn into_parts(self) -> (DataType, Vec<usize>, Bytes) {
        (self.dtype, self.shape, self.data)
    }
}

/// Returns the bytes that a type and shape need; `None` for strings.
///
/// # Errors
///
/// Fails if the number does not fit in a `usize`.
pub fn byte_size(dtype: DataType, shape: &[usize]) -> Result<Option<usize>, TensorError> {
    let overflow = || TensorError::Overflow(ShapeText(shape).to_string());
    let elements = elements(shape).ok_or_else(overflow)?;
    match dtype.size() {
        None => Ok(None),
        Some(size) => elements.checked_mul(size).map(Some).ok_or_else(overflow),
    }
}

/// Tensors with their names, in the order in which they were given.
pub type TensorMap = Vec<(String, Tensor)>;

/// Finds a tensor by name.
pub fn named<'a>(tensors: &'a [(String, Tensor)], name: &str) -> Option<&'a Tensor> {
    let found = tensors.iter().find(|(known, _)| known == name);
    found.map(|(_, tensor)| tensor)
}

#[cfg(test)]
mod tests {
    use super::{DataType, Tensor};

    #[test]
    fn a_tensor_has_exactly_its_bytes() {
        assert!(Tensor::new(DataType::F32, vec![2, 0], vec![].into()).is_ok());
        let error = Tensor::new(DataType::I16, vec![2, 2], vec![0; 7].into()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "shape (2,2) of INT16 needs 8 bytes, found 7"
        );
        let error = Tensor::new(DataType::F64, vec![usize::MAX], vec![].into()).unwrap_err();
        assert!(error.to_string().ends_with("is too large"));
    }
}
