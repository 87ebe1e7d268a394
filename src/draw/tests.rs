//! Pictures of six shapes of pipelines, and of many random ones.

mod formats;
mod pictures;
mod random;
mod shapes;
mod trace;
