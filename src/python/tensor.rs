//! `pyovms.Tensor` outside of Python.

use std::{fmt, sync::Arc};

use bytes::Bytes;

use crate::tensor::DataType;

/// `pyovms.Tensor` passed to or returned by a handler.
///
/// A clone shares everything. No method needs the interpreter: the contents of a handler's result
/// were captured when it returned.
#[derive(Clone)]
pub struct HandlerTensor(Arc<Inner>);

struct Inner {
    name: Box<str>,
    datatype: Box<str>,
    shape: Box<[i64]>,
    bytes: Bytes,
    #[cfg_attr(
        not(feature = "python"),
        expect(dead_code, reason = "for the interpreter")
    )]
    format: Option<DataType>,
    #[cfg(feature = "python")]
    object: Option<super::class::Returned>,
}

impl HandlerTensor {
    /// Creates a tensor of bytes.
    ///
    /// With a format, Python sees a buffer of elements of that type and of this shape, which the
    /// bytes must fill exactly; without, or if they do not, one of single bytes, whatever the
    /// shape.
    #[must_use]
    pub fn new(
        name: &str,
        datatype: &str,
        shape: Vec<i64>,
        data: Bytes,
        format: Option<DataType>,
    ) -> Self {
        Self(Arc::new(Inner {
            name: name.into(),
            datatype: datatype.into(),
            shape: shape.into_boxed_slice(),
            bytes: data,
            format,
            #[cfg(feature = "python")]
            object: None,
        }))
    }

    /// Creates a tensor from a handler's result.
    #[cfg(feature = "python")]
    pub(super) fn returned(
        name: &str,
        datatype: &str,
        shape: &[i64],
        bytes: Bytes,
        object: super::class::Returned,
    ) -> Self {
        Self(Arc::new(Inner {
            name: name.into(),
            datatype: datatype.into(),
            shape: shape.into(),
            bytes,
            format: None,
            object: Some(object),
        }))
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the datatype: a name of KServe, or any string of the producer.
    #[must_use]
    pub fn datatype(&self) -> &str {
        &self.0.datatype
    }

    /// Returns the producer's shape; it need not fit the bytes.
    #[must_use]
    pub fn shape(&self) -> &[i64] {
        &self.0.shape
    }

    /// Returns the contents in C order.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.0.bytes
    }

    /// Returns the element type seen by Python.
    #[cfg(feature = "python")]
    pub(super) fn format(&self) -> Option<DataType> {
        self.0.format
    }

    /// Returns the object returned by a handler.
    #[cfg(feature = "python")]
    pub(super) fn object(&self) -> Option<&super::class::Returned> {
        self.0.object.as_ref()
    }
}

impl fmt::Debug for HandlerTensor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Tensor")
            .field("name", &self.name())
            .field("datatype", &self.datatype())
            .field("shape", &self.shape())
            .field("bytes", &self.bytes().len())
            .finish_non_exhaustive()
    }
}
