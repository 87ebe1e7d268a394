//! The end of sequences that nobody ends: the periodic scan for idle ones, and what becomes of
//! those whose instance of the model is replaced or retired.

use std::{future::Future, sync::Arc, time::Duration};

use super::{loaded::Loaded, stateful::LiveState, version::Version};
use crate::{openvino::runtime, task};

/// Number of states freed at once from which the system's allocator is worth asking to give their
/// memory back. An estimate: each has some 10 KB.
const MANY: usize = 100;

/// Scans the sequences of all versions once each period. A sequence goes at the second scan after
/// its last request that succeeded, so after one to two periods.
pub async fn run(period: Duration, versions: impl Fn() -> Vec<Arc<Version>>) {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // The first one comes at once.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        for version in versions() {
            scan(&version).await;
        }
    }
}

/// Removes the idle sequences of a version. Those that the store has as well stay there for as long as it keeps them.
async fn scan(version: &Version) {
    let states = version.sequences().scan(|loaded| loaded.cleans_sequences());
    if states.is_empty() {
        return;
    }
    let moved = states.iter().filter(|live| live.is_spare()).count();
    let removed = states.len() - moved;
    let (model, number) = (version.model(), version.number());
    let counts = version.reporter().sequences();
    if removed > 0 {
        counts.evicted(removed);
        tracing::info!(
            model,
            version = number,
            sequences = removed,
            "removed idle sequences"
        );
    }
    if moved > 0 {
        counts.moved(moved);
        tracing::info!(
            model,
            version = number,
            sequences = moved,
            "left idle sequences to the store"
        );
    }
    if let Some(keeper) = version.keeper() {
        keeper.forget(&states).await;
    }
    free(states).await;
}

/// Ends the sequences of an instance that no longer takes new ones: at once if there is no limit,
/// else when the last of them has ended or the limit is over. The future is for what takes time, and
/// frees the instance in the end.
pub(crate) fn let_go(
    version: &Arc<Version>,
    old: Arc<Loaded>,
    limit: Duration,
) -> impl Future<Output = ()> + use<> {
    old.leave(limit);
    let this = Arc::clone(version);
    let sequences = Arc::clone(version.sequences());
    let (model, version) = (version.model().to_owned(), version.number());
    let mut states = Vec::new();
    // What another server or another load can go on with stays until it is stored.
    let kept = this.keeper().filter(|_| old.shares_sequences()).cloned();
    if limit.is_zero() && kept.is_none() {
        states = sequences.drop_of(&old);
    }
    let count = sequences.count(&old);
    if !states.is_empty() {
        tracing::info!(
            model,
            version,
            sequences = states.len(),
            "sequences ended by a reload"
        );
    } else if count > 0 {
        let limit_seconds = limit.as_secs();
        tracing::info!(
            model,
            version,
            sequences = count,
            limit_seconds,
            "sequences may go on"
        );
    }
    async move {
        let warn = |states: &[LiveState], reason: &str| {
            let sequences = states.len();
            if sequences > 0 {
                tracing::warn!(model, version, sequences, "sequences ended, {reason}");
            }
        };
        if let Some(keeper) = kept {
            keeper.leave(&this, &old, limit).await;
            states = sequences.drop_of(&old);
            warn(&states, "they could not be stored");
            keeper.forget(&states).await;
        } else if !limit.is_zero() {
            let gone = sequences.wait_gone(|instance| *instance == old);
            // Those that are left when the time is over go as they are.
            drop(tokio::time::timeout(limit, gone).await);
            states = sequences.drop_of(&old);
            warn(&states, "their time is over");
        }
        free(states).await;
        old.drain().await;
    }
}

/// Frees states away from the async workers.
pub(super) async fn free(states: Vec<LiveState>) {
    if states.is_empty() {
        return;
    }
    task::heavy("unload", move || {
        let many = states.len() >= MANY;
        drop(states);
        if many {
            runtime::trim();
        }
    })
    .await;
}
