//! Python: the interpreter within this process, and what nodes of graphs run in it.

use std::sync::Arc;

use bytes::Bytes;

use crate::tensor::DataType;

/// A `pyovms.Tensor`.
#[derive(Debug, Clone)]
pub struct Tensor(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    name: String,
    datatype: String,
    shape: Vec<i64>,
    data: Bytes,
}

impl Tensor {
    /// Makes a tensor; without a format the buffer is bytes in a row.
    #[must_use]
    pub fn new(
        name: &str,
        datatype: &str,
        shape: Vec<i64>,
        data: Bytes,
        _format: Option<DataType>,
    ) -> Self {
        Self(Arc::new(Parts {
            name: name.to_owned(),
            datatype: datatype.to_owned(),
            shape,
            data,
        }))
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the datatype as the client or the handler wrote it.
    #[must_use]
    pub fn datatype(&self) -> &str {
        &self.0.datatype
    }

    /// Returns the shape as the client or the handler wrote it.
    #[must_use]
    pub fn shape(&self) -> &[i64] {
        &self.0.shape
    }

    /// Returns the contents in row-major order.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.0.data
    }
}
