//! Registered regions, and the parts of them that tensors of requests are in.

use std::{
    fs::File,
    io::{self, ErrorKind as IoKind},
    os::unix::fs::FileExt as _,
    path::Path,
    sync::Arc,
};

use bytes::Bytes;
use rustix::fs::{Mode, OFlags};

use super::key::KeyPrefix;
use crate::{
    budget::{Budget, Charge, OVERHEAD},
    error::{Error, ErrorKind, Result},
};

/// The folder that shm_open(3) opens files in.
const FOLDER: &str = "/dev/shm";

/// A registered region: bytes of a shared memory object, which stays open when its owner unlinks it.
#[derive(Debug)]
pub struct Region {
    name: String,
    key: String,
    offset: u64,
    byte_size: u64,
    file: File,
}

impl PartialEq for Region {
    /// Returns whether they are the same registration.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Region {}

impl Region {
    /// Opens a region for reading and writing.
    pub(super) fn open(
        prefix: &KeyPrefix,
        name: &str,
        key: &str,
        offset: u64,
        byte_size: u64,
    ) -> Result<Self> {
        let path = Path::new(FOLDER).join(prefix.file_name(name, key)?);
        // A link would lead out of the folder, and a pipe would be waited for.
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::open(&path, flags, Mode::empty())
            .map_err(|error| unopened(key, error.into()))?;
        let file = File::from(file);
        let metadata = file.metadata().map_err(|error| unopened(key, error))?;
        if !metadata.is_file() {
            return Err(Error::invalid(format!(
                "Unable to open shared memory region: '{key}' - it is no shared memory object"
            )));
        }
        let end = offset.checked_add(byte_size);
        if byte_size == 0 || end.is_none_or(|end| end > metadata.len()) {
            return Err(Error::invalid(format!(
                "failed to register shared memory region '{name}': invalid args - '{key}' has {} bytes; found \
                 offset {offset} and byte_size {byte_size}",
                metadata.len()
            )));
        }
        Ok(Self {
            name: name.to_owned(),
            key: key.to_owned(),
            offset,
            byte_size,
            file,
        })
    }

    /// Returns the name that requests have for it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the key of the object, as the client wrote it.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns its first byte within the object.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns its number of bytes.
    pub fn byte_size(&self) -> u64 {
        self.byte_size
    }
}

fn unopened(key: &str, error: io::Error) -> Error {
    let (kind, reason) = match error.kind() {
        IoKind::NotFound => (ErrorKind::NotFound, "there is no such object"),
        IoKind::PermissionDenied => (
            ErrorKind::Forbidden,
            "the server may not read and write it; check its mode and owner",
        ),
        _ => (
            ErrorKind::InvalidArgument,
            "it is no shared memory object that can be opened",
        ),
    };
    let text = format!("Unable to open shared memory region: '{key}' - {reason}");
    Error::new(kind, text).with_source(error)
}

/// Part of a region, for one tensor. It keeps the region open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionPart {
    region: Arc<Region>,
    /// The first byte within the region.
    offset: u64,
    size: usize,
}

impl RegionPart {
    /// Takes `size` bytes of a region, from `offset` within it on.
    pub(super) fn new(region: Arc<Region>, offset: u64, size: u64) -> Result<Self> {
        let name = &region.name;
        let end = offset.checked_add(size);
        if end.is_none_or(|end| end > region.byte_size) {
            return Err(Error::invalid(format!(
                "Invalid offset + byte size for shared memory region: '{name}' - it has {} bytes; found \
                 offset {offset} and byte size {size}",
                region.byte_size
            )));
        }
        let size = usize::try_from(size).map_err(|_| {
            Error::invalid(format!(
                "Invalid byte size for shared memory region: '{name}' - {size} bytes are more than memory \
                 can hold"
            ))
        })?;
        Ok(Self {
            region,
            offset,
            size,
        })
    }

    /// Returns the name of the region.
    pub fn region(&self) -> &str {
        &self.region.name
    }

    /// Returns the first byte within the region.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the number of bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the first byte within the object.
    fn start(&self) -> u64 {
        // No overflow: the sum is within the size of a file.
        self.region.offset + self.offset
    }

