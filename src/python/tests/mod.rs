//! Tests with the real interpreter.

mod basics;
mod support;
