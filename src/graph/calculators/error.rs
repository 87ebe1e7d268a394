//! Errors of nodes, in the terms of the framework that graphs were written for.

use crate::error::{Error, ErrorKind};

/// Kind of an error: those of Abseil's status codes that graphs have, whose names appear in messages
/// to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AbseilCode {
    /// Invalid input.
    #[error("INVALID_ARGUMENT")]
    InvalidArgument,
    /// Missing resource.
    #[error("NOT_FOUND")]
    NotFound,
    /// State of the graph does not allow it.
    #[error("FAILED_PRECONDITION")]
    FailedPrecondition,
    /// Out of resources.
    #[error("RESOURCE_EXHAUSTED")]
    ResourceExhausted,
    /// Out of range.
    #[error("OUT_OF_RANGE")]
    OutOfRange,
    /// Internal error.
    #[error("INTERNAL")]
    Internal,
    /// Currently unavailable.
    #[error("UNAVAILABLE")]
    Unavailable,
    /// The process of the node has ended.
    #[error("ABORTED")]
    Aborted,
    /// No room for tensors at the moment.
    #[error("RESOURCE_EXHAUSTED")]
    NoRoom,
    /// Tensors for which there is never room.
    #[error("RESOURCE_EXHAUSTED")]
    TooLarge,
}

/// Error of a node or of a stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct GraphRunError {
    /// Kind.
    pub code: AbseilCode,
    /// Message.
    pub message: String,
}

/// Cause of the error of a unary request that lacks an input of its graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a request without a stream needs all inputs of the graph: {}", .expected.join(", "))]
pub(in crate::graph) struct MissingInputs {
    /// Inputs of the graph.
    pub(in crate::graph) expected: Vec<String>,
}

/// Step of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CalculatorStep {
    /// `Open`
    Open,
    /// `Process`
    Process,
    /// `Close`
    Close,
}

impl GraphRunError {
    /// Creates an error.
    pub fn new(code: AbseilCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// Creates an error about invalid input.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(AbseilCode::InvalidArgument, message)
    }

    /// Creates an internal error.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(AbseilCode::Internal, message)
    }

    /// Adds the step and node where it happened.
    #[must_use]
    pub fn of_node(self, step: CalculatorStep, node: &str) -> Self {
        // A step is written as its variant.
        let message = format!(
            "Calculator::{step:?}() for node \"{node}\" failed: {}",
            self.message
        );
        Self { message, ..self }
    }

    /// Merges the errors of a run into one, with the code of the first; `None` if there are none.
    pub fn of_run(errors: &[Self]) -> Option<Self> {
        let first = errors.first()?;
        let reported: Vec<&str> = errors.iter().map(|error| error.message.as_str()).collect();
        Some(Self {
            code: first.code,
            message: format!("CalculatorGraph::Run() failed: \n{}", reported.join("\n")),
        })
    }
}

/// Converts the error of a rejected packet.
pub(in crate::graph) fn not_added(error: &GraphRunError) -> Error {
    let message = format!("Failed to add packet to mediapipe graph input stream - {error}");
    Error::new(ErrorKind::FailedPrecondition, message)
}

/// Converts the error of a failed run.
pub(in crate::graph) fn explain(error: &GraphRunError) -> Error {
    if error.code == AbseilCode::FailedPrecondition {
        let text = format!("Mediapipe graph precondition failed - {error}");
        return Error::new(ErrorKind::FailedPrecondition, text);
    }
    let kind = match error.code {
        // Whatever the request is, and although the graph is there.
        AbseilCode::Aborted => ErrorKind::Overloaded,
        AbseilCode::NoRoom => ErrorKind::Exhausted,
        AbseilCode::TooLarge => ErrorKind::TooLarge,
        _ => ErrorKind::InvalidArgument,
    };
    let explained = Error::new(
        kind,
        format!("Mediapipe execution failed. MP status - {error}"),
    )
    .with_source(error.clone());
    match error.code {
        // A node has failed by itself, not because of the client's request.
        AbseilCode::Internal | AbseilCode::Aborted => explained.within(),
        _ => explained,
    }
}

/// Returns whether a unary request lacked an input of its graph.
pub fn lacks_inputs(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    source.is_some_and(|source| source.is::<MissingInputs>())
}

#[cfg(test)]
mod tests {
    use super::{CalculatorStep, GraphRunError, MissingInputs, lacks_inputs};
    use crate::error::Error;

    #[test]
    fn a_request_that_lacks_inputs_is_recognized_by_its_cause() {
        let expected = vec!["in".to_owned(), "txt".to_owned()];
        let text = "Invalid number of inputs - Not all input packets created - missing: in";
        let alike = Error::invalid(text);
        assert!(!lacks_inputs(&alike));
        assert!(lacks_inputs(&alike.with_source(MissingInputs { expected })));
    }

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
