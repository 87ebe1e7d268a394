//! Inputs of an inference.

use std::sync::Arc;

use bytes::Bytes;

use super::slot_error::SlotError;
use crate::{error::Error, shared_memory::RegionInput};

/// Bytes from which on an input is read where it lies, and an output given away as it is. To set a tensor and set it back
/// costs as much as a copy of some 100 KiB (docs/decisions/0035-bounds-of-the-plain-path.md).
pub(super) const MIN_IN_PLACE: usize = 256 << 10;

/// An input as [`Slot::infer`](super::slot::Slot::infer) takes it: checked shape, and exactly as many bytes as it needs.
#[derive(Debug, Clone)]
pub struct SlotInput {
    /// The place among the model's own inputs.
    pub port: usize,
    /// The shape.
    pub shape: Vec<usize>,
    /// The elements.
    pub data: InputData,
}

impl SlotInput {
    /// Makes the input of a port.
    pub fn new(port: usize, shape: Vec<usize>, data: impl Into<InputData>) -> Self {
        let data = data.into();
        Self { port, shape, data }
    }
}

/// Returns the number of rows of a request: the first length of its inputs; `None` if they have several, or none.
pub(super) fn rows_of(inputs: &[SlotInput]) -> Option<usize> {
    let mut rows = inputs.iter().map(|input| input.shape.first());
    let first = rows.next()??;
    let is_same = rows.all(|rows| rows == Some(first));
    (is_same && *first > 0).then_some(*first)
}

/// The elements of an input, or their place.
#[derive(Debug, Clone)]
pub enum InputData {
    /// Little-endian bytes; strings as [`crate::tensor::strings`] has them.
    Bytes(Bytes),
    /// Numbers in shared memory, read when the inference begins: they are copied once, by the thread that runs it,
    /// and no other memory than the tensor has them.
    Region(Arc<RegionInput>),
}

impl From<Bytes> for InputData {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<Vec<u8>> for InputData {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes.into())
    }
}

impl InputData {
    /// Returns the number of bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Region(part) => part.size(),
        }
    }

    /// Returns the bytes.
    ///
    /// # Errors
    ///
    /// Fails if they are in shared memory: only inputs of numbers that go to the runtime may be.
    pub fn bytes(self) -> Result<Bytes, Error> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Region(part) => Err(unread(&part)),
        }
    }

    /// Returns a view of the bytes; fails as [`bytes`](Self::bytes) does.
    pub(super) fn as_bytes(&self) -> Result<&[u8], Error> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Region(part) => Err(unread(part)),
        }
    }

    /// Returns the bytes if an inference had better read them where they lie: numbers of `width` bytes at a multiple of
    /// that, and so many that a copy costs more than to register them with the runtime.
    pub(super) fn in_place(&self, width: impl FnOnce() -> Option<usize>) -> Option<&Bytes> {
        match self {
            Self::Bytes(bytes) if bytes.len() >= MIN_IN_PLACE => {
                let start = bytes.as_ptr() as usize;
                start.is_multiple_of(width()?).then_some(bytes)
            }
            _ => None,
        }
    }

    /// Copies the elements into the memory of a tensor, which is as large.
    pub(super) fn copy_to(&self, target: &mut [u8]) -> Result<(), SlotError> {
        match self {
            Self::Bytes(bytes) => {
                target.copy_from_slice(bytes);
                Ok(())
            }
            Self::Region(part) => part.read_into(target).map_err(SlotError::Region),
        }
    }
}

fn unread(part: &RegionInput) -> Error {
    Error::internal(format!(
        "an input in shared memory region '{}' has not been read",
        part.region()
    ))
}
