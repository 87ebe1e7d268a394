//! Results of the `check` commands: one text and one JSON document of findings about pipelines, graphs and
//! whole configurations.

pub(crate) mod counts;
pub(crate) mod excerpt;
pub(crate) mod report;
