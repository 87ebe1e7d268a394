//! `ovms infer --stream`: requests over one stream, with responses shown on arrival.
//!
//! [`StreamArgs`] are the flags as typed and [`Plan`] is their meaning. `run` sends the requests
//! and passes the responses to `show`, both concurrently.

mod args;
mod plan;
mod run;
mod show;

pub(super) use args::StreamArgs;
pub(super) use plan::Plan;
pub(super) use run::run;
