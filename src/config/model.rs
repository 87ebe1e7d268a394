//! What is configured for one model.

use std::{path::PathBuf, time::Duration};

use crate::openvino::{BatchOption, LoadOptions, PerTensor, ShapeOption};

/// One model to serve.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// The name that clients use.
    pub name: String,
    /// The folder with the version folders or with a model, or a model file, resolved; or a cloud address
    /// such as `s3://…`.
    pub base_path: String,
    /// Which versions are served.
    pub policy: VersionPolicy,
    /// How to load them.
    pub load: LoadOptions,
    /// Whether compiled models are cached although shapes are `auto`.
    pub allow_cache: bool,
    /// How sequences are kept; `None` for a model without state.
    pub stateful: Option<StatefulConfig>,
    /// Requests that a version answers before it turns AVAILABLE.
    pub warmup: Vec<Warmup>,
}

impl ModelConfig {
    /// Tells whether a shape or the batch size is that of each request.
    pub(super) fn has_auto(&self) -> bool {
        let shapes = match &self.load.shapes {
            PerTensor::Unset => false,
            PerTensor::Anonymous(shape) => *shape == ShapeOption::Auto,
            PerTensor::Named(shapes) => shapes.iter().any(|(_, shape)| *shape == ShapeOption::Auto),
        };
        shapes || self.load.batch == Some(BatchOption::Auto)
    }

    /// Leaves the cache out where each request may compile the model again, unless it is allowed.
    pub(super) fn with_cache_rule(mut self) -> Self {
        if self.has_auto() && !self.allow_cache {
            self.load.cache_dir = None;
        }
        self
    }
}

/// Which versions of a model are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionPolicy {
    /// The highest ones: how many.
    Latest(usize),
    /// Every one.
    All,
    /// These, as far as they exist.
    Specific(Vec<i64>),
}

impl Default for VersionPolicy {
    fn default() -> Self {
        Self::Latest(1)
    }
}

/// Settings of a stateful model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatefulConfig {
    /// Whether sequences that are not used are removed.
    pub idle_sequence_cleanup: bool,
    /// Whether the low latency transformation is applied.
    pub low_latency_transformation: bool,
    /// The most sequences at once.
    pub max_sequence_number: u32,
    /// How long sequences go on on what a reload or a stop would take from them.
    pub drain: Duration,
}

impl Default for StatefulConfig {
    fn default() -> Self {
        Self {
            idle_sequence_cleanup: true,
            low_latency_transformation: false,
            max_sequence_number: 500,
            drain: Duration::ZERO,
        }
    }
}

/// A request that is run before a version turns AVAILABLE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warmup {
    /// How many times it is run; at least 1.
    pub count: u32,
    /// The length of dimensions that the model leaves open; at least 1.
    pub dynamic_length: usize,
    /// What the inputs hold.
    pub data: WarmupData,
}

/// What the inputs of a warm-up request hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WarmupData {
    /// Zeros.
    Zeros,
    /// Random elements.
    Random,
    /// `.npy` files by input name, resolved; inputs that are not named are zeros.
    Files(Vec<(String, PathBuf)>),
}
