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
                stored.map(|stored| (stored.epoch, stored.ahead))
            });
            let ended = match here {
                Some(Some((epoch, _))) => {
                    self.store.end(&key, epoch, None).await.map_err(Error::from)
                }
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
                    // Whether it has ended, nobody knows: what is stored is what counts, unless it is older.
                    if let Some(Some((epoch, true))) = here {
                        self.store.end_later(&key, epoch);
                    }
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
        self.abandon(&SequenceKey { model, id }, epoch).await;
    }

    /// Ends a sequence whose state is nowhere, now or once the store answers again.
    pub(super) async fn abandon(&self, key: &SequenceKey, epoch: u64) {
        // One that does not answer is not waited for once more.
        let answers = self.store.life().is_some();
        if answers && self.store.end(key, epoch, None).await.is_ok() {
            return;
        }
        self.store.end_later(key, epoch);
    }
}
