//! Lists of values in messages to packed bytes.

use bytes::Bytes;

use crate::{
    request::Data,
    tensor::{
        DataType,
        values::{Packer, ValueError},
    },
};

/// Packs elements that are of the type already.
pub(super) fn fixed<T: Copy, const N: usize>(
    elements: &[T],
    to_bytes: impl Fn(T) -> [u8; N],
) -> Data {
    let mut bytes = Vec::with_capacity(elements.len() * N);
    for &element in elements {
        bytes.extend_from_slice(&to_bytes(element));
    }
    values(elements.len(), bytes)
}

/// Packs elements of a wider type, each of which has to fit.
pub(super) fn one_by_one<T>(
    dtype: DataType,
    elements: Vec<T>,
    push: impl Fn(&mut Packer, T) -> Result<(), ValueError>,
) -> Data {
    let mut packer = Packer::new(dtype, elements.len());
    for element in elements {
        if let Err(error) = push(&mut packer, element) {
            return Data::Unfit(error.to_string());
        }
    }
    values(packer.count(), packer.finish())
}

/// Makes data of what is packed already.
pub(super) fn values(count: usize, bytes: impl Into<Bytes>) -> Data {
    Data::Values {
        count,
        bytes: bytes.into(),
    }
}
