//! One version of a model: its state, and what is loaded of it.
//!
//! The loaded model is swapped whole: a request that has found it keeps it, and the next request
//! finds the new one. The old one goes when its last request has left.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{
    cleaner, for_clients,
    keeper::Keeper,
    loaded::Loaded,
    recover::Recovery,
    resize::Resizing,
    state::{Status, VersionErrorCode, VersionState},
    stateful::{self, OfVersion},
};
use crate::{
    error::{Error, ErrorKind, Result},
    metrics::Reporter,
    openvino::WaitingCount,
    sequence::Sequences,
    task::Task,
};

/// A version of a model.
pub struct Version {
    model: Arc<str>,
    number: i64,
    status: watch::Sender<Status>,
    loaded: ArcSwapOption<Loaded>,
    /// Failure of the last load, for people; status calls say less.
    failure: ArcSwapOption<String>,
    /// The same failure, as errors of requests have it.
    obscured: ArcSwapOption<String>,
    reporter: Arc<Reporter>,
    sequences: Arc<OfVersion>,
    /// Time limit for draining, in milliseconds.
    drain: AtomicU64,
    /// Number of times it was retired.
    retirements: AtomicU64,
    /// Requests that wait for a load for another shape.
    pub(super) resizers: WaitingCount,
    /// The load for another shape in flight, if any.
    pub(super) resizing: Mutex<Option<Resizing>>,
    /// Keeps sequences in a store, if there is one.
    keeper: OnceLock<Arc<Keeper>>,
    /// Recovery of compiled models that failed inferences have spoilt.
    pub(super) recovery: Recovery,
}

impl Version {
    /// Makes a version that is about to load.
    pub fn new(model: &str, number: i64, reporter: Arc<Reporter>) -> Arc<Self> {
        Arc::new(Self {
            model: model.into(),
            number,
            status: watch::Sender::new(Status::ok(VersionState::Start)),
            loaded: ArcSwapOption::empty(),
            failure: ArcSwapOption::empty(),
            obscured: ArcSwapOption::empty(),
            sequences: Sequences::new(Arc::clone(&reporter)),
            drain: AtomicU64::new(0),
            reporter,
            retirements: AtomicU64::new(0),
            resizers: WaitingCount::default(),
            resizing: Mutex::default(),
            keeper: OnceLock::new(),
            recovery: Recovery::default(),
        })
    }

