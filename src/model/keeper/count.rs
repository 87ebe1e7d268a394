//! Numbers of the sequences in the store, for the figures.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{Keeper, Version};
use crate::{error::Result, store::StoredSequence};

/// Interval at which the store is asked for the number of its sequences.
pub(super) const PERIOD: Duration = Duration::from_secs(5);

impl Keeper {
    /// Returns how many sequences of a model with these versions the store has, and up to so many of them.
    ///
    /// # Errors
    ///
    /// Fails if the store does.
    pub(crate) async fn list(
        &self,
        model: &str,
        versions: &[Arc<Version>],
        most: usize,
    ) -> Result<(usize, Vec<StoredSequence>)> {
        let listed = self.store.list(model, most).await?;
        let live = match listed.len() < most {
            true => listed.len() as u64,
            false => self.count_of(model, versions).await?,
        };
        Ok((usize::try_from(live).unwrap_or(usize::MAX), listed))
    }

    /// Counts the sequences that the store has of each model.
    pub(super) async fn count(&self, versions: &[Arc<Version>]) {
        let mut models = BTreeMap::<&str, Vec<Arc<Version>>>::new();
        for version in versions {
            if version.loaded().is_ok_and(|it| it.shares_sequences()) {
                let of = models.entry(version.model()).or_default();
                of.push(Arc::clone(version));
            }
        }
        for (model, versions) in models {
            // A store that fails is reported by what needs it.
            drop(self.count_of(model, &versions).await);
        }
    }

    /// Counts the sequences of a model with these versions. Those that have expired count for the newest, since the
    /// store knows no versions.
    async fn count_of(&self, model: &str, versions: &[Arc<Version>]) -> Result<u64> {
        let counted = self.store.count(model).await?;
        for version in versions {
            version.reporter().sequences().stored(counted.live);
        }
        let newest = versions.iter().max_by_key(|version| version.number());
        if let Some(newest) = newest.filter(|_| counted.expired > 0) {
            let expired = usize::try_from(counted.expired).unwrap_or(usize::MAX);
            newest.reporter().sequences().evicted(expired);
            tracing::info!(
                model,
                sequences = expired,
                "removed idle sequences from the store"
            );
        }
        Ok(counted.live)
    }
}
