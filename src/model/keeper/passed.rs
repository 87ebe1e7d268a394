//! Sequences that others have taken over. A former owner is not notified, which would cost each handover a message; it
//! finds out by itself, so that it neither lists them nor counts them for its clients until they would be idle.

use std::{sync::Arc, time::Duration};

use super::{Keeper, LiveState, Version, count};
use crate::{error::Result, model::cleaner, store::OwnedSequence};

/// Maximum number of sequences of a version that the store is asked about at a time; of more it is some, others the
/// next time.
const MAX_SEQUENCES: usize = 1024;

impl Keeper {
    /// Lets sequences go that others have taken over, of those that have not been used lately: whoever uses one finds it
    /// out.
    pub(super) async fn let_passed_go(&self, versions: &[Arc<Version>]) {
        // A store that fails is reported by what needs it.
        drop(self.let_go(versions, MAX_SEQUENCES, count::PERIOD).await);
    }

    /// Lets sequences of a model with these versions go that others have taken over, before up to so many are listed.
    ///
    /// # Errors
    ///
    /// Fails if the store does.
    pub(crate) async fn let_listed_go(&self, versions: &[Arc<Version>], most: usize) -> Result<()> {
        self.let_go(versions, most.max(MAX_SEQUENCES), Duration::ZERO)
            .await
    }

    async fn let_go(&self, versions: &[Arc<Version>], most: usize, unused: Duration) -> Result<()> {
        for version in versions {
            let sequences = version.sequences();
            let owned = sequences.sample(most, unused, |live| self.stored_epoch(live));
            if owned.is_empty() {
                continue;
            }
            let owned = owned.into_iter();
            let owned: Vec<_> = owned
                .map(|(id, epoch)| OwnedSequence { id, epoch })
                .collect();
            let passed = self.store.passed(version.model(), &owned).await?;
            let passed = passed.iter().map(|it| (it.id, it.epoch));
            // One that has been taken back meanwhile has another epoch.
            let states = sequences.drop_those(passed, |epoch, live| {
                self.stored_epoch(live) == Some(*epoch)
            });
            if states.is_empty() {
                continue;
            }
            version.reporter().sequences().moved(states.len());
            tracing::debug!(
                model = version.model(),
                version = version.number(),
                sequences = states.len(),
                "let sequences go that are used elsewhere"
            );
            cleaner::free(states).await;
        }
        Ok(())
    }

    /// Returns the epoch of a state that is of no use if the store has another: what others cannot have taken over is left
    /// out.
    fn stored_epoch(&self, live: &LiveState) -> Option<u64> {
        let stored = live.stored.as_ref()?;
        (!stored.needs_store() || !self.is_sure(stored)).then_some(stored.epoch)
    }
}