    /// Returns the name of the model.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Returns the name of the model, to keep.
    pub fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.model)
    }

    /// Returns the number of the version.
    pub fn number(&self) -> i64 {
        self.number
    }

    /// Returns the version's figures.
    pub fn reporter(&self) -> &Arc<Reporter> {
        &self.reporter
    }

    /// Returns its sequences; there are none if it is not stateful.
    pub fn sequences(&self) -> &Arc<OfVersion> {
        &self.sequences
    }

    /// Sets the store of its sequences. Only the first call counts.
    pub fn keep_with(&self, keeper: Arc<Keeper>) {
        let _ = self.keeper.set(keeper);
    }

    /// Returns what keeps its sequences in a store, if there is one.
    #[must_use]
    pub fn keeper(&self) -> Option<&Arc<Keeper>> {
        self.keeper.get()
    }

    /// Sets the time that sequences may continue on a replaced or retired model.
    pub fn set_drain(&self, limit: Duration) {
        let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        self.drain.store(limit, Ordering::Relaxed);
    }

    /// Returns the time that sequences may continue on a replaced or retired model.
    pub fn drain(&self) -> Duration {
        Duration::from_millis(self.drain.load(Ordering::Relaxed))
    }

    /// Returns whether a stop waits for its sequences; those of a store go on elsewhere.
    #[must_use]
    pub fn drains_sequences(&self) -> bool {
        let shares = |loaded: Arc<Loaded>| loaded.shares_sequences();
        let stored = self.keeper().is_some() && self.sequences.any_instance().is_some_and(shares);
        !self.drain().is_zero() && !stored
    }

    /// Returns the model that sequences continue on although nothing is loaded for new ones, if any.
    pub fn draining(&self) -> Option<Arc<Loaded>> {
        if self.is_loaded() {
            return None;
        }
        self.sequences.any_instance()
    }

    /// Returns state and outcome at this moment.
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// Returns the failure of the last load, if any.
    pub fn failure(&self) -> Option<Arc<String>> {
        let failed = self.status.borrow().code != VersionErrorCode::Ok;
        self.failure.load_full().filter(|_| failed)
    }

    /// Records that a load begins. A version that serves keeps serving and is not touched, and one that
    /// failed keeps the reason meanwhile.
    pub fn begin(&self) {
        if self.loaded.load().is_none() {
            self.status.send_modify(|status| *status = status.loading());
        }
    }

    /// Puts a load in the place of the present one, if any, which goes when its last request has
    /// left. Needs a runtime.
    pub fn install(self: &Arc<Self>, loaded: Arc<Loaded>) {
        self.attend(&loaded);
        self.reporter.loaded(loaded.streams(), loaded.slots());
        if loaded.batching().is_some_and(|it| !it.sizes.is_empty()) {
            self.reporter.has_batches();
        }
        // What is compiled again after a failure, or for other shapes, is the same model as before.
        self.reporter.renewed();
        if loaded.is_stateful() {
            if self.keeper().is_some() && !loaded.shares_sequences() {
                let why = stateful::not_stored(&loaded.spec.options);
                tracing::warn!(model = self.model(), version = self.number, "{why}");
            }
            self.reporter.sequences().keep();
            self.sequences.renew(Some(Arc::clone(&loaded)));
        }
        let is_stateful = loaded.is_stateful();
        let old = self.loaded.swap(Some(loaded));
        if is_stateful {
            // A replacement may have taken the place of the old one since.
            self.sequences.renew(self.loaded().ok());
        }
        self.status
            .send_replace(Status::ok(VersionState::Available));
        self.failure.store(None);
        if let Some(old) = old {
            Task::spawn(cleaner::let_go(self, old, self.drain())).detach();
        }
    }

    /// Installs a load, if the loaded model is still the one that the caller expects, and leaves it to the
    /// caller to drain that one.
    pub(super) fn install_after(
        self: &Arc<Self>,
        before: &Arc<Loaded>,
        loaded: &Arc<Loaded>,
    ) -> bool {
        let fresh = Some(Arc::clone(loaded));
        let found = self.loaded.compare_and_swap(before, fresh);
        let done = found.as_ref() == Some(before);
        if done {
            self.attend(loaded);
            self.reporter.loaded(loaded.streams(), loaded.slots());
        }
        done
    }

    /// Records that a load from a base path failed. The loaded version, if any, keeps serving.
    pub fn fail(&self, failure: &str, base_path: &str) {
        self.failure.store(Some(Arc::new(failure.to_owned())));
        let obscured = for_clients(failure, base_path, Some(self.number));
        self.obscured.store(Some(Arc::new(obscured)));
        let status = if self.loaded.load().is_some() {
            Status::kept(failure)
        } else {
            Status::failed(failure)
        };
        self.status.send_replace(status);
    }

    /// Records that the failed load is no longer wanted, so that the loaded version is the right one.
    pub fn forget_failure(&self) {
        self.status.send_if_modified(|status| {
            let failed =
                status.state == VersionState::Available && status.code != VersionErrorCode::Ok;
            if failed {
                *status = Status::ok(VersionState::Available);
            }
            failed
        });
    }

    /// Stops serving: in-flight requests finish, new ones are refused. Needs a runtime.
    pub fn retire(self: &Arc<Self>) {
        if !self.is_loaded() {
            if self.status.borrow().state != VersionState::Unloading {
                self.status.send_replace(Status::ok(VersionState::End));
            }
            return;
        }
        // Before the loaded version goes, so that late requests get the right error.
        self.status
            .send_replace(Status::ok(VersionState::Unloading));
        let Some(loaded) = self.loaded.swap(None) else {
            return;
        };
        self.sequences.renew(None);
        let retirement = self.retirements.fetch_add(1, Ordering::Relaxed) + 1;
        let version = Arc::clone(self);
        let let_go = cleaner::let_go(self, loaded, self.drain());
        Task::spawn(async move {
            let_go.await;
            // Those of an instance that was replaced before have their own time.
            version.sequences.wait_gone(|_| true).await;
            // Unless it is wanted again meanwhile, or has been and is retired once more.
            let last = version.retirements.load(Ordering::Relaxed) == retirement;
            let ended = version.status.send_if_modified(|status| {
                let unloading = last && status.state == VersionState::Unloading;
                if unloading {
                    *status = Status::ok(VersionState::End);
                }
                unloading
            });
            if ended {
                version.reporter.unloaded();
            }
        })
        .detach();
    }

    /// Waits until it is no longer unloading.
    pub async fn unloaded(&self) {
        let mut status = self.status.subscribe();
        // The sender lives as long as this does.
        drop(
            status
                .wait_for(|status| status.state != VersionState::Unloading)
                .await,
        );
    }

    /// Returns whether anything is loaded.
    pub fn is_loaded(&self) -> bool {
        self.loaded.load().is_some()
    }

    /// Returns the loaded model, without waiting.
    ///
    /// # Errors
    ///
    /// Fails if the version is not loaded, or not any more.
    pub fn loaded(&self) -> Result<Arc<Loaded>> {
        self.loaded.load_full().ok_or_else(|| self.not_loaded())
    }

    /// Makes the error of a version that is not loaded, with the reason if its load has failed.
    fn not_loaded(&self) -> Error {
        let status = self.status();
        let error = match status.state {
            VersionState::Unloading | VersionState::End => Error::new(
                ErrorKind::NotFound,
                "Model with requested version is retired",
            ),
            VersionState::Start | VersionState::Loading | VersionState::Available => Error::new(
                ErrorKind::NotLoaded,
                "Model with requested version is not loaded yet",
            ),
        };
        match self.obstacle() {
            Some(failure) => error.with_more(&format!(" - {failure}")),
            None => error,
        }
    }

    /// Returns the failure of the last load as errors of requests have it, if any.
    pub(super) fn obstacle(&self) -> Option<Arc<String>> {
        let failed = self.status.borrow().failure.is_some();
        self.obscured.load_full().filter(|_| failed)
    }

    /// Returns the loaded model; waits while the version is loading, up to a limit.
    ///
    /// # Errors
    ///
    /// Fails if the load fails or takes longer.
    pub async fn wait_loaded(&self, limit: Duration) -> Result<Arc<Loaded>> {
        if let Some(loaded) = self.loaded.load_full() {
            return Ok(loaded);
        }
        let mut status = self.status.subscribe();
        let settled = status.wait_for(|status| !status.is_undecided());
        // A time limit that passes and a load that fails end in the same answer.
        drop(tokio::time::timeout(limit, settled).await);
        self.loaded()
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Version")
            .field("model", &self.model)
            .field("number", &self.number)
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::Version;
    use crate::{error::ErrorKind, model::state::VersionState};

    #[tokio::test(start_paused = true)]
    async fn a_version_that_stays_loading_is_waited_for_and_then_refused() {
        let version = Version::new("dummy", 1, Arc::default());
        let started = tokio::time::Instant::now();
        let refused = version.wait_loaded(Duration::from_secs(10)).await;
        assert_eq!(refused.err().map(|e| e.kind()), Some(ErrorKind::NotLoaded));
        assert_eq!(started.elapsed(), Duration::from_secs(10));
    }

    #[tokio::test]
    async fn a_version_that_never_loaded_ends_at_once_and_says_so() {
        let version = Version::new("dummy", 1, Arc::default());
        version.begin();
        version.fail("no files", "m");
        assert_eq!(version.status().message(), "no files");
        assert_eq!(version.failure().unwrap().as_str(), "no files");
        version.retire();
        assert_eq!(version.status().state, VersionState::End);
        let refused = version.loaded().err().unwrap();
        assert_eq!(refused.message(), "Model with requested version is retired");
    }

    #[tokio::test(start_paused = true)]
    async fn a_load_that_is_tried_again_keeps_its_reason_and_is_waited_for() {
        let limit = Duration::from_secs(10);
        let version = Version::new("dummy", 1, Arc::default());
        version.begin();
        version.fail("no files", "m");
        let before = version.status();
        let started = tokio::time::Instant::now();
        assert!(version.wait_loaded(limit).await.is_err());
        assert_eq!(started.elapsed(), Duration::ZERO, "nothing is on its way");

        version.begin();
        let meanwhile = version.status();
        assert_eq!(
            (meanwhile.state, meanwhile.code),
            (before.state, before.code)
        );
        assert_eq!(meanwhile.message(), "no files");
        assert_eq!(version.failure().unwrap().as_str(), "no files");
        assert!(version.wait_loaded(limit).await.is_err());
        assert_eq!(started.elapsed(), limit, "the outcome is waited for");

        version.fail("a wrong file", "m");
        assert_eq!(version.status().message(), "a wrong file");
        assert!(version.wait_loaded(limit).await.is_err());
        assert_eq!(started.elapsed(), limit, "it is decided again");
        version.retire();
        version.begin();
        assert_eq!(version.failure(), None, "what was retired begins anew");
    }
}
