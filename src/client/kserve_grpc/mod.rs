//! KServe v2 over gRPC.
//!
//! [`Wire`] sends; `message` writes requests and reads answers. An inference is encoded here and
//! not by the generated client, so that a load test encodes it once.

mod message;
mod wire;

pub(super) use message::answer;
pub(super) use wire::{Call, Wire};
