//! `ovms infer --stream`: requests over one stream, with responses shown on arrival.
//!
//! [`StreamArgs`] are the flags as typed and [`Plan`] is their meaning. `run` sends the requests
//! from `feed` and passes the responses to `show`, both concurrently.

mod args;
mod feed;
mod plan;
mod run;
mod show;

pub(super) use args::StreamArgs;
pub(crate) use feed::RequestFeed;
pub(super) use feed::requests;
pub(super) use plan::Plan;
pub(crate) use plan::RequestPlan;
pub(super) use run::run;