    /// Copies the bytes, charged to the budget.
    ///
    /// # Errors
    ///
    /// Fails if the budget has no room for them, or the object is not as large any more.
    pub fn read(&self, budget: &Budget) -> Result<Bytes> {
        if self.size == 0 {
            return Ok(Bytes::new());
        }
        // Before there is a buffer: no memory is taken for bytes that are not there.
        self.check_length(self.size)?;
        let charge = budget.charge(self.size + OVERHEAD)?;
        let mut bytes = vec![0; self.size];
        self.read_into(&mut bytes)?;
        Ok(charge.keep(bytes.into()))
    }

    /// Returns the part as an input that an inference reads, with a charge for the tensor that it is read into.
    ///
    /// # Errors
    ///
    /// Fails as [`read`](Self::read) does.
    pub fn to_input(&self, budget: &Budget) -> Result<Arc<RegionInput>> {
        self.check_length(self.size)?;
        let charge = budget.charge(self.size + OVERHEAD)?;
        Ok(Arc::new(RegionInput {
            part: self.clone(),
            _charge: charge,
        }))
    }

    /// Copies the bytes into memory that is as large.
    fn read_into(&self, target: &mut [u8]) -> Result<()> {
        debug_assert_eq!(target.len(), self.size, "checked by the caller");
        let read = self.region.file.read_exact_at(target, self.start());
        read.map_err(|error| match error.kind() {
            IoKind::UnexpectedEof => self.truncated(),
            _ => self.failed("read", error),
        })
    }

    /// Copies bytes to the begin of the part, which is as large at least.
    ///
    /// # Errors
    ///
    /// Fails if the object is not as large any more, or the system has no memory for its pages.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        debug_assert!(bytes.len() <= self.size, "checked by the caller");
        // A write behind its end would make the object larger again.
        self.check_length(bytes.len())?;
        let written = self.region.file.write_all_at(bytes, self.start());
        written.map_err(|error| self.failed("write", error))
    }

    /// Checks that the object still has the first bytes of the part.
    fn check_length(&self, bytes: usize) -> Result<()> {
        let metadata = self.region.file.metadata();
        let length = metadata.map_err(|error| self.failed("read", error))?.len();
        match self.start().saturating_add(bytes as u64) <= length {
            true => Ok(()),
            false => Err(self.truncated()),
        }
    }

    fn truncated(&self) -> Error {
        Error::invalid(format!(
            "Unable to use shared memory region: '{}' - '{}' was truncated after it was registered",
            self.region.name, self.region.key
        ))
    }

    fn failed(&self, what: &str, error: io::Error) -> Error {
        Error::internal(format!(
            "Unable to {what} shared memory region: '{}' - {error}",
            self.region.name
        ))
        .with_source(error)
    }
}

/// Tensors of a request that are in regions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionTensors {
    /// Inputs by their index in the request, in ascending order; their elements are read when the target is
    /// found.
    pub inputs: Vec<(usize, RegionPart)>,
    /// Outputs by name that are written to regions.
    pub outputs: Vec<(String, RegionPart)>,
    /// Budget of the bytes that are read.
    pub budget: Budget,
}

impl RegionTensors {
    /// Returns whether the input at this index is in a region.
    pub fn has_input(&self, index: usize) -> bool {
        self.inputs
            .binary_search_by_key(&index, |(known, _)| *known)
            .is_ok()
    }
}

/// Part of a region that an inference reads into the tensor of an input.
#[derive(Debug)]
pub struct RegionInput {
    part: RegionPart,
    /// Charge of the tensor: a client may ask for any size where the model's shape varies.
    _charge: Charge,
}

impl PartialEq for RegionInput {
    fn eq(&self, other: &Self) -> bool {
        self.part == other.part
    }
}

impl Eq for RegionInput {}

impl RegionInput {
    /// Returns the name of the region.
    pub fn region(&self) -> &str {
        self.part.region()
    }

    /// Returns the number of bytes.
    pub fn size(&self) -> usize {
        self.part.size
    }

    /// Copies the bytes into memory that is as large.
    ///
    /// # Errors
    ///
    /// Fails if the object is not as large any more; the memory may have a part of them then.
    pub fn read_into(&self, target: &mut [u8]) -> Result<()> {
        self.part.read_into(target)
    }
}
