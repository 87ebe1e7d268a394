//! The states that a model version goes through, as status calls report them.

use std::sync::Arc;

/// State in the life of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VersionState {
    /// Known, nothing done yet.
    Start,
    /// Being loaded, or failed to load.
    Loading,
    /// Serving.
    Available,
    /// Waiting for in-flight requests.
    Unloading,
    /// Unloaded.
    End,
}

/// Outcome of the last step of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionErrorCode {
    /// Well.
    Ok,
    /// Not well; the log and the message have the reason.
    Unknown,
    /// A part of a pipeline is not as the pipeline needs it; the log says which.
    FailedPrecondition,
}

impl VersionErrorCode {
    /// Returns the code's name, which is also what status calls say where there is no more to say.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Unknown => "UNKNOWN",
            Self::FailedPrecondition => "FAILED_PRECONDITION",
        }
    }
}

/// State and outcome of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Present state.
    pub state: VersionState,
    /// Outcome of the last step.
    pub code: VersionErrorCode,
    /// Cause of the failure, if there was one and it is known.
    pub failure: Option<Arc<str>>,
    /// Indicates that a failed load is being retried, so that its outcome can still be waited for.
    pub is_retried: bool,
}

impl Status {
    /// A state with nothing wrong.
    pub const fn ok(state: VersionState) -> Self {
        Self {
            state,
            code: VersionErrorCode::Ok,
            failure: None,
            is_retried: false,
        }
    }

    /// A load that failed, and why.
    pub fn failed(failure: &str) -> Self {
        Self {
            state: VersionState::Loading,
            ..Self::kept(failure)
        }
    }

    /// A version that keeps serving, since its replacement failed.
    pub fn kept(failure: &str) -> Self {
        Self {
            state: VersionState::Available,
            code: VersionErrorCode::Unknown,
            failure: Some(failure.into()),
            is_retried: false,
        }
    }

    /// A load that begins after this; one that failed keeps its reason until the outcome is known.
    #[must_use]
    pub fn loading(&self) -> Self {
        match (self.state, self.code) {
            (VersionState::Loading, VersionErrorCode::Unknown) => Self {
                is_retried: true,
                ..self.clone()
            },
            _ => Self::ok(VersionState::Loading),
        }
    }

    /// Returns whether a load may still end well: it has not failed, or is being tried again.
    #[must_use]
    pub fn is_undecided(&self) -> bool {
        self.state <= VersionState::Loading
            && (self.code == VersionErrorCode::Ok || self.is_retried)
    }

    /// Returns the message of status calls; never empty.
    pub fn message(&self) -> &str {
        self.failure.as_deref().unwrap_or(self.code.name())
    }
}
