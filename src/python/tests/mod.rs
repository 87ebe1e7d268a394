//! Tests with the real interpreter.

mod basics;
mod errors;
mod generators;
mod lifetimes;
mod lines;
mod loads;
mod memory;
mod modules;
mod results;
mod rules;
mod states;
pub(crate) mod support;
mod workers;
