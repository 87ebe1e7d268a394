//! Sequences outside of the process, so that another server, or the next one, can go on with them.
//!
//! A store has a record of each live sequence: its state after a step, how many steps that were, and the last
//! answer that came with an idempotency key. One server at a time owns a record, under an epoch; whoever takes it over
//! gets another one, and a write that comes with another epoch than the record's is refused. So a server that was
//! away for a while cannot overwrite what others have stored since.
//!
//! A record that is `ahead` says that its owner may have answered steps that are not stored. Another server gets it only after the
//! owner has stored the last of them; if the owner is gone, the sequence is lost, and is never resumed from an older state.

mod address;
mod error;
mod files;
mod redis;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz {
    //! Fuzz targets of both kinds of stores.

    pub(crate) use super::{files::fuzz::records, redis::fuzz::answers};
}

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;

pub use self::{
    address::{StoreAddress, StoreAddressError},
    error::StoreError,
};
use self::{files::FileStore, redis::RedisStore};

/// Policy for when the state of a sequence is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, strum::EnumString)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum SequenceDurability {
    /// Stored on request of another server, and at a stop.
    None,
    /// The same, and in intervals.
    #[default]
    Interval,
    /// Stored before each answer.
    Step,
}

/// Name of a sequence in a store. All versions of a model share their ids there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SequenceKey {
    /// Name of the model.
    pub model: String,
    /// Id of the sequence; never 0.
    pub id: u64,
}

/// A sequence that is about to begin.
#[derive(Debug, Clone, Copy)]
pub struct NewSequence<'a> {
    /// Name of the model.
    pub model: &'a str,
    /// The id, or 0 for the lowest from the model's counter that is free.
    pub id: u64,
    /// Idempotency key of the request, if it has one.
    pub key: Option<&'a str>,
    /// Maximum number of sequences of the model at once.
    pub limit: u32,
    /// Allows steps to be answered before they are stored.
    pub ahead: bool,
    /// Time for which the record stays after the last write; for ever if `None`.
    pub idle: Option<Duration>,
}

/// Outcome of a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartedSequence {
    /// The sequence exists from now on, and is the caller's.
    Begun {
        /// Id of the sequence.
        id: u64,
        /// Epoch of the sequence.
        epoch: u64,
    },
    /// The model has its maximum number of sequences.
    Full,
    /// A sequence with the id exists.
    Exists,
    /// A start with the same idempotency key has begun the sequence with this id.
    Repeated(u64),
}

/// The last answer that came with an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    /// The key.
    pub key: String,
    /// The outputs, in a form that the store does not know.
    pub outputs: Bytes,
}

/// Record of a sequence, taken over by the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceRecord {
    /// The epoch, which no owner before has had.
    pub epoch: u64,
    /// The epoch of the owner before.
    pub before: u64,
    /// Number of steps behind the state.
    pub step: u64,
    /// The state, in a form that the store does not know.
    pub state: Bytes,
    /// The last answer that came with an idempotency key, if it is that of the last step.
    pub answer: Option<StoredAnswer>,
    /// The `recent` of the owner's last write.
    pub recent: Bytes,
    /// Minimum time since the last step was stored; unknown if `None`, where there are no other servers.
    pub since: Option<Duration>,
}

/// Outcome of an attempt to take a sequence over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakenSequence {
    /// The sequence is the caller's.
    Taken(SequenceRecord),
    /// Unknown sequence.
    Unknown,
    /// The sequence is over; the answer of its last request.
    Ended(StoredAnswer),
    /// The stored state is older than the last answer may be. The sequence is removed.
    Lost,
    /// The owner lives and has not stored the state within the time limit: the name of that server.
    Held(String),
}

/// A write of the record of a sequence by its owner.
#[derive(Debug, Clone)]
pub struct SequenceWrite<'a> {
    /// The sequence.
    pub key: &'a SequenceKey,
    /// Epoch of the owner.
    pub epoch: u64,
    /// Number of steps behind the state.
    pub step: u64,
    /// The state; the stored one stays if `None`.
    pub state: Option<Bytes>,
    /// The last answer; none is kept if `None`.
    pub answer: Option<&'a StoredAnswer>,
    /// Knowledge of the requests before, for the next owner.
    pub recent: &'a [u8],
    /// Allows steps to be answered from now on that are not stored.
    pub ahead: bool,
    /// Time for which the record stays from now on; for ever if `None`.
    pub idle: Option<Duration>,
    /// Lets the record stay for that time; otherwise it stays for as long as it would without the write.
    pub renews: bool,
}

/// Outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The record is stored, all of it or nothing.
    Stored,
    /// Another server owns the sequence, or it does not exist any more. Nothing has changed.
    Fenced,
}

/// Number of a model's sequences in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoredCount {
    /// Sequences that live.
    pub live: u64,
    /// Sequences that have expired since the last count, and were reported to none of the servers that share the store.
    pub expired: u64,
}

