//! Diagrams of six shapes of pipelines, and of many random ones.

mod diagrams;
mod formats;
mod random;
mod shapes;
