//! The stateless path: check, run on a slot, shape the answer.

use std::{sync::Arc, time::Duration};

use super::{loaded::Loaded, overloaded, resize, version::Version};
use crate::{
    budget::{Budget, OVERHEAD},
    error::{Error, ErrorKind, Result, chain},
    metrics::{RequestRecord, RunEnd, Times},
    openvino::{Hold, RunError, SlotError, SlotQueue, Work},
    request::InferRequest,
    task,
    tensor::{Tensor, TensorMap, strings},
};

impl Version {
    /// Runs one inference on what a request has found; if shapes are `auto`, on what is loaded for
    /// the request's. It counts as a run in the figures of `call`; returns the outputs and when the
    /// run ended.
    ///
    /// # Errors
    ///
    /// Fails if the request does not fit the model, no slot comes free, or the runtime fails.
    pub async fn infer(
        self: &Arc<Self>,
        loaded: &Arc<Loaded>,
        request: InferRequest,
        call: &RequestRecord,
    ) -> Result<(TensorMap, RunEnd)> {
        let resized;
        let (loaded, work) = match resize::asked(loaded, &request) {
            None => {
                let validated = loaded.decoding.validate(&loaded.info, request, call);
                (loaded, validated.await?)
            }
            // In a box, so that requests to other models do not carry room for it.
            Some(_) => {
                let (fit, work) = Box::pin(self.fitted(loaded, request, call)).await?;
                resized = fit;
                (&resized, work)
            }
        };
        let ports = work.wanted.clone();
        let run = self.run_ports(loaded, work, call, SlotQueue::Bounded);
        let (outputs, times) = run.await?;
        Ok((loaded.named(ports, outputs).await?, times.end()))
    }

    /// Validates a request for what is loaded for its shapes, which is loaded first if there is no such thing.
    async fn fitted(
        self: &Arc<Self>,
        loaded: &Arc<Loaded>,
        request: InferRequest,
        call: &RequestRecord,
    ) -> Result<(Arc<Loaded>, Work)> {
        let mut loaded = Arc::clone(loaded);
        loop {
            let Some((info, asked)) = resize::asked(&loaded, &request) else {
                let validated = loaded.decoding.validate(&loaded.info, request, call);
                let work = validated.await?;
                return Ok((loaded, work));
            };
            // Validated as if it were loaded: a request that does not fit itself loads nothing.
            let validated = loaded.decoding.validate(&info, request.clone(), call);
            let work = validated.await?;
            let resized = self.resize(&asked).await?;
            if info.is_same_but_for_shapes(&resized.info) {
                return Ok((resized, work));
            }
            // Another model is there by now, so the request is validated again.
            loaded = resized;
        }
    }

    /// Runs validated inputs, and returns the outputs as they are, by port; once more if a failed
    /// inference of another request was in its way.
    pub(crate) async fn run_ports(
        self: &Arc<Self>,
        loaded: &Arc<Loaded>,
        work: Work,
        call: &RequestRecord,
        queue: SlotQueue,
    ) -> Result<(Vec<Tensor>, Times)> {
        let failed = match loaded.run(work, (), call, queue).await {
            Ok(done) => return Ok(done),
            Err(failed) => failed,
        };
        // In a box, so that requests that succeed do not carry room for it.
        let repeated = Box::pin(async {
            let (fresh, work) = self.recover(loaded, failed).await?;
            let ran = fresh.run(work, (), call, queue).await;
            self.tend(&fresh);
            ran
        });
        repeated.await.map_err(|failed| loaded.explain(failed))
    }
}

impl Loaded {
    /// Turns the failure of a run into an error for the client, and logs it if it is one of the model's.
    pub(crate) fn explain(&self, failed: Failed) -> Error {
        let is_late = failed.is_late();
        let error = failed.explain(self.spec.options.hide_errors);
        let model = self.runner.model();
        if is_late {
            tracing::warn!(model, "{}", chain(&error));
        } else if error.kind() == ErrorKind::Internal {
            tracing::error!(model, "{}", chain(&error));
        }
        error.logged()
    }

    /// Runs validated inputs, and returns the outputs as they are, by port; `hold` lives until the run
    /// has ended, even if nobody waits for it any more.
    pub(crate) async fn run(
        &self,
        work: Work,
        hold: impl Hold,
        call: &RequestRecord,
        queue: SlotQueue,
    ) -> Result<(Vec<Tensor>, Times), Failed> {
        let budget = call.budget(self.decoding.budget());
        // What the outputs take is known before the run, where shapes show it.
        let expected = budget.charge(self.fixed_outputs).map_err(Failed::Outputs)?;
        let ran = self.runner.infer(work, hold, call, queue).await;
        let (outputs, times) = ran.map_err(Failed::Run)?;
        drop(expected);
        let outputs = self.charged(outputs, budget).map_err(Failed::Outputs)?;
        Ok((outputs, times))
    }

