//! Compiled models spoilt by a failed inference: they are replaced beside the serving one, as by a
//! reload, and requests that they have failed are repeated once on the replacement.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use tokio::{sync::oneshot, time::Instant};

use super::{
    cleaner, infer::Failed, loaded::Loaded, resize::is_same_but_for_shapes,
    stateful::LoadedInstance, version::Version,
};
use crate::{
    error::chain,
    metrics::MAX_STUCK,
    openvino::{PoolError, RunError, Work},
    task::Task,
};

/// A pause is at least so many times as long as the load before it, so that failures keep no more
/// than a fifth of the processor busy.
const REST: u32 = 4;

/// Time that sequences continue on a compiled model replaced after a failed inference, if nothing
/// else is configured: they cannot leave it, and most of them had no part in it.
const DRAIN: Duration = Duration::from_secs(600);

/// Recovery of the spoilt compiled models of a version.
#[derive(Default)]
pub(super) struct Recovery {
    state: Mutex<State>,
    /// Requests that wait to be repeated.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// Replacement in flight, and the model that it replaces.
    pending: Option<(Arc<Loaded>, Pending)>,
    /// Earliest time at which the next one may begin.
    next: Option<Instant>,
}

/// A replacement to come: what it is, or why there is none.
type Pending = Shared<BoxFuture<'static, Outcome>>;

type Outcome = Result<Arc<Loaded>, Arc<str>>;

/// A request that waits to be repeated, counted until dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Version {
    /// Finds the replacement on which a failed request can be repeated, after a wait for it;
    /// returns the failure if it is the request's own.
    pub(super) async fn recover(
        self: &Arc<Self>,
        loaded: &Arc<Loaded>,
        failed: Failed,
    ) -> Result<(Arc<Loaded>, Work), Failed> {
        if !loaded.runner.is_spoilt() && !matches!(failed, Failed::Run(RunError::Spoilt(..))) {
            return Err(failed);
        }
        // Also for those who have come before, and for those who come next.
        let replacement = self.replace(loaded);
        let Failed::Run(RunError::Spoilt(error, work)) = failed else {
            return Err(failed);
        };
        let most = loaded.spec.options.max_waiting;
        let _place = Waiting(&self.recovery.waiting);
        if self.recovery.waiting.fetch_add(1, Relaxed) > most {
            let full = PoolError::Replacement(most);
            return Err(Failed::Run(error.map_or(full.into(), RunError::Slot)));
        }
        match replacement.await {
            Ok(fresh) if is_same_but_for_shapes(&loaded.info, &fresh.info) => Ok((fresh, work)),
            // Nothing takes the place, so it runs where it came to.
            Err(_) if error.is_none() => Ok((Arc::clone(loaded), work)),
            _ => Err(Failed::Run(match error {
                Some(error) => RunError::Slot(error),
                None => RunError::Spoilt(None, work),
            })),
        }
    }

    /// Starts the replacement of a compiled model if it is spoilt. Needs a runtime.
    pub(crate) fn tend(self: &Arc<Self>, loaded: &Arc<Loaded>) {
        if loaded.runner.is_spoilt() {
            drop(self.replace(loaded));
        }
    }

    /// Watches for stuck inferences of a compiled model, whose clients may have left, for as long
    /// as it lives. Needs a runtime.
    pub(super) fn attend(self: &Arc<Self>, loaded: &Arc<Loaded>) {
        if loaded.spec.options.inference_timeout.is_none() {
            return;
        }
        let stuck = loaded.runner.stuck();
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
    fn replace(self: &Arc<Self>, spoilt: &Arc<Loaded>) -> Pending {
        let mut state = self.recovery.lock();
        if let Some((of, pending)) = &state.pending
            && Arc::ptr_eq(of, spoilt)
        {
            return pending.clone();
        }
        match self.loaded() {
            Ok(current) if Arc::ptr_eq(&current, spoilt) => {}
            current => {
                let current = current.map_err(|error| error.message().into());
                return std::future::ready(current).boxed().shared();
            }
        }
        let begin = state.next;
        let (done, outcome) = oneshot::channel();
        let ended = || Arc::from("the load ended without a result");
        let pending = async move { outcome.await.unwrap_or_else(|_| Err(ended())) };
        let pending = pending.boxed().shared();
        state.pending = Some((Arc::clone(spoilt), pending.clone()));
        drop(state);
        let version = Arc::clone(self);
        let spoilt = Arc::clone(spoilt);
        // On its own: a client that leaves does not break it off for the others.
        Task::spawn(async move {
            if let Some(begin) = begin {
                tokio::time::sleep_until(begin).await;
            }
            let started = Instant::now();
            let outcome = version.load_in_place_of(&spoilt).await;
            let pause = spoilt.spec.options.recovery_interval;
            let pause = pause.max(started.elapsed() * REST);
            if let Err(reason) = &outcome {
                let (model, version) = (version.model(), version.number());
                tracing::error!(
                    model,
                    version,
                    "an inference failed, and the model cannot be replaced: {reason}"
                );
                spoilt.runner.resume();
            } else {
                spoilt.runner.hand_over();
            }
            let mut state = version.recovery.lock();
            state.pending = None;
            state.next = Some(Instant::now() + pause);
            drop(state);
            let _ = done.send(outcome);
        })
        .detach();
        pending
    }

    async fn load_in_place_of(self: &Arc<Self>, spoilt: &Arc<Loaded>) -> Outcome {
        let stuck = self.reporter().inferences_stuck();
        if self.reporter().is_stuck() {
            return Err(format!("{stuck} inferences do not end, {MAX_STUCK} are allowed").into());
        }
        if spoilt.is_stateful() && self.sequences().has_replaced() {
            return Err("sequences still go on on the one replaced before".into());
        }
        let loaded = spoilt.load_again(self.model(), self.number()).await;
        let loaded = loaded.map_err(|error| Arc::from(chain(&*error.source)))?;
        // Sequences that stay are protected as well from now on.
        spoilt.runner.watch(loaded.runner.guard());
        if !self.put_in_place_of(spoilt, &loaded) {
            Task::spawn(loaded.drain()).detach();
            // Another one is there meanwhile, or none is wanted any more.
            return self.loaded().map_err(|error| error.message().into());
        }
        tracing::warn!(
            model = self.model(),
            version = self.number(),
            "an inference failed, so the compiled model was replaced"
        );
        Ok(loaded)
    }

    /// Installs a replacement, if the spoilt model is still in place.
    fn put_in_place_of(self: &Arc<Self>, spoilt: &Arc<Loaded>, loaded: &Arc<Loaded>) -> bool {
        if !loaded.is_stateful() {
            return self.install_after(spoilt, Arc::clone(loaded));
        }
        let renew = |loaded: &Arc<Loaded>| {
            let instance = LoadedInstance(Arc::clone(loaded));
            self.sequences().renew(Some(instance));
        };
        renew(loaded);
        if !self.install_beside(spoilt, Arc::clone(loaded)) {
            if let Ok(current) = self.loaded() {
                renew(&current);
            }
            return false;
        }
        let limit = match self.drain() {
            Duration::ZERO => DRAIN,
            limit => limit,
        };
        let spoilt = LoadedInstance(Arc::clone(spoilt));
        let let_go = cleaner::let_go(self, &spoilt, limit);
        Task::spawn(async move {
            let_go.await;
            spoilt.0.drain().await;
        })
        .detach();
        true
    }
}

impl Recovery {
    fn lock(&self) -> MutexGuard<'_, State> {
        // One assignment at a time: a panic cannot leave it half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
