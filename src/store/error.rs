//! Errors of stores.

use std::{io, path::PathBuf, time::Duration};

use crate::error::{Error, ErrorKind};

/// Error of a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A server that is not there, does not answer, or refuses.
    #[error("no answer of {address} within {limit:?}: {reason}")]
    Unreachable {
        /// Address of the store, without a password.
        address: String,
        /// The time limit.
        limit: Duration,
        /// The last failure.
        reason: String,
    },
    /// No room in the store.
    #[error("{address} has no room: {reason}")]
    Full {
        /// Address of the store, without a password.
        address: String,
        /// Text of the store's error.
        reason: String,
    },
    /// Another kind of server.
    #[error("{address} does not speak the protocol of Redis; is the port right?")]
    Foreign {
        /// Address of the store, without a password.
        address: String,
    },
    /// Command that the store refuses.
    #[error("{address} refuses: {reason}")]
    Refused {
        /// Address of the store, without a password.
        address: String,
        /// Text of the store's error.
        reason: String,
    },
    /// An answer or a file is not what was stored.
    #[error("{address} has something else in the place of a sequence: {reason}")]
    Garbage {
        /// Address of the store, without a password.
        address: String,
        /// The error.
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("cannot {action} {}", path.display())]
    Files {
        /// Attempted operation, as a verb.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The folder belongs to another server.
    #[error(
        "another server uses the folder {}; each needs its own, or a store that can be shared: redis://HOST",
        folder.display()
    )]
    Taken {
        /// The folder.
        folder: PathBuf,
    },
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let kind = match &error {
            StoreError::Full { .. } => ErrorKind::Exhausted,
            StoreError::Garbage { .. } => ErrorKind::Internal,
            StoreError::Files { source, .. } if is_full(source) => ErrorKind::Exhausted,
            _ => ErrorKind::Overloaded,
        };
        // Where the store is, is nothing for clients.
        let text = match kind {
            ErrorKind::Exhausted => "Sequence store is full",
            ErrorKind::Internal => "Sequence store is damaged",
            _ => "Sequence store is not available - try again",
        };
        Self::new(kind, text).with_source(error)
    }
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}
