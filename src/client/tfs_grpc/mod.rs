//! TensorFlow Serving over gRPC.
//!
//! [`Wire`] sends; `message` writes requests and reads answers.

mod message;
mod wire;

pub(super) use message::{answer, message, spec};
pub(super) use wire::{Call, Reply, SIGNATURES, Wire};
