//! Form of the files: eight bytes that name it, the length and the CRC-32 of the header, the header, and the state.
//!
//! The checksum is that of the header, since whoever stores a state has one in it.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use flate2::Crc;
use prost::Message as _;

use super::super::{StoreError, StoredAnswer};

/// The first bytes; the last of them is the version of the form.
pub(super) const MAGIC: [u8; 8] = *b"ovmsseq1";

/// Length of everything before the header.
const PREFIX: u64 = 16;

/// Everything about a sequence but its state.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RecordHeader {
    #[prost(uint64, tag = "1")]
    pub(super) epoch: u64,
    #[prost(uint64, tag = "2")]
    pub(super) step: u64,
    #[prost(uint64, tag = "3")]
    pub(super) state_bytes: u64,
    #[prost(bool, tag = "4")]
    pub(super) ahead: bool,
    #[prost(bool, tag = "5")]
    pub(super) ended: bool,
    /// Time for which the record stays after a write, in milliseconds.
    #[prost(uint64, optional, tag = "6")]
    pub(super) idle: Option<u64>,
    /// Expiry time, in milliseconds since 1970.
    #[prost(uint64, optional, tag = "7")]
    pub(super) expires: Option<u64>,
    /// Idempotency key of a start that left the id to the store.
    #[prost(string, optional, tag = "8")]
    pub(super) begun_with: Option<String>,
    #[prost(message, optional, tag = "9")]
    pub(super) answer: Option<RecordAnswer>,
    /// Knowledge of the requests before, in a form that the store does not know.
    #[prost(bytes = "bytes", tag = "10")]
    pub(super) recent: Bytes,
}

/// The stored answer.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RecordAnswer {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(bytes = "bytes", tag = "2")]
    outputs: Bytes,
}

impl RecordHeader {
    /// Makes the header of a record that stays for a while, or for ever.
    pub(super) fn lasting(idle: Option<Duration>, now: u64) -> Self {
        let idle = idle.map(|idle| u64::try_from(idle.as_millis()).unwrap_or(u64::MAX));
        Self {
            idle,
            expires: idle.map(|idle| now.saturating_add(idle)),
            ..Self::default()
        }
    }

    pub(super) fn with_answer(mut self, answer: Option<&StoredAnswer>) -> Self {
        self.answer = answer
            .cloned()
            .map(|StoredAnswer { key, outputs }| RecordAnswer { key, outputs });
        self
    }

    pub(super) fn take_answer(&mut self) -> Option<StoredAnswer> {
        let RecordAnswer { key, outputs } = self.answer.take()?;
        Some(StoredAnswer { key, outputs })
    }

    /// Returns whether a start with this idempotency key is one that was there before: its answer is stored, or the
    /// sequence that it began is over.
    pub(super) fn repeats(&self, key: &str) -> bool {
        let answers = self.answer.as_ref().is_some_and(|answer| answer.key == key);
        answers || (self.ended && self.begun_with.as_deref() == Some(key))
    }

    /// Returns what a file has before a state.
    pub(super) fn encode_before(&mut self, state: &[u8]) -> io::Result<Vec<u8>> {
        self.state_bytes = state.len() as u64;
        let header = self.encode_to_vec();
        let length = u32::try_from(header.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        Ok([
            &MAGIC[..],
            &length.to_le_bytes(),
            &checksum(&header).to_le_bytes(),
            &header,
        ]
        .concat())
    }
}

/// File of a record, of which the header has been read.
#[derive(Debug)]
pub(super) struct RecordFile {
    pub(super) header: RecordHeader,
    file: File,
    path: PathBuf,
}

impl RecordFile {
    /// Opens a file, if there is one.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, StoreError> {
        let failed = |source| StoreError::Files {
            action: "read",
            path: path.to_owned(),
            source,
        };
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let size = file.metadata().map_err(failed)?.len();
        if size < PREFIX {
            let reason = format!("{size} bytes; expected at least {PREFIX}");
            return Err(garbage(path, reason));
        }
        let (mut magic, mut length, mut crc) = ([0; 8], [0; 4], [0; 4]);
        for part in [&mut magic[..], &mut length, &mut crc] {
            file.read_exact(part).map_err(failed)?;
        }
        if magic != MAGIC {
            let (found, expected) = (magic.escape_ascii(), MAGIC.escape_ascii());
            let reason = format!("begins with {found}; expected {expected}");
            return Err(garbage(path, reason));
        }
        let length = u64::from(u32::from_le_bytes(length));
        let mut header = Vec::new();
        // No more than the file has, whatever its length says.
        (&file)
            .take(length)
            .read_to_end(&mut header)
            .map_err(failed)?;
        let (expected, found) = (u32::from_le_bytes(crc), checksum(&header));
        if found != expected {
            let reason = format!("checksum is {found:08x}; expected {expected:08x}");
            return Err(garbage(path, reason));
        }
        let header = RecordHeader::decode(&*header)
            .map_err(|error| garbage(path, format!("no header: {error}")))?;
        let expected = PREFIX
            .saturating_add(length)
            .saturating_add(header.state_bytes);
        if size != expected {
            return Err(garbage(path, format!("{size} bytes; expected {expected}")));
        }
        Ok(Some(Self {
            header,
            file,
            path: path.to_owned(),
        }))
    }

    /// Reads the state.
    pub(super) fn state(mut self) -> Result<Bytes, StoreError> {
        let mut state = Vec::new();
        let read = self.file.read_to_end(&mut state);
        let found = read.map_err(|source| StoreError::Files {
            action: "read",
            path: self.path.clone(),
            source,
        })?;
        let expected = self.header.state_bytes;
        if found as u64 != expected {
            let reason = format!("{found} bytes of state; expected {expected}");
            return Err(garbage(&self.path, reason));
        }
        Ok(state.into())
    }
}

/// Makes the error of a file that is not as it was written.
pub(super) fn garbage(path: &Path, reason: String) -> StoreError {
    StoreError::Garbage {
        address: path.display().to_string(),
        reason,
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}
