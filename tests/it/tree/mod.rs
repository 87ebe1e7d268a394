//! The source tree and its documents: layers, dependencies, words, examples.

mod benchmarks;
mod dependencies;
mod docs;
mod docs_calculators;
mod docs_configuration;
mod layering;
mod map;
mod readme;
mod rooms;
mod words;
