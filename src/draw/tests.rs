//! Pictures of six shapes of pipelines, and of many random ones.

mod formats;
mod diagrams;
mod random;
mod shapes;
mod trace;
