//! The settings of the server as a whole: where it listens, what it answers with, its bounds.

use std::{path::PathBuf, time::Duration};

use crate::budget::Budget;

/// Where the server listens, and how it behaves towards all clients.
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
    /// What runs Python nodes.
    pub python: PythonSettings,
    /// What browsers are told about other origins.
    pub cors: Cors,
    /// Hosts under whose names browsers may use management paths, `*` for any; those of this machine
    /// for itself and the bound addresses if `None`.
    pub allowed_hosts: Option<Vec<String>>,
    /// Whether `/metrics` is there, and which families it has.
    pub metrics: MetricsSettings,
    /// Whether the HTTP port has a page for people.
    pub dashboard: bool,
    /// How often file and version folders are looked at; never if `None`.
    pub poll: Option<Duration>,
    /// How often sequences that are not used are removed; never if `None`.
    pub sequence_cleaner_poll: Option<Duration>,
    /// How often resources of custom nodes that are not used are removed; never if `None`.
    pub custom_node_resources_cleaner_interval: Option<Duration>,
    /// Checked, without effect: there is one runtime with a thread for each core.
    pub grpc_workers: u32,
    /// Checked, without effect, as `grpc_workers`; 0 for no cap.
    pub grpc_max_threads: u32,
    /// Checked, without effect: [`Limits`] bounds messages and connections; 0 for no quota. Bytes.
    pub grpc_memory_quota: u64,
    /// Settings of the C++ server's gRPC library.
    pub grpc_channel_arguments: Vec<(String, ChannelArgument)>,
    /// Checked, without effect, as `grpc_workers`.
    pub rest_workers: u32,
    /// The folder of local files that generative requests may name; none if `None`.
    pub allowed_local_media_path: Option<PathBuf>,
    /// The key that clients of `/v3` must have; anyone may ask if `None`.
    pub api_key: Option<String>,
    /// How lines of the log are written.
    pub log_format: LogFormat,
    /// Where a line for each request is written; nowhere if `None`.
    pub access_log: Option<AccessLogTarget>,
}

impl ServerSettings {
    /// Returns true if there is any port for HTTP.
    #[must_use]
    pub fn has_http(&self) -> bool {
        self.rest_port.is_some() || self.management_port.is_some()
    }
}

/// The bounds of everything that could otherwise grow or wait without end.
#[derive(Debug, Clone)]
pub struct ServerLimits {
    /// Bytes of a message or body, as sent and as expanded.
    pub message_size: usize,
    /// Connections open at once on each port.
    pub connections: usize,
    /// What requests and answers may take of the memory, all of them together.
    pub budget: Budget,
    /// Connections open at once from one address on each port; `None` for any number.
    pub connections_per_address: Option<usize>,
    /// Calls that one gRPC connection may have open at once; `None` leaves it to
    /// `grpc_channel_arguments`.
    pub connection_streams: Option<u32>,
    /// The longest pause within a request's body, and the time for its header.
    pub read: Duration,
    /// The longest time that a client may take for 64 KiB of an answer.
    pub write: Duration,
    /// How long a connection may have no request.
    pub idle: Duration,
    /// Bytes a second that a body has to come in, once `read` is over; 0 for any.
    pub receive_rate: u64,
    /// How long a request waits for a version that is loading.
    pub loading: Duration,
    /// How long the answer of a reload waits for versions that it has retired.
    pub reload: Duration,
    /// How long requests under way may take after the signal to stop.
    pub shutdown: Duration,
    /// Requests that may wait for a slot, and as many for versions that are loading.
    pub waiting: usize,
    /// Pixels (width × height) of a picture in a request, known before it is decoded.
    pub image_pixels: u64,
    /// Strings of an input of a request.
    pub string_elements: usize,
    /// Streams of requests that may be open at once.
    pub streams: usize,
}

/// How Python nodes are run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonSettings {
    /// The virtual environment whose packages they see; the active one, or the runtime's, if `None`.
    pub environment: Option<PathBuf>,
    /// Runs of all of them together that may go on at once, those that sleep or wait among them.
    pub runs: usize,
}

/// The most pixels of a picture unless said otherwise: 8192 × 8192.
pub(super) const MAX_IMAGE_PIXELS: u64 = 1 << 26;

/// The most strings of an input unless said otherwise.
pub(super) const MAX_STRING_ELEMENTS: usize = 1 << 20;

/// The headers that tell browsers which other origins may call. A text that is empty leaves its
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

/// What `/metrics` shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MetricsSettings {
    /// Whether it is there at all.
    pub enable: bool,
    /// The families by name, as given; the default ones if `None`.
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

/// How lines of the log are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Where a line for each request is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessLogTarget {
    /// Standard output.
    Stdout,
    /// A file, to whose end lines are added.
    File(PathBuf),
}
