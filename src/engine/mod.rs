//! The one door to everything that is served.
//!
//! A frontend asks [`Engine::find`] for a [`Target`], then hands it a request. What is found is
//! kept alive by the target, whatever is reloaded meanwhile. The engine also knows whether the
//! server is ready, and counts the requests in flight so that a stop can wait for them.

mod course;
#[expect(clippy::module_inception, reason = "it is named after its type")]
mod engine;
mod find;
mod graph_stream;
mod idempotency;
mod in_flight;
mod of_graph;
mod of_pipeline;
mod regions;
mod registry;
pub mod reload;
mod reload_part;
mod sequences;
mod servable;
mod sessions;
mod shared;
pub mod stream;
mod stream_messages;
mod target;

pub use engine::{ConfigFailure, Engine, Reload, ReloadRequest};
pub use registry::Registry;
pub(crate) use registry::not_found;
pub use reload_part::ReloadPart;
pub use sequences::{ListedSequence, SequenceList, SequencePlace};
pub use servable::{Servable, ServableFacts, ServableVersion};
pub use target::Target;

#[cfg(test)]
mod tests;
