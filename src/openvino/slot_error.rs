//! Errors of an inference, with the step of the runtime that failed.

use std::time::Duration;

use openvino::{ElementType, InferenceError};

use super::{ffi, runtime_error::OpenVinoError};
use crate::error::Error;

/// Error of an inference.
#[derive(Debug, thiserror::Error)]
pub enum SlotError {
    /// The runtime refused or failed.
    #[error("OpenVINO failed to {step}")]
    Runtime {
        /// Step that failed.
        step: &'static str,
        /// Error from the runtime.
        #[source]
        source: OpenVinoError,
    },
    /// The inference has exceeded its time limit.
    #[error("the inference takes longer than inference_timeout_ms, {} ms", .0.as_millis())]
    Timeout(Duration),
    /// An input could not be read from shared memory, which is the client's.
    #[error(transparent)]
    Region(Error),
    /// Another inference has failed meanwhile, so that the outputs may be wrong; the state is as it was, unless it is that of
    /// an infer request.
    #[error("an inference failed meanwhile, which may have spoilt this one")]
    Doubtful,
    /// The state is gone with the infer request that had it.
    #[error(
        "the state was within a compiled model that has to be replaced, since an inference before failed"
    )]
    Lost,
    /// Any other error: strings do not get into a tensor or out of it, or a check before this one was
    /// skipped.
    #[error(transparent)]
    Other(#[from] Error),
}

impl SlotError {
    /// Returns whether an inference broke off, so that it may have left shapes half updated.
    pub(super) fn is_of_inference(&self) -> bool {
        match self {
            Self::Runtime { step, .. } => *step == INFER,
            Self::Timeout(_) => true,
            _ => false,
        }
    }

    /// Returns the reason for a client: without paths, and in one line.
    pub fn reason(&self) -> String {
        match self {
            Self::Runtime { source, .. } => source.reason(),
            other => other.to_string(),
        }
    }
}

/// Name of the step that is the inference itself.
pub(super) const INFER: &str = "infer";

/// Makes a tensor of a shape, all zeros.
pub(super) fn new_tensor(element: ElementType, shape: &[usize]) -> Result<ffi::Tensor, SlotError> {
    ffi::Tensor::zeros(element, shape).map_err(runtime("make an input tensor"))
}

/// Names the step at which the runtime failed.
pub(super) fn runtime(step: &'static str) -> impl Fn(InferenceError) -> SlotError {
    move |error| SlotError::Runtime {
        step,
        source: error.into(),
    }
}
