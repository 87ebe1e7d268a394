//! Compiled models spoilt by a failed inference: they are replaced beside the serving one, as by a
//! reload, and requests that they have failed are repeated once on the replacement.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    cleaner,
    infer::Failed,
    loaded::{Loaded, SharedLoad, SharedOutcome, start_shared},
    version::Version,
};
use crate::{
    error::chain,
    metrics::MAX_STUCK,
    openvino::{PoolError, RunError, WaitingCount, Work},
    task::Task,
};

/// A pause is at least so many times as long as the load before it, so that failures keep no more
/// than a fifth of the processor busy.
const REST: u32 = 4;

/// Time that sequences whose states cannot leave it continue on a compiled model replaced since an inference is stuck, if
/// nothing else is configured: most of them had no part in it.
const DRAIN: Duration = Duration::from_secs(600);

/// Recovery of the spoilt compiled models of a version.
#[derive(Default)]
pub(super) struct Recovery {
    state: Mutex<State>,
    /// Requests that wait to be repeated.
    waiting: WaitingCount,
}

#[derive(Default)]
struct State {
    /// Replacements in flight, each with the model that it replaces: the one in place, and those that sequences are left on.
    pending: Vec<(Arc<Loaded>, SharedLoad)>,
    /// Earliest time at which the next one may begin.
    next: Option<Instant>,
}

impl Version {
    /// Finds the replacement on which a failed request can be repeated, after a wait for it;
    /// returns the failure if it is the request's own.
    pub(super) async fn recover(
        self: &Arc<Self>,
        loaded: &Arc<Loaded>,
        failed: Failed,
    ) -> Result<(Arc<Loaded>, Work), Failed> {
        if !loaded.runner.health().is_spoilt()
            && !matches!(failed, Failed::Run(RunError::Spoilt(..)))
        {
            return Err(failed);
        }
        // Also for those who have come before, and for those who come next.
        let replacement = self.replace(loaded);
        let Failed::Run(RunError::Spoilt(error, work)) = failed else {
            return Err(failed);
        };
        let most = loaded.spec.options.max_waiting;
        let place = self.recovery.waiting.enter();
        if place.ahead > most {
            let full = PoolError::Replacement(most);
            return Err(Failed::Run(error.map_or(full.into(), RunError::Slot)));
        }
        // A load that ended without a result is one that failed.
        match replacement.await.unwrap_or_else(|_| Err("".into())) {
            Ok(fresh) if loaded.info.is_same_but_for_shapes(&fresh.info) => Ok((fresh, work)),
            // Nothing takes the place, so it runs where it came to. A wrong value would stay in a sequence.
            Err(_) if error.is_none() && !loaded.is_stateful() => Ok((Arc::clone(loaded), work)),
            _ => Err(Failed::Run(match error {
                Some(error) => RunError::Slot(error),
                None => RunError::Spoilt(None, work),
            })),
        }
    }

    /// Starts the replacement of a compiled model if it is spoilt. Needs a runtime.
    pub(crate) fn tend(self: &Arc<Self>, loaded: &Arc<Loaded>) {
        if loaded.runner.health().is_spoilt() {
            drop(self.replace(loaded));
        }
    }

    /// Watches for stuck inferences of a compiled model, whose clients may have left, for as long
    /// as it lives. Needs a runtime.
    pub(super) fn attend(self: &Arc<Self>, loaded: &Arc<Loaded>) {
        if loaded.spec.options.inference_timeout.is_none() {
            return;
        }
        let stuck = Arc::clone(&loaded.runner.health().stuck);
        let (version, loaded) = (Arc::downgrade(self), Arc::downgrade(loaded));
        Task::spawn(async move {
            loop {
                stuck.notified().await;
                let (Some(version), Some(loaded)) = (version.upgrade(), loaded.upgrade()) else {
                    return;
                };
                version.tend(&loaded);
            }
        })
        .detach();
    }

    /// Replaces a compiled model, or joins a replacement in flight. A model replaced already has
    /// its replacement at once.
    fn replace(self: &Arc<Self>, spoilt: &Arc<Loaded>) -> SharedLoad {
        let mut state = self.recovery.state.lock();
        let mut pending = state.pending.iter();
        if let Some((_, pending)) = pending.find(|(of, _)| Arc::ptr_eq(of, spoilt)) {
            return pending.clone();
        }
        let is_left = match self.loaded() {
            Ok(current) if Arc::ptr_eq(&current, spoilt) => false,
            _ if self.has_left_sequences_on(spoilt) => true,
            current => {
                let current = current.map_err(|error| error.message().into());
                return start_shared(std::future::ready(current));
            }
        };
        let begin = state.next;
        let version = Arc::clone(self);
        let of = Arc::clone(spoilt);
        let spoilt = Arc::clone(spoilt);
        let pending = start_shared(async move {
            if let Some(begin) = begin {
                tokio::time::sleep_until(begin).await;
            }
            let started = Instant::now();
            // Whatever happens, the next one that fails may be replaced.
            let load = async {
                match is_left {
                    true => version.load_for_those_left_on(&spoilt).await,
                    false => version.load_in_place_of(&spoilt).await,
                }
            };
            let load = AssertUnwindSafe(load).catch_unwind();
            let outcome = load
                .await
                .unwrap_or_else(|_| Err("a bug: it panicked".into()));
            let pause = spoilt.spec.options.recovery_interval;
            let pause = pause.max(started.elapsed() * REST);
            if let Err(reason) = &outcome {
                let (model, version) = (version.model(), version.number());
                tracing::error!(
                    model,
                    version,
                    "an inference failed, and the model cannot be replaced: {reason}"
                );
                spoilt.runner.health().resume();
            } else {
                spoilt.runner.hand_over();
            }
            let mut state = version.recovery.state.lock();
            state.pending.retain(|(of, _)| !Arc::ptr_eq(of, &spoilt));
            state.next = Some(Instant::now() + pause);
            drop(state);
            outcome
        });
        state.pending.push((of, pending.clone()));
        pending
    }

