//! TensorFlow Serving over REST, in the column format.
//!
//! [`Wire`] sends; `body` writes requests and reads answers. Answers do not tell datatypes, and one
//! output not even its name: both come from the model's metadata.

mod body;
mod wire;

pub(super) use body::request;
pub(super) use wire::{PREDICT, Reply, Wire, config, segments};
