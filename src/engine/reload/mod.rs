//! Reconciliation of servables with the configuration and the version folders.
//!
//! One task owns what is configured and does one pass at a time: at the start, at each tick of
//! the watcher, and when a client asks. A pass reads the configuration file, or looks at the paths that are served ([`paths`]), then brings each model
//! up to date ([`served`]): a new load is made beside what serves and swapped in, so that there is
//! no moment without service; what fails leaves what serves in its place. One that takes long is left to itself ([`models`]), and
//! what uses it follows once it is there. Then the pipelines follow
//! ([`pipelines`]): those of which the file or a model has changed are checked again. The last are the
//! graphs ([`graphs`]), whose models ([`subconfigs`]) come with the others.

mod checked;
mod code;
mod done;
mod error;
mod facts;
mod graphs;
mod loads;
mod models;
mod nested;
mod pass;
mod paths;
mod per_model;
mod pipelines;
mod reloader;
mod repeated;
mod served;
mod serving;
mod source;
mod subconfigs;
mod triton;
mod wanted;

pub use error::ReloadError;
pub use paths::{PathError, name_of, read_paths};
pub use reloader::Reloader;
pub use triton::{
    TritonLoad, TritonPipeline, TritonSource, TritonStep, contradicted_triton_settings,
    ignored_triton_settings, triton_load, triton_parameters, triton_pipeline,
};
