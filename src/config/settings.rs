//! The settings of the server as a whole (where it listens, what it answers with, its bounds), and those of
//! one model.

use std::{convert::Infallible, path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use serde::Serialize;

use super::{file::Defaults, flags::Flags};
use crate::{
    budget::Budget,
    openvino::{Batching, LoadOptions, PerTensor, Preprocessing},
    quota::ClientLimits,
    shared_memory::KeyPrefix,
    store::StoreAddress,
    tensor::images::PixelLimit,
};

/// Addresses that the server listens on, and its behaviour towards all clients: the flags, and what
/// comes of those whose texts have a form.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// The flags, without those of a single model.
    pub flags: Arc<Flags>,
    /// The gRPC port; `None` for no gRPC.
    pub port: Option<u16>,
    /// The HTTP port; `None` for no HTTP.
    pub rest_port: Option<u16>,
    /// The HTTP port for management alone; `None` for no such port.
    pub management_port: Option<u16>,
    /// Addresses or host names that the gRPC port is opened on.
    pub grpc_bind_addresses: Vec<String>,
    /// Addresses or host names that the HTTP port is opened on.
    pub rest_bind_addresses: Vec<String>,
    /// Addresses or host names that the management port is opened on.
    pub management_bind_addresses: Vec<String>,
    /// Permission bits of the Unix sockets.
    pub unix_socket_mode: u32,
    /// TLS of the ports; `None` for none.
    pub tls: Option<TlsSettings>,
    /// Memory budget shared by all requests and responses.
    pub budget: Budget,
    /// Hosts under whose names browsers may use management paths, `*` for any; those of this machine
    /// for itself and the bound addresses if `None`.
    pub allowed_hosts: Option<Vec<String>>,
    /// Settings of `/metrics`.
    pub metrics: MetricsSettings,
    /// Settings of the C++ server's gRPC library.
    pub grpc_channel_arguments: Vec<(String, ChannelArgument)>,
    /// Address of the store that keeps sequences for other servers; no store if `None`.
    pub sequence_store: Option<StoreAddress>,
    /// Beginning of the keys of shared memory that clients may register; they may register none if `None`.
    pub shared_memory: Option<KeyPrefix>,
    /// Limits of each address; `None` for none.
    pub client_limits: Option<Arc<ClientLimits>>,
    /// The key that clients of `/v3` must have; anyone may ask if `None`.
    pub api_key: Option<String>,
}

impl ServerSettings {
    /// Returns whether there is any port or Unix socket for HTTP.
    pub fn has_http(&self) -> bool {
        self.rest_port.is_some()
            || self.management_port.is_some()
            || self.flags.rest_unix_socket.is_some()
    }

    /// Returns the interval between checks of the configuration file and version folders; no checks
    /// if `None`.
    pub fn poll(&self) -> Option<Duration> {
        let seconds = self.flags.file_system_poll_wait_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// Returns the interval between removals of idle sequences; no removals if `None`.
    pub fn sequence_cleaner_poll(&self) -> Option<Duration> {
        let minutes = self.flags.sequence_cleaner_poll_wait_minutes;
        (minutes > 0).then(|| Duration::from_secs(60 * u64::from(minutes)))
    }
}

/// TLS of the ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// File with the certificate, and those that lead to its authority.
    pub cert: PathBuf,
    /// File with the private key.
    pub key: PathBuf,
    /// File with the authorities whose certificates clients may have.
    pub client_ca: Option<PathBuf>,
    /// Requirement of client certificates; without authorities, [`ClientAuth::Off`].
    pub client_auth: ClientAuth,
    /// The oldest version of TLS that is accepted.
    pub min_version: TlsVersion,
    /// Enables TLS on the gRPC port.
    pub grpc: bool,
    /// Enables TLS on the HTTP port.
    pub rest: bool,
    /// Enables TLS on the HTTP port for management.
    pub management: bool,
}

impl TlsSettings {
    /// Returns the interval between two looks at the files; no looks if `None`.
    pub fn poll(flags: &Flags) -> Option<Duration> {
        let seconds = flags.tls_poll_wait_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }
}

