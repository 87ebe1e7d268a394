//! The end of a sequence without a step, for those who manage the server.

use std::sync::Arc;

use super::{Keeper, ModelTurn, ROUNDS, step, unknown};
use crate::{
    error::Result,
    model::version::Version,
    store::{SequenceKey, WriteOutcome},
};

impl Keeper {
    /// Ends a sequence, wherever its state is.
    ///
    /// # Errors
    ///
    /// Fails if there is no such sequence, another server does not give it away, or the store fails.
    pub(crate) async fn end(
        self: Arc<Self>,
        mut turn: ModelTurn,
        version: Arc<Version>,
    ) -> Result<()> {
        let key = SequenceKey {
            model: version.model().to_owned(),
            id: turn.id(),
        };
        for _ in 0..ROUNDS {
            let epoch = match turn.state() {
                Some(live) => live.stored.as_ref().map(|stored| stored.epoch),
                None => match self.take(&key).await? {
                    Ok(record) => Some(record.epoch),
                    Err(_) => return Err(unknown()),
                },
            };
            let ended = match epoch {
                Some(epoch) => self.store.end(&key, epoch, None).await,
                // It began before there was a store.
                None => Ok(WriteOutcome::Stored),
            };
            match ended {
                Ok(WriteOutcome::Stored) => {
                    turn.run();
                    drop(turn.ended(true));
                    return Ok(());
                }
                Ok(WriteOutcome::Fenced) => *turn.place() = None,
                Err(error) => {
                    // Whether it has ended, nobody knows: what is stored is what counts.
                    *turn.place() = None;
                    return Err(error.into());
                }
            }
        }
        Err(step::overtaken(key.id))
    }

    /// Takes back a start that the store has accepted, of a sequence that has no place here.
    pub(crate) async fn give_up(&self, version: &Version, id: u64, epoch: u64) {
        let model = version.model().to_owned();
        // It expires without that.
        drop(
            self.store
                .end(&SequenceKey { model, id }, epoch, None)
                .await,
        );
    }
}
