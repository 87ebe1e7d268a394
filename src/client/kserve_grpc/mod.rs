//! KServe v2 over gRPC.
//!
//! [`Wire`] sends; `message` writes requests and reads answers, `stream` has many of both.

mod message;
mod stream;
mod wire;

pub(super) use message::message;
pub(super) use stream::{Answers, Requests};
pub(super) use wire::{Wire, index};