/// Certificates of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::EnumString)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ClientAuth {
    /// No request for a certificate.
    Off,
    /// Verified where a client has one.
    Optional,
    /// Required, and verified.
    Required,
}

/// Version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::EnumString)]
pub enum TlsVersion {
    /// 1.2.
    #[serde(rename = "1.2")]
    #[strum(serialize = "1.2")]
    V12,
    /// 1.3.
    #[serde(rename = "1.3")]
    #[strum(serialize = "1.3")]
    V13,
}

/// Settings of `/metrics`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MetricsSettings {
    /// Enables the endpoint.
    pub enable: bool,
    /// Names of the families, as given; the default ones if `None`.
    pub families: Option<Vec<String>>,
}

/// The value of a setting of the C++ server's gRPC library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelArgument {
    /// A whole number.
    Int(i32),
    /// Any other text.
    Text(String),
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::EnumString)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Destination of the access log, with a line for each request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum AccessLogTarget {
    /// Standard output.
    Stdout,
    /// A file, to whose end lines are added.
    File(PathBuf),
}

impl FromStr for AccessLogTarget {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "-" => Self::Stdout,
            path => Self::File(path.into()),
        })
    }
}

/// Extent of a check in place of serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum CheckDepth {
    /// No check.
    Off,
    /// Flags and files alone: nothing that they name is opened.
    Syntax,
    /// Everything that a server would load is opened and read.
    Full,
}

impl FromStr for CheckDepth {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "t" => Ok(Self::Full),
            "false" | "0" | "f" => Ok(Self::Off),
            "syntax" => Ok(Self::Syntax),
            _ => Err("expected true, false or syntax"),
        }
    }
}

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
    /// Allows compiled models to be cached although shapes are `auto`.
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
        let usual = StatefulConfig::default();
        let stateful = flags.stateful.then(|| StatefulConfig {
            idle_sequence_cleanup: (flags.idle_sequence_cleanup)
                .unwrap_or(usual.idle_sequence_cleanup),
            low_latency_transformation: (flags.low_latency_transformation)
                .unwrap_or(usual.low_latency_transformation),
            max_sequence_number: flags
                .max_sequence_number
                .unwrap_or(usual.max_sequence_number),
            drain: Duration::from_secs(drain.into()),
        });
        let load = LoadOptions {
            device: flags.target_device.as_deref().unwrap_or("CPU").to_owned(),
            properties: Vec::new(),
            stateful: flags.stateful,
            sequences_file: None,
            settings_error: None,
            model_file: None,
            advice: None,
            state_mode: flags.state_mode.unwrap_or_default(),
            batching: match flags.sequence_batch {
                Some(rows @ 2..) => Batching::UpTo {
                    rows: rows as usize,
                    delay: Duration::ZERO,
                },
                _ => Batching::Off,
            },
            batch_bytes: None,
            batch_budget: defaults.batch_budget.clone(),
            nireq: flags.nireq,
            max_waiting: flags.max_queued_requests,
            priority_step: Duration::from_millis(flags.priority_step_ms.into()),
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

    /// Returns whether its device has properties other than the usual ones.
    pub fn has_plugin_config(&self) -> bool {
        self.load.properties != super::plugin::complete(&self.load.device, Vec::new())
    }

    /// Gives the model sequences because its `config.pbtxt` asks for them.
    pub fn add_sequences(&mut self, file: PathBuf) {
        if self.stateful.is_none() {
            self.stateful = Some(StatefulConfig::default());
            self.load.stateful = true;
            // Requests of different sequences have different states.
            self.load.batching = Batching::Off;
        }
        self.load.sequences_file = Some(file);
    }

    /// Serves each request by itself, although the flags ask for sequences.
    pub fn remove_sequences(&mut self) {
        self.stateful = None;
        self.load.stateful = false;
        self.load.low_latency = false;
        self.load.batching = Batching::Off;
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
    /// Enables the removal of idle sequences.
    pub idle_sequence_cleanup: bool,
    /// Enables the low latency transformation.
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
