//! Configuration of one model.

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
    /// Policy that selects the versions to serve.
    pub policy: VersionPolicy,
    /// Options of the load.
    pub load: LoadOptions,
    /// Whether compiled models are cached although shapes are `auto`.
    pub allow_cache: bool,
    /// Settings of sequences; `None` for a stateless model.
    pub stateful: Option<StatefulConfig>,
    /// Requests that a version answers before it turns AVAILABLE.
    pub warmup: Vec<Warmup>,
}

impl ModelConfig {
    /// Returns whether a shape or the batch size is taken from each request.
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

/// Policy that selects the versions of a model to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionPolicy {
    /// The highest versions, up to this number.
    Latest(usize),
    /// All versions.
    All,
    /// The listed versions, as far as they exist.
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
    /// Whether idle sequences are removed.
    pub idle_sequence_cleanup: bool,
    /// Whether the low latency transformation is applied.
    pub low_latency_transformation: bool,
    /// Maximum number of concurrent sequences.
    pub max_sequence_number: u32,
    /// Time that sequences may continue on a version that a reload or a shutdown replaces.
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
    /// Number of runs; at least 1.
    pub count: u32,
    /// The length of dimensions that the model leaves open; at least 1.
    pub dynamic_length: usize,
    /// Contents of the inputs.
    pub data: WarmupData,
}

/// Contents of the inputs of a warm-up request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WarmupData {
    /// Zeros.
    Zeros,
    /// Random elements.
    Random,
    /// `.npy` files by input name, resolved; inputs that are not named are zeros.
    Files(Vec<(String, PathBuf)>),
}
