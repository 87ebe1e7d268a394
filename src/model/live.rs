//! A servable of one version that is checked as a whole, a pipeline or a graph: its state, and what it
//! runs at the moment.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::{
    overloaded,
    phase::{Phase, PhaseEvent},
    state::{Status, VersionErrorCode, VersionState},
};
use crate::{
    error::{Error, ErrorKind, Result},
    metrics::Reporter,
    task::Task,
};

/// Number of definitions that are draining.
static DRAINING: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of dropped definitions that still have requests or something to bring to an end.
pub fn draining() -> usize {
    DRAINING.load(Ordering::Acquire)
}

/// Drops a definition that is no longer reachable, once it has drained. Needs a runtime.
pub fn let_go<D: Served>(definition: Arc<D>) {
    struct Counted;
    impl Drop for Counted {
        fn drop(&mut self) {
            DRAINING.fetch_sub(1, Ordering::AcqRel);
        }
    }
    DRAINING.fetch_add(1, Ordering::AcqRel);
    let counted = Counted;
    Task::spawn(async move {
        definition.drain().await;
        drop(counted);
    })
    .detach();
}

/// Definition that a [`Live`] runs.
pub trait Served: Send + Sync + 'static {
    /// Name of this kind of servable in texts that clients know: `Pipeline`.
    const KNOWN: &'static str;
    /// Name in other texts: `pipeline`.
    const PLAIN: &'static str;

    /// Waits until the last request has left, and brings it to an end.
    fn drain(self: Arc<Self>) -> impl Future<Output = ()> + Send;

    /// Returns why it cannot serve at the moment, though it is loaded.
    fn obstacle(&self) -> Option<String> {
        None
    }

    /// Checks that it can serve at the moment.
    ///
    /// # Errors
    ///
    /// Fails if something is in its way.
    fn ready(&self) -> Result<()> {
        self.obstacle().map_or(Ok(()), |reason| {
            let text = format!("{} is not ready - {reason}", Self::KNOWN);
            Err(Error::new(ErrorKind::NotLoaded, text))
        })
    }
}

/// A servable that is checked as a whole.
pub struct Live<D> {
    name: Arc<str>,
    phase: watch::Sender<Phase>,
    definition: ArcSwapOption<D>,
    /// Status reported since a replacement has failed.
    kept: ArcSwapOption<Status>,
    /// Failure of the last check, for people; status calls say less.
    failure: ArcSwapOption<String>,
    reporter: Arc<Reporter>,
    admission: Arc<Semaphore>,
    most: usize,
}

impl<D: Served> Live<D> {
    /// Makes one that has not been checked yet, and takes in so many requests at once.
    pub fn new(name: &str, reporter: Arc<Reporter>, most: usize) -> Self {
        Self {
            name: name.into(),
            phase: watch::Sender::new(Phase::Begin),
            definition: ArcSwapOption::empty(),
            kept: ArcSwapOption::empty(),
            failure: ArcSwapOption::empty(),
            reporter,
            admission: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))),
            most,
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the figures.
    pub fn reporter(&self) -> &Arc<Reporter> {
        &self.reporter
    }

    /// Returns its phase.
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Returns its status for status calls: a serving definition is available, also during another check, unless
    /// something is in its way.
    pub fn status(&self) -> Status {
        let definition = self.definition.load();
        let Some(definition) = definition.as_ref() else {
            let status = self.phase().status();
            let failure = self
                .failure()
                .filter(|_| status.code != VersionErrorCode::Ok);
            return Status {
                failure: failure.map(|failure| failure.as_str().into()),
                ..status
            };
        };
        if let Some(obstacle) = definition.obstacle() {
            return Status::failed(&obstacle);
        }
        let kept = self.kept.load();
        kept.as_deref()
            .map_or_else(|| Status::ok(VersionState::Available), Status::clone)
    }

    /// Returns whether the last check has failed, whatever serves since then.
    pub fn has_failed(&self) -> bool {
        self.phase() == Phase::Failed || self.kept.load().is_some()
    }

    /// Handles an event; one that does not happen in this phase is ignored.
    pub fn handle(&self, event: PhaseEvent) {
        let Some(phase) = self.phase().after(event) else {
            return;
        };
        tracing::info!(
            "{}: {} state changed to: {phase} after handling: {event:?}: ",
            D::KNOWN,
            self.name
        );
        self.phase.send_replace(phase);
        // After that: who finds nothing to run finds why.
        if matches!(phase, Phase::Failed | Phase::Retired) {
            self.put(None);
        }
    }

    /// Returns the failure of the last check, if any.
    pub fn failure(&self) -> Option<Arc<String>> {
        self.failure.load_full().filter(|_| self.has_failed())
    }

    /// Records that the check has failed, and that nothing serves from now on.
    pub fn refuse(&self, failure: String) {
        self.failure.store(Some(Arc::new(failure)));
        self.handle(PhaseEvent::ValidationFailed);
    }

    /// Records that the check has failed. The present definition keeps serving, and status calls
    /// report the failure.
    pub fn fail(&self, failure: &str) {
        self.failure.store(Some(Arc::new(failure.to_owned())));
        if self.definition.load().is_none() {
            self.handle(PhaseEvent::ValidationFailed);
            return;
        }
        self.kept.store(Some(Arc::new(Status::kept(failure))));
        self.handle(PhaseEvent::ReloadFailed);
        tracing::warn!(
            "{}: {} goes on as it was loaded before, since it has failed to load again: {failure}",
            D::KNOWN,
            self.name
        );
    }

    /// Replaces the present definition by one that has passed the check; the old one goes when its
    /// last request has left. Needs a runtime.
    pub fn install(&self, definition: Arc<D>) {
        self.put(Some(definition));
        self.reporter.renewed();
        self.handle(PhaseEvent::ValidationPassed);
    }

    fn put(&self, definition: Option<Arc<D>>) {
        self.kept.store(None);
        if definition.is_some() {
            self.failure.store(None);
        }
        if let Some(old) = self.definition.swap(definition) {
            let_go(old);
        }
    }

    /// Drops its definition, and waits until its requests have left and it has come to an end.
    pub async fn close(&self) {
        if let Some(old) = self.definition.swap(None) {
            old.drain().await;
        }
    }

    /// Returns the number of requests that it has taken in and not answered yet.
    pub fn in_flight(&self) -> usize {
        let places = self.most.min(Semaphore::MAX_PERMITS);
        places.saturating_sub(self.admission.available_permits())
    }

    /// Returns its definition, without waiting.
    ///
    /// # Errors
    ///
    /// Fails if it does not serve.
    pub fn definition(&self) -> Result<Arc<D>> {
        self.definition.load_full().ok_or_else(|| {
            let known = D::KNOWN;
            if self.phase() == Phase::Retired {
                Error::new(ErrorKind::NotFound, format!("{known} is retired"))
            } else {
                Error::new(ErrorKind::NotLoaded, format!("{known} is not loaded yet"))
            }
        })
    }

    /// Returns its definition; waits while it is about to be checked, up to a limit.
    ///
    /// # Errors
    ///
    /// Fails if it does not serve by then.
    pub async fn wait(&self, limit: Duration) -> Result<Arc<D>> {
        let mut phase = self.phase.subscribe();
        let settled = phase.wait_for(|phase| !phase.is_passing());
        // A time limit that passes and a check that fails end in the same answer.
        drop(tokio::time::timeout(limit, settled).await);
        self.definition()
    }

    /// Takes a request in.
    ///
    /// # Errors
    ///
    /// Fails if there are as many as allowed.
    pub fn admit(&self) -> Result<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.admission).try_acquire_owned();
        permit.map_err(|_| {
            let (plain, most) = (D::PLAIN, self.most);
            overloaded(format_args!(
                "requests to the {plain} in flight: {most}, the most allowed"
            ))
        })
    }
}

