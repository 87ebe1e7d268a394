//! Inferences that may take only so long.

use std::time::Duration;

use openvino::InferenceErrorKind;

use super::{
    ffi::InferRequest,
    slot_error::{INFER, SlotError, runtime},
};

/// Maximum time that a cancelled inference may take to end.
const MAX_CANCEL_TIME: Duration = Duration::from_millis(500);

/// Time limit of an inference, and the callback for when it passes.
pub(super) struct Limit<'a> {
    pub(super) after: Duration,
    pub(super) passed: &'a mut dyn FnMut(Late),
}

impl Limit<'_> {
    /// Returns the same limit, for an inference before that which it is for.
    pub(super) fn again(&mut self) -> Limit<'_> {
        Limit {
            after: self.after,
            passed: &mut *self.passed,
        }
    }
}

/// Event of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Late {
    /// The time limit has passed. The inference is cancelled next.
    Over,
    /// The inference does not end although cancelled.
    Stuck,
}

/// Waits for the end of an inference for at most so long; `None` if it goes on.
fn wait(request: &mut InferRequest, most: Duration) -> Option<Result<(), SlotError>> {
    let most = i64::try_from(most.as_millis()).unwrap_or(i64::MAX);
    match request.wait(most) {
        Err(error) if error.kind == InferenceErrorKind::ResultNotReady => None,
        ended => Some(ended.map_err(runtime(INFER))),
    }
}

/// Runs an inference that may take only so long; returns when it has ended, however long it takes.
pub(super) fn infer_within(request: &mut InferRequest, limit: Limit<'_>) -> Result<(), SlotError> {
    request.infer_async().map_err(runtime(INFER))?;
    if let Some(ended) = wait(request, limit.after) {
        return ended;
    }
    (limit.passed)(Late::Over);
    // Whether it can be cancelled is seen by whether it ends.
    let _ = request.cancel();
    if wait(request, MAX_CANCEL_TIME).is_none() {
        (limit.passed)(Late::Stuck);
        while wait(request, Duration::from_secs(3600)).is_none() {}
    }
    Err(SlotError::Timeout(limit.after))
}

/// Runs an inference, and waits for at most so long; it may go on after an error.
pub(super) fn infer_for(request: &mut InferRequest, most: Duration) -> Result<(), SlotError> {
    request.infer_async().map_err(runtime(INFER))?;
    wait(request, most).unwrap_or(Err(SlotError::Timeout(most)))
}