    async fn load_in_place_of(self: &Arc<Self>, spoilt: &Arc<Loaded>) -> SharedOutcome {
        if spoilt.runner.health().keeps_sequences() && self.sequences().has_replaced() {
            return Err("sequences still go on on the one replaced before".into());
        }
        let loaded = self.load_again(spoilt).await?;
        // Sequences that stay are protected as well from now on.
        let guard = loaded.runner.health().guard();
        spoilt.runner.health().watch(guard.cloned());
        if !self.put_in_place_of(spoilt, &loaded) {
            let drain = self.drain();
            Task::spawn(cleaner::let_go(self, Arc::clone(&loaded), drain)).detach();
            // Another one is there meanwhile, or none is wanted any more. Sequences have moved all the same.
            return match self.sequences().count(&loaded) {
                0 => self.loaded().map_err(|error| error.message().into()),
                _ => Ok(loaded),
            };
        }
        tracing::warn!(
            model = self.model(),
            version = self.number(),
            "an inference failed, so the compiled model was replaced"
        );
        Ok(loaded)
    }

    /// Loads a spoilt model anew, unless as many inferences as may do so never end.
    async fn load_again(&self, spoilt: &Arc<Loaded>) -> SharedOutcome {
        let stuck = self.reporter().inferences_stuck();
        if self.reporter().is_stuck() {
            return Err(format!("{stuck} inferences do not end, {MAX_STUCK} are allowed").into());
        }
        let loaded = spoilt.load_again(self.model(), self.number()).await;
        loaded.map_err(|error| Arc::from(chain(&*error.source)))
    }

    /// Returns whether sequences continue on a model that is not in place any more, and can move to another load of it.
    /// Those of a store continue on whatever is loaded.
    fn has_left_sequences_on(&self, loaded: &Arc<Loaded>) -> bool {
        let is_kept = self.keeper().is_some() && loaded.shares_sequences();
        let may_move = loaded.variables.is_some() && !loaded.runner.health().keeps_sequences();
        may_move && !is_kept && self.sequences().count(loaded) > 0
    }

    /// Loads a model again that has been replaced or retired, for the sequences that are left on it, for as long as they
    /// have.
    async fn load_for_those_left_on(self: &Arc<Self>, spoilt: &Arc<Loaded>) -> SharedOutcome {
        let loaded = self.load_again(spoilt).await?;
        if !spoilt.has_same_states(&loaded) {
            return Err("its file has changed".into());
        }
        self.attend(&loaded);
        drop(self.sequences().move_all(spoilt, &loaded, |_| None));
        let limit = spoilt.time_left().unwrap_or_else(|| self.drain());
        Task::spawn(cleaner::let_go(self, Arc::clone(&loaded), limit)).detach();
        tracing::warn!(
            model = self.model(),
            version = self.number(),
            "an inference failed, so the compiled model that sequences are left on was replaced"
        );
        Ok(loaded)
    }

    /// Installs a replacement, if the spoilt model is still in place.
    fn put_in_place_of(self: &Arc<Self>, spoilt: &Arc<Loaded>, loaded: &Arc<Loaded>) -> bool {
        if !loaded.is_stateful() {
            let done = self.install_after(spoilt, loaded);
            if done {
                Task::spawn(Arc::clone(spoilt).drain()).detach();
            }
            return done;
        }
        let (sequences, old) = (self.sequences(), Arc::clone(spoilt));
        let keeps = spoilt.runner.health().keeps_sequences();
        let moves = !keeps && spoilt.has_same_states(loaded);
        sequences.renew(Some(Arc::clone(loaded)));
        let left = match moves {
            // States within infer requests are as spoilt as their compiled model, which they keep alive.
            true if spoilt.variables.is_none() => {
                sequences.move_all(spoilt, loaded, |live| Some(live.state.lose().into()))
            }
            true => sequences.move_all(spoilt, loaded, |_| None),
            false => Vec::new(),
        };
        let done = self.install_after(spoilt, loaded);
        if !done {
            sequences.renew(self.loaded().ok());
        }
        if moves {
            let (model, version) = (self.model(), self.number());
            if !left.is_empty() {
                tracing::warn!(
                    model,
                    version,
                    sequences = left.len(),
                    "sequences ended by a failed inference, since state_mode is requests"
                );
            }
            Task::spawn(async move {
                cleaner::free(left).await;
                if done {
                    old.drain().await;
                }
            })
            .detach();
        } else if done {
            let limit = match self.drain() {
                _ if !keeps => Duration::ZERO,
                Duration::ZERO => DRAIN,
                limit => limit,
            };
            Task::spawn(cleaner::let_go(self, old, limit)).detach();
        }
        done
    }
}
