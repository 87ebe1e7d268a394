//! Tests with the real interpreter.

mod basics;
mod faults;
mod generators;
mod lifetimes;
mod loads;
mod memory;
mod modules;
mod places;
mod results;
mod rules;
mod states;
mod support;
