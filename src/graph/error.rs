//! What a node says when it fails, in the words of the framework that graphs were written for.

use std::fmt;

/// The kind of a fault: Abseil's status codes, whose names clients read in texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AbseilCode {
    /// Given up on the way.
    Cancelled,
    /// Nothing is known of it.
    Unknown,
    /// What was given is wrong.
    InvalidArgument,
    /// Too late.
    DeadlineExceeded,
    /// Something that is needed is not there.
    NotFound,
    /// It does not fit the state of the graph.
    FailedPrecondition,
    /// Too much at once.
    ResourceExhausted,
    /// Beyond what there is.
    OutOfRange,
    /// Not made.
    Unimplemented,
    /// A fault within.
    Internal,
    /// Not at the moment.
    Unavailable,
}

impl fmt::Display for AbseilCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cancelled => "CANCELLED",
            Self::Unknown => "UNKNOWN",
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Self::NotFound => "NOT_FOUND",
            Self::FailedPrecondition => "FAILED_PRECONDITION",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::OutOfRange => "OUT_OF_RANGE",
            Self::Unimplemented => "UNIMPLEMENTED",
            Self::Internal => "INTERNAL",
            Self::Unavailable => "UNAVAILABLE",
        })
    }
}

/// A fault of a node or of a stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct GraphRunError {
    /// The kind.
    pub code: AbseilCode,
    /// What is wrong.
    pub message: String,
}

/// What a node was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CalculatorStep {
    /// `Open`
    Open,
    /// `Process`
    Process,
    /// `Close`
    Close,
}

impl fmt::Display for CalculatorStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "Open",
            Self::Process => "Process",
            Self::Close => "Close",
        })
    }
}

impl GraphRunError {
    /// Makes a fault.
    #[must_use]
    pub fn new(code: AbseilCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// Makes a fault of what was given.
    #[must_use]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(AbseilCode::InvalidArgument, message)
    }

    /// Makes a fault within.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(AbseilCode::Internal, message)
    }

    /// Says in which step of which node it happened.
    #[must_use]
    pub fn of_node(self, step: CalculatorStep, node: &str) -> Self {
        let message = format!(
            "Calculator::{step}() for node \"{node}\" failed: {}",
            self.message
        );
        Self { message, ..self }
    }

    /// Puts the faults of a run into one, which has the code of the first; `None` if there is none.
    #[must_use]
    pub fn of_run(errors: &[Self]) -> Option<Self> {
        let first = errors.first()?;
        let reported: Vec<&str> = errors.iter().map(|error| error.message.as_str()).collect();
        Some(Self {
            code: first.code,
            message: format!("CalculatorGraph::Run() failed: \n{}", reported.join("\n")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{CalculatorStep, GraphRunError};

    #[test]
    fn texts_are_those_that_clients_know() {
        let error = GraphRunError::internal("Error occurred during graph execution");
        let error = error.of_node(CalculatorStep::Process, "py");
        assert_eq!(
            GraphRunError::of_run(&[error]).unwrap().to_string(),
            "INTERNAL: CalculatorGraph::Run() failed: \nCalculator::Process() for node \"py\" failed: \
             Error occurred during graph execution"
        );
        assert_eq!(GraphRunError::of_run(&[]), None);
    }
}
