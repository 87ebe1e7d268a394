//! Configuration of one model.

use std::{path::PathBuf, time::Duration};

use super::{file::Defaults, flags::Flags};
use crate::{
    openvino::{LoadOptions, PerTensor, Preprocessing},
    tensor::images::PixelLimit,
};

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
    /// Makes a model of flags, or of keys that are flags as well. What has a form of its own in each
    /// of them is left to the caller.
    pub(super) fn new(name: String, base_path: String, flags: &Flags, defaults: &Defaults) -> Self {
        let drain = flags.drain_sequences_seconds.unwrap_or(0);
        let stateful = flags.stateful.then(|| StatefulConfig {
            idle_sequence_cleanup: flags.idle_sequence_cleanup.unwrap_or(true),
            low_latency_transformation: flags.low_latency_transformation.unwrap_or(false),
            max_sequence_number: flags.max_sequence_number.unwrap_or(500),
            drain: Duration::from_secs(drain.into()),
        });
        let load = LoadOptions {
            device: flags.target_device.as_deref().unwrap_or("CPU").to_owned(),
            properties: Vec::new(),
            stateful: flags.stateful,
            state_mode: flags.state_mode.unwrap_or_default(),
            sequence_batch: flags.sequence_batch.map_or(1, |most| most as usize),
            nireq: flags.nireq,
            max_waiting: flags.max_queued_requests,
            max_image_pixels: PixelLimit(flags.max_image_pixels),
            budget: defaults.budget.clone(),
            batch: None,
            shapes: PerTensor::Unset,
            layouts: PerTensor::Unset,
            preprocessing: Preprocessing::default(),
            cache_dir: flags.cache_dir.clone(),
            cpu_extension: flags.cpu_extension.clone(),
            low_latency: stateful
                .as_ref()
                .is_some_and(|stateful| stateful.low_latency_transformation),
            placement: defaults.placement,
            inference_timeout: (flags.inference_timeout_ms > 0)
                .then(|| Duration::from_millis(flags.inference_timeout_ms.into())),
            recovery_interval: Duration::from_millis(flags.recovery_interval_ms.into()),
            hide_errors: flags.hide_inference_errors,
        };
        Self {
            name,
            base_path,
            policy: VersionPolicy::default(),
            load,
            allow_cache: false,
            stateful,
            warmup: Vec::new(),
        }
    }

    /// Leaves the cache out where each request may compile the model again, unless it is allowed.
    pub(super) fn with_cache_rule(mut self) -> Self {
        if self.load.is_auto() && !self.allow_cache {
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
