//! Records of sequences that cannot be read any more, and how an id is used again that has one.

use bytes::Bytes;

use super::{Keeper, Start, unknown};
use crate::{
    error::{Error, ErrorKind, Result, chain},
    model::{loaded::Loaded, snapshot::Snapshot, version::Version},
    store::{SequenceKey, SequenceStore, StoreError, WriteOutcome},
};

/// Text of a record that cannot be read.
const DAMAGED: &str = "Sequence store is damaged";

impl Keeper {
    /// Begins a sequence as [`Keeper::start`] does, whose turn the caller has: also in the place of one that is lost with
    /// its server, or whose record is damaged, unless its state `is_here`.
    ///
    /// # Errors
    ///
    /// Fails if it cannot begin, or the store fails.
    pub(super) async fn start_in_turn(
        &self,
        version: &Version,
        loaded: &Loaded,
        id: u64,
        key: Option<&str>,
        is_here: bool,
    ) -> Result<Start> {
        let started = self.start(version, loaded, id, key).await;
        let exists = |error: &Error| error.kind() == ErrorKind::AlreadyExists;
        if is_here || !started.as_ref().is_err_and(exists) {
            return started;
        }
        let model = version.model().to_owned();
        match self.clear(&SequenceKey { model, id }).await? {
            true => self.start(version, loaded, id, key).await,
            false => started,
        }
    }

    /// Ends a sequence in the store whose state is not here, also one whose record is damaged; or says that the caller
    /// has another try.
    ///
    /// # Errors
    ///
    /// Fails if there is no such sequence, another server does not give it away, or the store fails.
    pub(super) async fn end_stored(&self, key: &SequenceKey) -> Result<WriteOutcome> {
        match self.take(key).await {
            Ok(Ok(record)) => Ok(self.store.end(key, record.epoch, None).await?),
            Ok(Err(_)) => Err(unknown()),
            Err(_) if self.clear_damaged(key).await? => Ok(WriteOutcome::Stored),
            Err(error) => Err(error),
        }
    }

    /// Removes the record of a sequence whose state is not here, if nobody can go on with it; returns whether it was so.
    async fn clear(&self, key: &SequenceKey) -> Result<bool> {
        let SequenceStore::Redis(store) = &self.store else {
            return self.clear_damaged(key).await;
        };
        let was_lost = store.discard_lost(key).await?;
        if was_lost {
            self.warn_of_loss(key);
        }
        Ok(was_lost)
    }

    /// Removes the record of a sequence whose state is not here, if it is damaged; returns whether it was. Only in a
    /// store of this server alone: elsewhere another server may have the state.
    async fn clear_damaged(&self, key: &SequenceKey) -> Result<bool> {
        let SequenceStore::Files(store) = &self.store else {
            return Ok(false);
        };
        let unreadable = |state: &Bytes| Snapshot::decode(state).err().map(|error| chain(&error));
        let Some(damage) = store.discard(key, unreadable).await? else {
            return Ok(false);
        };
        tracing::warn!(
            model = key.model,
            sequence = key.id,
            "removed a stored sequence that is damaged: {damage}"
        );
        Ok(true)
    }

    /// Returns the error of a take, with the next step if the record is damaged.
    pub(super) fn not_taken(&self, error: StoreError, key: &SequenceKey) -> Error {
        let is_damaged = matches!(error, StoreError::Garbage { .. });
        let error = Error::from(error);
        match is_damaged {
            true => error.with_more(&self.next_step(key)),
            false => error,
        }
    }

    /// Returns what a client can do about a record that is damaged, to be appended to an error.
    pub(super) fn next_step(&self, SequenceKey { model, id }: &SequenceKey) -> String {
        match &self.store {
            SequenceStore::Files(_) => format!(
                " - begin sequence {id} again, which replaces what is stored of it, or remove that with DELETE \
                 /v1/models/{model}/sequences/{id}"
            ),
            SequenceStore::Redis(_) => String::new(),
        }
    }
}

/// Makes the error of a state that cannot be read.
pub(super) fn damaged(error: Error, next_step: &str) -> Error {
    Error::internal(DAMAGED)
        .with_more(next_step)
        .with_source(error)
}
