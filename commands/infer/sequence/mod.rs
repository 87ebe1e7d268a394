//! `ovms infer` for stateful models: a whole sequence, or single requests of one.
//!
//! [`SequenceArgs`] are the flags as typed and [`Sequence`] is their meaning. `run` sends the steps,
//! one after another, `show` has their outputs, and `state` the files with the state; the sequence is ended on the server
//! whatever happens in between.

mod args;
mod explain;
mod plan;
mod run;
mod show;
mod state;
mod stop;
mod writer;

pub(super) use args::SequenceArgs;
pub(super) use explain::steps as explain_steps;
pub(super) use plan::{Plan, Sequence};
pub(super) use run::{Whole, one, run};
pub(super) use stop::listen;
pub(super) use writer::Writer;
