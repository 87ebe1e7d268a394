//! The source tree and its documents: layers, dependencies, words, examples.

mod benchmarks;
mod dependencies;
mod docs;
mod docs_configuration;
mod layering;
mod readme;
mod words;
