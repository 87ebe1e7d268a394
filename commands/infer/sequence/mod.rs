//! `ovms infer` for stateful models: a whole sequence, or single requests of one.
//!
//! [`SequenceArgs`] are the flags as typed and [`Sequence`] is their meaning. `run` sends the steps,
//! one after another, and shows their outputs, and `state` has the files with the state; the sequence is ended on the server
//! whatever happens in between.

mod again;
mod plan;
mod run;
mod state;

use std::{io, time::Duration};

use ovms::client::{ClientError, sequence::StepsError, session::SequenceError};
use tokio::sync::watch;

use super::call_failure;
use crate::{error::Failure, stopped::Signals};

pub(crate) use again::again_alone;
pub(super) use plan::{Plan, Sequence, SequenceArgs};
pub(super) use run::{Whole, Writer, one, run};

/// Time limit for ending a sequence after an error, or at Ctrl-C.
const PATIENCE: Duration = Duration::from_secs(5);

/// Receiver of the stop request.
#[derive(Debug, Clone)]
pub(in crate::infer) struct Stop(watch::Receiver<bool>);

/// Listener for Ctrl-C.
#[derive(Debug)]
pub(in crate::infer) struct Keys {
    stop: watch::Sender<bool>,
    signals: Signals,
}

/// Starts listening.
pub(in crate::infer) fn listen() -> io::Result<(Keys, Stop)> {
    let (pressed, stop) = watch::channel(false);
    let keys = Keys {
        stop: pressed,
        signals: Signals::listen()?,
    };
    Ok((keys, Stop(stop)))
}

impl Keys {
    /// Waits until waiting is over: at the second Ctrl-C, or at the time limit.
    async fn give_up(&mut self) {
        self.pressed().await;
        self.stop.send_replace(true);
        tokio::select! {
            () = self.pressed() => {}
            () = tokio::time::sleep(PATIENCE) => {}
        }
    }

    /// Waits for Ctrl-C, or SIGTERM.
    pub(in crate::infer) async fn pressed(&mut self) {
        self.signals.next().await;
    }
}

impl Stop {
    /// Waits until Ctrl-C is pressed.
    async fn asked(&mut self) {
        if self.0.wait_for(|pressed| *pressed).await.is_err() {
            // Nobody waits for keys any more.
            std::future::pending::<()>().await;
        }
    }
}

/// Hint if the server seems to ignore sequences.
const STATEFUL: &str = "is the model served with `--stateful`?";

/// Errors of a server's store after which a sequence is as it was stored.
const FULL_STORE: &str = "Sequence store is full";
const STORE_AWAY: &str = "Sequence store is not available";

/// Error of a server's store after which nothing is left of a sequence.
const DAMAGED_STORE: &str = "Sequence store is damaged";

/// Errors of servers, and the next step for each.
const REFUSALS: [(&str, &str); 10] = [
    (
        "state_mode of the model is requests",
        "leave `state_mode` out of its configuration, or set it to `tensors`; if its log says why it has to be `requests`, \
         states of this model cannot be saved",
    ),
    (
        "Max sequence number has been reached",
        "`--max-sequence-number` of the server sets the limit; idle sequences end after a while",
    ),
    (
        "Sequence with provided ID already exists",
        "choose another `--sequence-id`, or omit it to get a random one",
    ),
    (
        "its stored state may be older than its last answer",
        "a server stopped before storing it; with `--sequence-durability step`, the server stores each state before \
         it answers; `--start` starts a new sequence",
    ),
    (
        "Sequence with provided ID does not exist",
        "it has ended, was idle for too long, or belongs to another version of the model; `--start` starts a new one",
    ),
    (
        "it's not available anymore",
        "its last request is being answered; the id is free after that",
    ),
    (
        FULL_STORE,
        "make room in the server's store; until then no step can be stored",
    ),
    (
        DAMAGED_STORE,
        "its state can no longer be read; without `--continue` it starts again",
    ),
    ("Invalid number of inputs", STATEFUL),
    ("Unexpected input", STATEFUL),
];

/// Returns the failure of a step.
fn explain_step(error: SequenceError) -> Failure {
    let error = match error {
        SequenceError::Client(error) => error,
        SequenceError::NoId => {
            return Failure::failed(error.to_string()).hint(STATEFUL);
        }
    };
    let hint = match &error {
        ClientError::Refused(refusal) => REFUSALS
            .iter()
            .find(|(text, _)| refusal.message.contains(text)),
        _ => None,
    };
    let failure = call_failure::client(error);
    match hint {
        Some((_, hint)) => failure.hint(*hint),
        None => failure,
    }
}

/// Returns the failure for inputs without steps.
pub(crate) fn explain_steps(error: &StepsError) -> Failure {
    let failure = Failure::usage(error.to_string());
    match error {
        StepsError::Empty { .. } => failure.hint("a sequence has at least one step"),
        StepsError::Shape { name, rest, .. } => failure
            .may_hint(rest.map(|rest| rest.to_string()))
            .hint(format!(
                "`--axis` names another axis; `-i {name}::SHAPE=…` gives a shape"
            ))
            .hint("inputs of the model's own shape are sent with every step"),
        StepsError::Disagree { .. } => failure
            .hint("inputs of the model's own shape, or of one step, are sent with every step"),
        StepsError::None => failure.hint(
            "give one of them an axis of steps; `--start`, `--continue` and `--end` send single \
             steps",
        ),
        StepsError::NotANumber { .. } => failure
            .hint("replace it; `--start`, `--continue` and `--end` send single steps as they are"),
    }
}
