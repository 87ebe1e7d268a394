//! A pipeline as it is served: a name, its state, and what it runs at the moment.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::{
    definition::{Definition, Limits, NOT_LOADED},
    state::{Event, Phase},
};
use crate::{
    error::{Error, ErrorKind, Result},
    metrics::Reporter,
    model::{State, Status, decoding::Decoding},
    openvino::SlotInput,
    request::InferRequest,
    servable::ServableInfo,
    task::Task,
};

/// The version that pipelines say they have.
pub const VERSION: i64 = 1;

/// A pipeline as it is served.
#[derive(Debug)]
pub struct Pipeline {
    name: Arc<str>,
    phase: watch::Sender<Phase>,
    definition: ArcSwapOption<Definition>,
    reporter: Arc<Reporter>,
    admission: Arc<Semaphore>,
    decoding: Decoding,
    limits: Limits,
}

impl Pipeline {
    /// Makes a pipeline that has not been checked yet.
    #[must_use]
    pub fn new(name: &str, reporter: Arc<Reporter>, limits: Limits) -> Arc<Self> {
        reporter.serves_pipeline();
        Arc::new(Self {
            name: name.into(),
            phase: watch::Sender::new(Phase::Begin),
            definition: ArcSwapOption::empty(),
            reporter,
            decoding: Decoding::new(limits.image_pixels, limits.requests),
            admission: Arc::new(Semaphore::new(limits.requests.min(Semaphore::MAX_PERMITS))),
            limits,
        })
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the figures.
    #[must_use]
    pub fn reporter(&self) -> &Arc<Reporter> {
        &self.reporter
    }

    /// Returns how much may go on at once.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns where it stands.
    #[must_use]
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Returns what status calls say: what serves is available, also while it is checked again.
    #[must_use]
    pub fn status(&self) -> Status {
        if self.definition.load().is_some() {
            Status::ok(State::Available)
        } else {
            self.phase().status()
        }
    }

    /// Takes note of what happens; one that does not happen in this state is not heeded.
    pub fn handle(&self, event: Event) {
        let Some(phase) = self.phase().after(event) else {
            return;
        };
        tracing::info!(
            "Pipeline: {} state changed to: {phase} after handling: {event}: ",
            self.name
        );
        self.phase.send_replace(phase);
        // After that: who finds nothing to run finds why.
        if matches!(phase, Phase::Failed | Phase::Retired) {
            self.put(None);
        }
    }

    /// Puts a definition that has passed the check in the place of the present one, which goes when
    /// its last request has left. Needs a runtime.
    pub fn install(&self, definition: Arc<Definition>) {
        self.put(Some(definition));
        self.handle(Event::ValidationPassed);
    }

    fn put(&self, definition: Option<Arc<Definition>>) {
        if let Some(old) = self.definition.swap(definition) {
            Task::spawn(old.drain()).detach();
        }
    }

    /// Lets go of what it runs, and waits until its requests have left and its custom nodes are gone.
    pub async fn close(&self) {
        if let Some(old) = self.definition.swap(None) {
            old.drain().await;
        }
    }

    /// Returns what it runs, without waiting.
    ///
    /// # Errors
    ///
    /// Fails if it does not serve.
    pub fn definition(&self) -> Result<Arc<Definition>> {
        self.definition.load_full().ok_or_else(|| {
            if self.phase() == Phase::Retired {
                Error::new(ErrorKind::NotFound, "Pipeline is retired")
            } else {
                Error::new(ErrorKind::NotLoaded, NOT_LOADED)
            }
        })
    }

    /// Returns what it runs; waits while it is about to be checked, up to a limit.
    ///
    /// # Errors
    ///
    /// Fails if it does not serve by then.
    pub async fn wait(&self, limit: Duration) -> Result<Arc<Definition>> {
        let mut phase = self.phase.subscribe();
        let settled = phase.wait_for(|phase| !phase.is_passing());
        // A time limit that passes and a check that fails end in the same answer.
        drop(tokio::time::timeout(limit, settled).await);
        self.definition()
    }

    /// Judges a request by these inputs and outputs, as one to a model is.
    ///
    /// # Errors
    ///
    /// Fails with the first fault.
    pub(crate) async fn judge(
        &self,
        info: &ServableInfo,
        request: InferRequest,
    ) -> Result<(Vec<SlotInput>, Vec<usize>)> {
        self.decoding.judge(info, request).await
    }

    /// Takes a request in.
    ///
    /// # Errors
    ///
    /// Fails if there are as many as allowed.
    pub fn admit(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.admission)
            .try_acquire_owned()
            .map_err(|_| {
                Error::new(
                    ErrorKind::Overloaded,
                    format!(
                        "Server is overloaded - requests to the pipeline under way: {}, the most \
                         allowed; try again later",
                        self.limits.requests
                    ),
                )
            })
    }
}
