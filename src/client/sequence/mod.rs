//! Steps of sequences of requests to models that remember; [`session`](super::session) sends them.
//!
//! [`Steps`] cuts inputs into steps, and [`Stack`] puts the outputs of all steps together again.

mod stack;
mod steps;

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
