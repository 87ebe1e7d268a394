//! KServe v2 over REST, with the binary tensor extension both ways.
//!
//! [`Wire`] sends; `body` writes requests and reads answers.

mod body;
mod wire;

pub(super) use body::request;
pub(super) use wire::{Reply, Wire, segments};
