//! Flags for operators: log, metrics, limits.

use std::{convert::Infallible, path::PathBuf};

use ovms::config::{AccessLogTarget, LogFormat};

use super::boolean;

/// Flags about log, metrics and limits.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Log")]
#[group(skip)]
pub(in crate::serve) struct Args {
    /// Minimum level to log: TRACE, DEBUG, INFO, WARNING, ERROR
    #[arg(long = "log_level", value_name = "LEVEL", default_value = "INFO")]
    pub(in crate::serve) log_level: String,
    /// Log file, in addition to stdout
    #[arg(long = "log_path", value_name = "FILE")]
    pub(in crate::serve) log_path: Option<PathBuf>,
    /// Format of the log: text, or one JSON object per line
    #[arg(
        long = "log_format",
        value_name = "FORMAT",
        value_enum,
        default_value_t = Format::Text
    )]
    pub(in crate::serve) log_format: Format,
    /// Access log file, one line per request; - is stdout [default: none]
    #[arg(
        long = "access_log",
        value_name = "FILE",
        value_parser = access_log,
        allow_hyphen_values = true
    )]
    pub(super) access_log: Option<AccessLogTarget>,

    /// Expose Prometheus metrics at /metrics of the REST port
    #[arg(
        long = "metrics_enable",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true",
        hide_default_value = true,
        hide_possible_values = true,
        value_parser = boolean(),
        action = clap::ArgAction::Set,
        value_name = "BOOL",
        help_heading = "Metrics"
    )]
    pub(super) metrics_enable: bool,
    /// Metric families to expose, separated by commas; needs --metrics_enable [default: the usual
    /// ones]
    #[arg(long = "metrics_list", value_name = "LIST", help_heading = "Metrics")]
    pub(super) metrics_list: Option<String>,

    /// Virtual environment with the packages of Python nodes [default: the active one]
    #[arg(
        long = "python_environment",
        value_name = "DIR",
        help_heading = "Python nodes"
    )]
    pub(super) python_environment: Option<PathBuf>,
    /// Hide exceptions of Python nodes from clients; they are still logged
    #[arg(
        long = "hide_python_errors",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true",
        hide_default_value = true,
        hide_possible_values = true,
        value_parser = boolean(),
        action = clap::ArgAction::Set,
        value_name = "BOOL",
        help_heading = "Python nodes"
    )]
    pub(super) hide_python_errors: bool,

    /// Maximum size of a message or body in bytes, compressed and decompressed
    #[arg(
        long = "max_message_size",
        value_name = "BYTES",
        default_value_t = 1 << 30,
        help_heading = "Limits"
    )]
    pub(super) max_message_size: usize,
    /// Maximum bytes of all requests and responses in flight, as received, decompressed, decoded
    /// and queued; further requests are rejected (RESOURCE_EXHAUSTED, 503) [default: a quarter of
    /// the memory]
    #[arg(
        long = "max_bytes_in_flight",
        value_name = "BYTES",
        help_heading = "Limits"
    )]
    pub(super) max_bytes_in_flight: Option<usize>,
    /// Maximum number of connections of each port; further ones wait, and idle ones are closed for
    /// them
    #[arg(
        long = "max_connections",
        value_name = "N",
        default_value_t = 4096,
        value_parser = at_least_one,
        help_heading = "Limits"
    )]
    pub(super) max_connections: usize,
    /// Maximum number of connections from one address; further ones are closed; 0 means no limit
    ///
    /// A /64 network of IPv6 counts as one address. Clients behind a proxy share its address.
    #[arg(
        long = "max_connections_per_address",
        value_name = "N",
        default_value_t = 0,
        help_heading = "Limits"
    )]
    pub(super) max_connections_per_address: usize,
    /// Maximum number of queued requests of a model; further ones are rejected (UNAVAILABLE, 503)
    #[arg(
        long = "max_queued_requests",
        value_name = "N",
        default_value_t = 1024,
        help_heading = "Limits"
    )]
    pub(super) max_queued_requests: usize,
    /// Maximum number of concurrent runs of a custom node; further ones wait
    #[arg(
        long = "max_custom_node_runs",
        value_name = "N",
        default_value_t = 16,
        value_parser = at_least_one,
        help_heading = "Limits"
    )]
    pub(super) max_custom_node_runs: usize,
    /// Timeout in seconds for loading the custom nodes of a pipeline
    #[arg(
        long = "custom_node_load_seconds",
        value_name = "N",
        default_value_t = 300,
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "Limits"
    )]
    pub(super) custom_node_load_seconds: u32,
    /// Maximum number of concurrent runs of a graph; further ones wait
    #[arg(
        long = "max_graph_runs",
        value_name = "N",
        default_value_t = 256,
        value_parser = at_least_one,
        help_heading = "Limits"
    )]
    pub(super) max_graph_runs: usize,
    /// Timeout in seconds for loading a graph with its Python nodes
    #[arg(
        long = "graph_load_seconds",
        value_name = "N",
        default_value_t = 300,
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "Limits"
    )]
    pub(super) graph_load_seconds: u32,
    /// Maximum number of open streams (ModelStreamInfer); further ones are rejected (UNAVAILABLE)
    #[arg(
        long = "max_streams",
        value_name = "N",
        default_value_t = 4096,
        value_parser = at_least_one,
        help_heading = "Limits"
    )]
    pub(super) max_streams: usize,
    /// Maximum number of concurrent runs of Python nodes, sleeping ones included; further ones wait
    #[arg(
        long = "max_python_runs",
        value_name = "N",
        default_value_t = 64,
        value_parser = at_least_one,
        help_heading = "Limits"
    )]
    pub(super) max_python_runs: usize,
    /// Maximum number of pixels of an image, checked before it is decoded
    #[arg(
        long = "max_image_pixels",
        value_name = "N",
        default_value_t = 1 << 26,
        help_heading = "Limits"
    )]
    pub(super) max_image_pixels: u64,
    /// Minimum milliseconds between two replacements of a compiled model after failed inferences
    #[arg(
        long = "recovery_interval_ms",
        value_name = "N",
        default_value_t = 1000,
        help_heading = "Limits"
    )]
    pub(super) recovery_interval_ms: u32,
    /// Hide the reasons of failed inferences from clients; they are still logged
    #[arg(
        long = "hide_inference_errors",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true",
        hide_default_value = true,
        hide_possible_values = true,
        value_parser = boolean(),
        action = clap::ArgAction::Set,
        value_name = "BOOL",
        help_heading = "Limits"
    )]
    pub(super) hide_inference_errors: bool,
    /// Maximum number of strings of an input
    #[arg(
        long = "max_string_elements",
        value_name = "N",
        default_value_t = 1 << 20,
        value_parser = at_least_one,
        help_heading = "Limits"
    )]
    pub(super) max_string_elements: usize,
    /// Timeout in seconds for the next bytes of a request
    #[arg(
        long = "read_timeout_seconds",
        value_name = "N",
        default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..),
        help_heading = "Limits"
    )]
    pub(super) read_timeout_seconds: u64,
    /// Timeout in seconds for a client to take 64 KiB of a response
    #[arg(
        long = "write_timeout_seconds",
        value_name = "N",
        default_value_t = 60,
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "Limits"
    )]
    pub(super) write_timeout_seconds: u32,
    /// Timeout in seconds for idle connections; much shorter when the limit of connections is near
    #[arg(
        long = "idle_timeout_seconds",
        value_name = "N",
        default_value_t = 900,
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "Limits"
    )]
    pub(super) idle_timeout_seconds: u32,
    /// Minimum rate of a request body in bytes per second, after the read timeout; 0 means no
    /// minimum
    #[arg(
        long = "min_receive_rate",
        value_name = "BYTES",
        default_value_t = 1024,
        help_heading = "Limits"
    )]
    pub(super) min_receive_rate: u64,
    /// Seconds that a request waits for a version that is loading
    #[arg(
        long = "loading_wait_seconds",
        value_name = "N",
        default_value_t = 10,
        help_heading = "Limits"
    )]
    pub(super) loading_wait_seconds: u64,
    /// Seconds that the response to a reload waits for retired versions to be unloaded; 0 means it
    /// does not wait
    #[arg(
        long = "reload_wait_seconds",
        value_name = "N",
        default_value_t = 2,
        help_heading = "Limits"
    )]
    pub(super) reload_wait_seconds: u32,
    /// Seconds that requests in flight may take after SIGINT or SIGTERM; a second signal exits at
    /// once
    #[arg(
        long = "shutdown_timeout_seconds",
        value_name = "N",
        default_value_t = 30,
        help_heading = "Limits"
    )]
    pub(super) shutdown_timeout_seconds: u64,
}

/// Formats of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::serve) enum Format {
    Text,
    Json,
}

impl From<Format> for LogFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Text => Self::Text,
            Format::Json => Self::Json,
        }
    }
}

fn access_log(text: &str) -> Result<AccessLogTarget, Infallible> {
    Ok(match text {
        "-" => AccessLogTarget::Stdout,
        path => AccessLogTarget::File(path.into()),
    })
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("expected at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("expected a number: {error}")),
    }
}
