//! Errors of sequences in terms of the command line.

use ovms::client::{
    ClientError,
    sequence::{SequenceError, StepsError},
};

use crate::{error::Failure, infer::failure};

/// Hint if the server seems to ignore sequences.
pub(super) const STATEFUL: &str = "is the model served with `--stateful`?";

/// Errors of servers, and the next step for each.
const REFUSALS: [(&str, &str); 6] = [
    (
        "Max sequence number has been reached",
        "`--max_sequence_number` of the server sets the limit; sequences that are left alone end \
         after a while",
    ),
    (
        "Sequence with provided ID already exists",
        "choose another `--sequence-id`, or leave it out and a random one is taken",
    ),
    (
        "Sequence with provided ID does not exist",
        "it has ended or was left alone for too long, or it is of another version of the model; \
         `--start` starts one",
    ),
    (
        "it's not available anymore",
        "its last request is being answered; the id is free after that",
    ),
    ("Invalid number of inputs", STATEFUL),
    ("Unexpected input", STATEFUL),
];

/// Returns the failure of a step.
pub(super) fn step(error: SequenceError) -> Failure {
    let error = match error {
        SequenceError::Client(error) => error,
        SequenceError::NoId => {
            return Failure::failed(error.to_string())
                .hint(STATEFUL)
                .hint("with `--sequence-id` the answers are shown all the same");
        }
    };
    let hint = match &error {
        ClientError::Refused(refusal) => REFUSALS
            .iter()
            .find(|(text, _)| refusal.message.contains(text)),
        _ => None,
    };
    let failure = failure::client(error);
    match hint {
        Some((_, hint)) => failure.hint(*hint),
        None => failure,
    }
}

/// Returns the failure for inputs without steps.
pub(in crate::infer) fn steps(error: &StepsError) -> Failure {
    let failure = Failure::usage(error.to_string());
    match error {
        StepsError::Empty { .. } => failure.hint("a sequence has one step at least"),
        StepsError::Shape { name, .. } => failure
            .hint(format!(
                "`--axis` names another axis; `-i {name}::SHAPE=…` gives a shape"
            ))
            .hint("what has the model's own shape goes with every step"),
        StepsError::Disagree { .. } => {
            failure.hint("what has the model's own shape, or one step, goes with every step")
        }
        StepsError::None => failure.hint(
            "give one of them an axis of steps; `--start`, `--continue` and `--end` send single \
             steps",
        ),
        StepsError::NotANumber { .. } => failure
            .hint("replace it; `--start`, `--continue` and `--end` send single steps as they are"),
    }
}
