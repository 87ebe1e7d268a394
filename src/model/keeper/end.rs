//! The end of a sequence without a step, for those who manage the server.

use std::sync::Arc;

use super::{Keeper, MAX_ROUNDS, ModelTurn, step};
use crate::{
    error::{Error, Result},
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
        for _ in 0..MAX_ROUNDS {
            let here = turn.state().map(|live| {
                let stored = live.stored.as_ref();
                stored.map(|stored| stored.epoch)
            });
            let ended = match here {
                Some(Some(epoch)) => self.store.end(&key, epoch, None).await.map_err(Error::from),
                // It began before there was a store.
                Some(None) => Ok(WriteOutcome::Stored),
                None => self.end_stored(&key).await,
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
                    return Err(error);
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
