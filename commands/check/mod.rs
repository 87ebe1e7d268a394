//! Results of the `check` commands: one form of a finding, one text and one JSON document for pipelines,
//! graphs and whole configurations.

pub(crate) mod counts;
pub(crate) mod diagnostic;
pub(crate) mod report;
mod text;
