//! The settings of the server as a whole: where it listens, what it answers with, its bounds.

use std::{path::PathBuf, time::Duration};

use crate::budget::Budget;

/// Addresses that the server listens on, and its behaviour towards all clients.
#[derive(Debug, Clone)]
pub struct ServerSettings {
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
    /// The bounds.
    pub limits: ServerLimits,
    /// Settings of the interpreter for Python nodes.
    pub python: PythonSettings,
    /// Cross-origin policy sent to browsers.
    pub cors: Cors,
    /// Hosts under whose names browsers may use management paths, `*` for any; those of this machine
    /// for itself and the bound addresses if `None`.
    pub allowed_hosts: Option<Vec<String>>,
    /// Settings of `/metrics`.
    pub metrics: MetricsSettings,
    /// Whether the HTTP port serves a dashboard page.
    pub dashboard: bool,
    /// Interval between checks of the configuration file and version folders; no checks if `None`.
    pub poll: Option<Duration>,
    /// Interval between removals of idle sequences; no removals if `None`.
    pub sequence_cleaner_poll: Option<Duration>,
    /// Interval between removals of unused custom node resources; no removals if `None`.
    pub custom_node_resources_cleaner_interval: Option<Duration>,
    /// Checked, without effect: there is one runtime with a thread for each core.
    pub grpc_workers: u32,
    /// Checked, without effect, as `grpc_workers`; 0 for no cap.
    pub grpc_max_threads: u32,
    /// Checked, without effect: [`ServerLimits`] bounds messages and connections; 0 for no quota. Bytes.
    pub grpc_memory_quota: u64,
    /// Settings of the C++ server's gRPC library.
    pub grpc_channel_arguments: Vec<(String, ChannelArgument)>,
    /// Checked, without effect, as `grpc_workers`.
    pub rest_workers: u32,
    /// The folder of local files that generative requests may name; none if `None`.
    pub allowed_local_media_path: Option<PathBuf>,
    /// The key that clients of `/v3` must have; anyone may ask if `None`.
    pub api_key: Option<String>,
    /// Format of log lines.
    pub log_format: LogFormat,
    /// Destination of the access log, with a line for each request; no access log if `None`.
    pub access_log: Option<AccessLogTarget>,
}

impl ServerSettings {
    /// Returns whether there is any port for HTTP.
    #[must_use]
    pub fn has_http(&self) -> bool {
        self.rest_port.is_some() || self.management_port.is_some()
    }
}

/// The bounds of everything that could otherwise grow or wait without end.
#[derive(Debug, Clone)]
pub struct ServerLimits {
    /// Maximum bytes of a message or body, as sent and as expanded.
    pub message_size: usize,
    /// Maximum number of open connections on each port.
    pub connections: usize,
    /// Memory budget shared by all requests and responses.
    pub budget: Budget,
    /// Maximum number of open connections from one address on each port; `None` for any number.
    pub connections_per_address: Option<usize>,
    /// Calls that one gRPC connection may have open at once; `None` leaves it to
    /// `grpc_channel_arguments`.
    pub connection_streams: Option<u32>,
    /// Maximum pause within a request's body, and time limit of its header.
    pub read: Duration,
    /// Maximum time that a client may take for 64 KiB of a response.
    pub write: Duration,
    /// Maximum time that a connection may have no request in flight.
    pub idle: Duration,
    /// Minimum rate of a body in bytes a second, once `read` is over; 0 for any.
    pub receive_rate: u64,
    /// Maximum time that a request waits for a version that is loading.
    pub loading: Duration,
    /// Maximum time that the response of a reload waits for versions that it has retired.
    pub reload: Duration,
    /// Time limit for in-flight requests after the shutdown signal.
    pub shutdown: Duration,
    /// Maximum number of requests waiting for a slot, and as many for versions that are loading.
    pub waiting: usize,
    /// Maximum pixels (width × height) of an image in a request, known before it is decoded.
    pub image_pixels: u64,
    /// Maximum number of strings of an input of a request.
    pub string_elements: usize,
    /// Maximum number of open request streams.
    pub streams: usize,
}

/// Settings of Python nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonSettings {
    /// The virtual environment whose packages they see; the active one, or the runtime's, if `None`.
    pub environment: Option<PathBuf>,
    /// Maximum number of concurrent runs of all of them together, sleeping and waiting ones included.
    pub runs: usize,
}

/// Default limit of pixels of an image: 8192 × 8192.
pub(super) const MAX_IMAGE_PIXELS: u64 = 1 << 26;

/// Default limit of strings of an input.
pub(super) const MAX_STRING_ELEMENTS: usize = 1 << 20;

/// Headers by which browsers learn which other origins may call. A text that is empty leaves its
/// header out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// `Access-Control-Allow-Credentials: true`, or no such header.
    pub allow_credentials: bool,
    /// `Access-Control-Allow-Origin`, verbatim.
    pub allowed_origins: String,
    /// `Access-Control-Allow-Methods`, verbatim.
    pub allowed_methods: String,
    /// `Access-Control-Allow-Headers`, verbatim.
    pub allowed_headers: String,
}

impl Default for Cors {
    fn default() -> Self {
        Self {
            allow_credentials: false,
            allowed_origins: "*".to_owned(),
            allowed_methods: "*".to_owned(),
            allowed_headers: "*".to_owned(),
        }
    }
}

/// Settings of `/metrics`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MetricsSettings {
    /// Whether the endpoint is enabled.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Destination of the access log, with a line for each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessLogTarget {
    /// Standard output.
    Stdout,
    /// A file, to whose end lines are added.
    File(PathBuf),
}
