//! Sequences of requests to models that remember: one session after another, step by step.
//!
//! A [`SequenceClient`] starts a sequence, sends its steps one at a time and ends it, in whichever form the
//! wire has for that: request parameters over KServe, special inputs over TensorFlow Serving. Each
//! request has the id in a header as well ([`SEQUENCE`](super::SEQUENCE)), for proxies.
//! [`Steps`] cuts inputs into steps, and [`Stack`] puts the outputs of all steps together again.

mod session;
mod stack;
mod steps;

pub use session::{SequenceClient, SequenceError, StepControl, mark, random_id, random_key};
pub use stack::{Stack, StackError};
pub use steps::{StepRest, Steps, StepsError, check_numbers};

/// The input, request parameter and output that says which sequence a request is of.
pub const ID: &str = "sequence_id";

/// The input that starts and ends a sequence.
pub const CONTROL: &str = "sequence_control_input";

/// The request parameters that start and end a sequence.
pub const START: &str = "sequence_start";
/// See [`START`].
pub const END: &str = "sequence_end";