/// A sequence and the epoch that its owner, as far as it knows, has it with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnedSequence {
    /// Its id.
    pub id: u64,
    /// The epoch.
    pub epoch: u64,
}

/// A live sequence in a store, as lists have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredSequence {
    /// Its id.
    pub id: u64,
    /// Number of steps behind its state.
    pub steps: u64,
    /// Time since the last of them was stored, if known.
    pub idle: Option<Duration>,
}

/// A store. Every call is bounded by the time limit that the store was opened with, and is tried again within it.
#[derive(Debug)]
pub enum SequenceStore {
    /// A folder of this machine, of one server at a time.
    Files(FileStore),
    /// Redis or Valkey, of any number of servers.
    Redis(Box<RedisStore>),
}

/// Hands a call on to the store that there is.
macro_rules! on {
    ($store:expr, $call:ident $(, $argument:expr)*) => {
        match $store {
            SequenceStore::Files(store) => store.$call($($argument),*).await,
            SequenceStore::Redis(store) => store.$call($($argument),*).await,
        }
    };
}

impl SequenceStore {
    /// Opens a store.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be reached within the time limit, or is used by another server and cannot be shared.
    pub async fn open(address: &StoreAddress, limit: Duration) -> Result<Self, StoreError> {
        match address {
            StoreAddress::Files { folder, fsync } => {
                let store = FileStore::open(folder.clone(), *fsync, limit).await?;
                Ok(Self::Files(store))
            }
            StoreAddress::Redis(address) => {
                let store = RedisStore::open(address, limit).await?;
                Ok(Self::Redis(Box::new(store)))
            }
        }
    }

    /// Begins a sequence.
    ///
    /// # Errors
    ///
    /// Fails if the store does.
    pub async fn start(&self, new: NewSequence<'_>) -> Result<StartedSequence, StoreError> {
        on!(self, start, new)
    }

    /// Takes a sequence over, from whichever server has it. One that is ahead is waited for.
    ///
    /// # Errors
    ///
    /// Fails if the store does.
    pub async fn take(&self, key: &SequenceKey) -> Result<TakenSequence, StoreError> {
        on!(self, take, key)
    }

    /// Writes the record of a sequence.
    ///
    /// # Errors
    ///
    /// Fails if the store does; then nobody knows whether it is written.
    pub async fn write(&self, write: SequenceWrite<'_>) -> Result<WriteOutcome, StoreError> {
        on!(self, write, write)
    }

    /// Ends a sequence. The answer is kept for a while.
    ///
    /// # Errors
    ///
    /// Fails if the store does; then nobody knows whether it has ended.
    pub async fn end(
        &self,
        key: &SequenceKey,
        epoch: u64,
        answer: Option<&StoredAnswer>,
    ) -> Result<WriteOutcome, StoreError> {
        on!(self, end, key, epoch, answer)
    }

    /// Ends a sequence whose state is nowhere, and that could not be ended, as soon as the store can.
    pub fn end_later(&self, key: &SequenceKey, epoch: u64) {
        match self {
            Self::Files(store) => store.end_later(key, epoch),
            Self::Redis(store) => store.end_later(key, epoch),
        }
    }

    /// Counts the sequences of a model, and forgets those that have expired.
    ///
    /// # Errors
    ///
    /// Fails if the store does.
    pub async fn count(&self, model: &str) -> Result<StoredCount, StoreError> {
        on!(self, count, model)
    }

    /// Returns up to so many sequences of a model, whichever server has their states.
    ///
    /// # Errors
    ///
    /// Fails if the store does.
    pub async fn list(&self, model: &str, most: usize) -> Result<Vec<StoredSequence>, StoreError> {
        on!(self, list, model, most)
    }

    /// Returns those of these sequences of a model that somebody else has taken over, or that are over. It changes nothing.
    ///
    /// # Errors
    ///
    /// Fails if the store does.
    pub async fn passed(
        &self,
        model: &str,
        owned: &[OwnedSequence],
    ) -> Result<Vec<OwnedSequence>, StoreError> {
        on!(self, passed, model, owned)
    }

    /// Returns the sequences that other servers want of this one, to the first who asks; `None` if there are no others.
    #[must_use]
    pub fn wanted(&self) -> Option<mpsc::Receiver<SequenceKey>> {
        match self {
            Self::Files(_) => None,
            Self::Redis(store) => store.wanted(),
        }
    }

    /// Returns the life of this server, which is another one after others may have taken its sequences, since they were
    /// not sure that it lives or the store has forgotten it; `None` while they are not sure.
    #[must_use]
    pub fn life(&self) -> Option<u64> {
        match self {
            Self::Files(_) => Some(0),
            Self::Redis(store) => store.life(),
        }
    }

    /// Takes this server from the list of those that live.
    pub async fn close(&self) {
        if let Self::Redis(store) = self {
            store.close().await;
        }
    }
}
