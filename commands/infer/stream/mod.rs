//! `ovms infer --stream`: requests over one stream, and what comes back as it comes.
//!
//! [`StreamArgs`] are the flags as typed and [`Plan`] is what they mean. `run` sends the requests
//! that `feed` gives and has what comes back shown by `show`, both beside each other.

mod args;
mod feed;
mod plan;
mod run;
mod show;

pub(super) use args::StreamArgs;
pub(super) use feed::requests;
pub(super) use plan::Plan;
pub(super) use run::run;