impl<D> fmt::Debug for Live<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live")
            .field("name", &self.name)
            .field("phase", &*self.phase.borrow())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::{Live, Phase, PhaseEvent, Served, Status, VersionState};
    use crate::{error::ErrorKind, metrics::Metrics};

    struct Thing;

    impl Served for Thing {
        const KNOWN: &'static str = "Thing";
        const PLAIN: &'static str = "thing";

        async fn drain(self: Arc<Self>) {}
    }

    fn live(most: usize) -> Live<Thing> {
        Live::new("t", Metrics::off().reporter("t", 1), most)
    }

    #[tokio::test]
    async fn what_does_not_serve_says_why() {
        let live = live(1);
        let reported = |live: &Live<Thing>| live.definition().err().map(|e| e.to_string());
        assert_eq!(reported(&live).unwrap(), "Thing is not loaded yet");
        live.install(Arc::new(Thing));
        assert_eq!(live.phase(), Phase::Available);
        assert_eq!(reported(&live), None);
        live.handle(PhaseEvent::Reload);
        assert_eq!(
            reported(&live),
            None,
            "what serves goes on while it is checked"
        );
        live.refuse("a node is missing".to_owned());
        assert_eq!(reported(&live).unwrap(), "Thing is not loaded yet");
        assert_eq!(live.failure().unwrap().as_str(), "a node is missing");
        live.handle(PhaseEvent::Retire);
        assert_eq!(live.failure(), None);
        assert_eq!(reported(&live).unwrap(), "Thing is retired");
    }

    #[tokio::test]
    async fn what_serves_goes_on_after_a_failure_that_status_calls_report() {
        let live = live(1);
        live.fail("never loaded");
        assert_eq!(live.phase(), Phase::Failed);
        let failure = Some("never loaded".into());
        assert_eq!(
            live.status(),
            Status {
                failure,
                ..Phase::Failed.status()
            }
        );
        live.handle(PhaseEvent::Reload);
        live.install(Arc::new(Thing));
        assert!(!live.has_failed());
        live.handle(PhaseEvent::Reload);
        live.fail("broken");
        assert!(live.definition().is_ok() && live.has_failed());
        assert_eq!(live.status(), Status::kept("broken"));
        // While it is tried again as well.
        live.handle(PhaseEvent::Reload);
        assert_eq!(live.status(), Status::kept("broken"));
        live.install(Arc::new(Thing));
        assert_eq!(live.status(), Status::ok(VersionState::Available));
        live.handle(PhaseEvent::Reload);
        live.fail("broken again");
        live.handle(PhaseEvent::Retire);
        assert_eq!(live.status(), Status::ok(VersionState::End));
        assert!(!live.has_failed());
    }

    #[tokio::test]
    async fn a_wait_ends_with_the_check() {
        let live = Arc::new(live(1));
        let waits = {
            let live = Arc::clone(&live);
            async move { live.wait(Duration::from_secs(60)).await }
        };
        let checks = async { live.handle(PhaseEvent::ValidationFailed) };
        let (waited, ()) = tokio::join!(waits, checks);
        assert_eq!(waited.err().unwrap().kind(), ErrorKind::NotLoaded);
    }

    #[test]
    fn no_more_are_taken_in_than_allowed() {
        let live = live(1);
        let place = live.admit().unwrap();
        let refused = live.admit().unwrap_err();
        assert_eq!(
            refused.message(),
            "Server is overloaded - requests to the thing in flight: 1, the most allowed; try \
             again later"
        );
        drop(place);
        assert!(live.admit().is_ok());
    }
}
