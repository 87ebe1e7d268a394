//! `pyovms.Tensor` outside of Python.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use bytes::Bytes;
use pyovms::memory::Span;

use super::worker::link::Link;
use crate::tensor::DataType;

/// `pyovms.Tensor` passed to or returned by a handler.
///
/// A clone shares everything.
#[derive(Clone)]
pub struct HandlerTensor(Arc<Inner>);

struct Inner {
    name: Box<str>,
    datatype: Box<str>,
    shape: Box<[i64]>,
    bytes: Bytes,
    is_typed: bool,
    origin: Option<Origin>,
}

/// Place of the result of a handler.
pub(super) struct Origin {
    /// The worker that has it.
    pub(super) link: Weak<Link>,
    /// The object that it is there, where another node may get that.
    pub(super) object: Option<RemoteObject>,
    /// The bytes, if they are in shared memory.
    pub(super) span: Option<Span>,
    /// Indicates that the bytes have come with it; otherwise the worker alone has them.
    pub(super) has_contents: bool,
}

/// An object of a worker, which is released when this is dropped.
pub(super) struct RemoteObject {
    link: Weak<Link>,
    number: u64,
}

impl RemoteObject {
    pub(super) fn new(link: &Weak<Link>, number: u64) -> Self {
        let link = Weak::clone(link);
        Self { link, number }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for RemoteObject {
    fn drop(&mut self) {
        if let Some(link) = self.link.upgrade() {
            link.release(self.number);
        }
    }
}

impl HandlerTensor {
    /// Creates a tensor of bytes.
    ///
    /// A typed one is a buffer of elements of its datatype and of this shape for Python, if that has a format for the
    /// datatype and the bytes fill it exactly; others are buffers of single bytes, whatever the shape.
    pub fn new(name: &str, datatype: &str, shape: Vec<i64>, data: Bytes, is_typed: bool) -> Self {
        Self(Arc::new(Inner {
            name: name.into(),
            datatype: datatype.into(),
            shape: shape.into_boxed_slice(),
            bytes: data,
            is_typed,
            origin: None,
        }))
    }

    /// Creates a tensor from a handler's result.
    pub(super) fn returned(
        name: &str,
        datatype: &str,
        shape: Vec<i64>,
        bytes: Bytes,
        origin: Origin,
    ) -> Self {
        Self(Arc::new(Inner {
            name: name.into(),
            datatype: datatype.into(),
            shape: shape.into_boxed_slice(),
            bytes,
            is_typed: false,
            origin: Some(origin),
        }))
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the datatype: a name of KServe, or any string of the producer.
    pub fn datatype(&self) -> &str {
        &self.0.datatype
    }

    /// Returns the producer's shape; it need not fit the bytes.
    pub fn shape(&self) -> &[i64] {
        &self.0.shape
    }

    /// Returns the contents in C order; empty if they stay with the worker, for another of its nodes.
    pub fn bytes(&self) -> &Bytes {
        &self.0.bytes
    }

    /// Returns the number of bytes; of contents that stay with the worker, as many as its datatype and shape say.
    pub(super) fn weight(&self) -> usize {
        if self.origin().is_none_or(|origin| origin.has_contents) {
            return self.bytes().len();
        }
        let size = DataType::from_kserve(self.datatype()).and_then(DataType::size);
        let size = size.unwrap_or(1);
        self.shape().iter().fold(size, |bytes, &length| {
            bytes.saturating_mul(usize::try_from(length).unwrap_or_default())
        })
    }

    /// Returns whether Python sees elements.
    pub(super) fn is_typed(&self) -> bool {
        self.0.is_typed
    }

    /// Returns where the result of a handler is.
    pub(super) fn origin(&self) -> Option<&Origin> {
        self.0.origin.as_ref()
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