    /// Charges the outputs of a run. A step of a sequence cannot be taken back, so that its outputs
    /// are charged whatever is left.
    fn charged(&self, outputs: Vec<Tensor>, budget: &Budget) -> Result<Vec<Tensor>> {
        let charged = |tensor: Tensor| {
            let bytes = tensor.data().len() + OVERHEAD;
            let charge = match self.is_stateful() {
                true => budget.take(bytes),
                false => budget.charge(bytes)?,
            };
            Ok(tensor.charged(charge))
        };
        outputs.into_iter().map(charged).collect()
    }

    /// Gives outputs their names, and turns those that are rows of bytes into strings.
    pub(super) async fn named(&self, ports: Vec<usize>, outputs: Vec<Tensor>) -> Result<TensorMap> {
        let name = |port| {
            let mut known = self.info.outputs.iter();
            let known = known.find(|output| output.port == port);
            known.map_or("", |output| &output.name).to_owned()
        };
        // With room for the id of a sequence.
        let mut named = TensorMap::with_capacity(ports.len() + 1);
        named.extend(ports.into_iter().map(name).zip(outputs));
        let outputs = named;
        let size = strings::rows_size(&outputs);
        if size == 0 {
            return Ok(outputs);
        }
        let unpad = || strings::unpad_all(outputs);
        let unpadded = task::sized("unpad strings", size, unpad).await;
        unpadded.map_err(|error| Error::internal("Internal serialization error").with_source(error))
    }

    /// Returns the average duration of a run done in place; `None` if the worker threads do it.
    pub(crate) fn in_place(&self) -> Option<Duration> {
        self.runner.in_place()
    }
}

/// Error of a validated request.
pub(crate) enum Failed {
    /// No run, or one that failed.
    Run(RunError),
    /// The outputs of the run make no valid response.
    Outputs(Error),
}

impl Failed {
    /// Returns whether an inference did not end well, or would not.
    pub(crate) fn broke_off(&self) -> bool {
        match self {
            Self::Run(RunError::Slot(SlotError::Region(_))) => false,
            Self::Run(error) => matches!(
                error,
                RunError::Slot(_)
                    | RunError::Shapes(_)
                    | RunError::Spoilt(Some(_), _)
                    | RunError::Lost
            ),
            Self::Outputs(_) => false,
        }
    }

    /// Returns whether the state is as it was: nothing has run, or nothing came of it.
    pub(crate) fn is_before_run(&self) -> bool {
        matches!(self, Self::Run(RunError::Spoilt(..) | RunError::Shapes(_)))
    }

    /// Returns the failure of a step that cannot be repeated elsewhere, since its state cannot leave the compiled model.
    pub(crate) fn without_state(self) -> Self {
        match self {
            Self::Run(RunError::Spoilt(Some(error), _)) => Self::Run(error.into()),
            Self::Run(RunError::Spoilt(None, _)) => Self::lost(),
            failed => failed,
        }
    }

    /// Makes the failure of a step whose state was lost with a compiled model.
    pub(crate) fn lost() -> Self {
        Self::Run(RunError::Slot(SlotError::Lost))
    }

    /// Returns whether an inference took longer than the model may take.
    pub(crate) fn is_late(&self) -> bool {
        matches!(self, Self::Run(RunError::Slot(SlotError::Timeout(_))))
    }

    /// Turns the failure into an error for the client: with the runtime's reason, unless that is to
    /// be hidden. The cause stays for the log.
    fn explain(self, hide: bool) -> Error {
        let error = match self {
            Self::Outputs(error) | Self::Run(RunError::Slot(SlotError::Region(error))) => {
                return error;
            }
            Self::Run(error) => error,
        };
        let reason = match &error {
            RunError::Pool(error) => return overloaded(error),
            RunError::Spoilt(None, _) => return overloaded(&error),
            RunError::Slot(SlotError::Timeout(_)) => {
                let text = format!("Inference timed out - {error}");
                return Error::new(ErrorKind::DeadlineExceeded, text).within();
            }
            RunError::Slot(error) | RunError::Spoilt(Some(error), _) => error.reason(),
            RunError::Shapes(failure) => failure.reason(),
            RunError::Thread(_) | RunError::Lost => String::new(),
        };
        let text = "Internal inference error";
        if hide || reason.is_empty() {
            return Error::internal(text).with_source(error);
        }
        // The log has the text, so that the reason needs to be there once only.
        Error::internal(format!("{text} - {reason}"))
    }
}
