//! TensorFlow Serving over gRPC.
//!
//! [`Wire`] sends; `message` writes requests and reads answers.

mod message;
mod wire;

pub(super) use message::{message, spec};
pub(super) use wire::{Reply, SIGNATURES, Wire};
