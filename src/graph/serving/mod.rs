//! Graphs as they are served: definitions that are loaded and reloaded, conversions of requests and responses, unary
//! requests, and streams.

pub(super) mod convert;
pub(super) mod definition;
mod finals;
pub(super) mod fingerprint;
pub(super) mod live;
mod remarks;
pub(super) mod session;
mod unary;
