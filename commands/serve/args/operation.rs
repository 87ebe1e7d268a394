//! What operators watch and bound: log, metrics, limits.

use std::{convert::Infallible, path::PathBuf};

use ovms::config::{AccessLogTarget, LogFormat};

use super::boolean;

/// Flags about log, metrics and limits.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Log")]
#[group(skip)]
pub(in crate::serve) struct Args {
    /// Least important messages to log: TRACE, DEBUG, INFO, WARNING, ERROR
    #[arg(long = "log_level", value_name = "LEVEL", default_value = "INFO")]
    pub(in crate::serve) log_level: String,
    /// File to log to, besides stdout
    #[arg(long = "log_path", value_name = "FILE")]
    pub(in crate::serve) log_path: Option<PathBuf>,
    /// Lines for people, or a JSON object a line
    #[arg(
        long = "log_format",
        value_name = "FORMAT",
        value_enum,
        default_value_t = Format::Text
    )]
    pub(in crate::serve) log_format: Format,
    /// File for a line about each request; - for stdout [default: none]
    #[arg(
        long = "access_log",
        value_name = "FILE",
        value_parser = access_log,
        allow_hyphen_values = true
    )]
    pub(super) access_log: Option<AccessLogTarget>,

    /// Show metrics at /metrics of the REST port
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
    /// Families to show, separated by commas; needs --metrics_enable [default: the usual ones]
    #[arg(long = "metrics_list", value_name = "LIST", help_heading = "Metrics")]
    pub(super) metrics_list: Option<String>,

    /// Virtual environment whose packages Python nodes see [default: the active one]
    #[arg(
        long = "python_environment",
        value_name = "DIR",
        help_heading = "Python nodes"
    )]
    pub(super) python_environment: Option<PathBuf>,
    /// Do not tell clients what a Python node has raised; the log has it
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

    /// Largest message or body in bytes, as sent and as expanded
    #[arg(
        long = "max_message_size",
        value_name = "BYTES",
        default_value_t = 1 << 30,
        help_heading = "Limits"
    )]
    pub(super) max_message_size: usize,
    /// Bytes of all requests and answers under way, as received, expanded, decoded and queued; more
    /// requests are refused (RESOURCE_EXHAUSTED, 503) [default: a quarter of the memory]
    #[arg(
        long = "max_bytes_in_flight",
        value_name = "BYTES",
        help_heading = "Limits"
    )]
    pub(super) max_bytes_in_flight: Option<usize>,
    /// Connections open at once on each port; more wait, and idle ones are closed for them
    #[arg(
        long = "max_connections",
        value_name = "N",
        default_value_t = 4096,
        value_parser = at_least_one,
        help_heading = "Limits"
    )]
    pub(super) max_connections: usize,
    /// Connections open at once from one address; more are closed; 0 means any
    ///
    /// An IPv6 network of 64 bits counts as one address. Clients behind one proxy have one address
    /// as well.
    #[arg(
        long = "max_connections_per_address",
        value_name = "N",
        default_value_t = 0,
        help_heading = "Limits"
    )]
    pub(super) max_connections_per_address: usize,
    /// Requests of a model that may wait for an infer request; more are refused (UNAVAILABLE,
    /// 503)
    #[arg(
        long = "max_queued_requests",
        value_name = "N",
        default_value_t = 1024,
        help_heading = "Limits"
    )]
    pub(super) max_queued_requests: usize,
    /// Runs of one custom node at the same time; more wait
    #[arg(
        long = "max_custom_node_runs",
        value_name = "N",
        default_value_t = 16,
        value_parser = at_least_one,
        help_heading = "Limits"
    )]
    pub(super) max_custom_node_runs: usize,
    /// How long the custom nodes of a pipeline may take until they are made and described
    #[arg(
        long = "custom_node_load_seconds",
        value_name = "N",
        default_value_t = 300,
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "Limits"
    )]
    pub(super) custom_node_load_seconds: u32,
    /// Runs of one graph at the same time; more wait
    #[arg(
        long = "max_graph_runs",
        value_name = "N",
        default_value_t = 256,
        value_parser = at_least_one,
        help_heading = "Limits"
    )]
    pub(super) max_graph_runs: usize,
    /// How long a graph may take to load, its Python nodes with it
    #[arg(
        long = "graph_load_seconds",
        value_name = "N",
        default_value_t = 300,
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "Limits"
    )]
    pub(super) graph_load_seconds: u32,
    /// Streams open at once (ModelStreamInfer); more are refused (UNAVAILABLE)
    #[arg(
        long = "max_streams",
        value_name = "N",
        default_value_t = 4096,
        value_parser = at_least_one,
        help_heading = "Limits"
    )]
    pub(super) max_streams: usize,
    /// Runs of Python nodes at the same time, those that sleep or wait among them; more wait
    #[arg(
        long = "max_python_runs",
        value_name = "N",
        default_value_t = 64,
        value_parser = at_least_one,
        help_heading = "Limits"
    )]
    pub(super) max_python_runs: usize,
    /// Pixels of a picture in a request, which are known before it is decoded
    #[arg(
        long = "max_image_pixels",
        value_name = "N",
        default_value_t = 1 << 26,
        help_heading = "Limits"
    )]
    pub(super) max_image_pixels: u64,
    /// Least time in milliseconds between two replacements of a compiled model after failed
    /// inferences
    #[arg(
        long = "recovery_interval_ms",
        value_name = "N",
        default_value_t = 1000,
        help_heading = "Limits"
    )]
    pub(super) recovery_interval_ms: u32,
    /// Do not tell clients why an inference failed; the log has it
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
    /// Strings of one input of a request, each of which takes far more memory than its bytes
    #[arg(
        long = "max_string_elements",
        value_name = "N",
        default_value_t = 1 << 20,
        value_parser = at_least_one,
        help_heading = "Limits"
    )]
    pub(super) max_string_elements: usize,
    /// Longest pause within a request that is being received
    #[arg(
        long = "read_timeout_seconds",
        value_name = "N",
        default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..),
        help_heading = "Limits"
    )]
    pub(super) read_timeout_seconds: u64,
    /// Longest time a client may take for 64 KiB of an answer
    #[arg(
        long = "write_timeout_seconds",
        value_name = "N",
        default_value_t = 60,
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "Limits"
    )]
    pub(super) write_timeout_seconds: u32,
    /// Longest time a connection may have no request; much shorter when places run out
    #[arg(
        long = "idle_timeout_seconds",
        value_name = "N",
        default_value_t = 900,
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "Limits"
    )]
    pub(super) idle_timeout_seconds: u32,
    /// Least bytes a second of a body, once the read timeout has been used up; 0 means any
    #[arg(
        long = "min_receive_rate",
        value_name = "BYTES",
        default_value_t = 1024,
        help_heading = "Limits"
    )]
    pub(super) min_receive_rate: u64,
    /// How long a request waits for a version that is loading
    #[arg(
        long = "loading_wait_seconds",
        value_name = "N",
        default_value_t = 10,
        help_heading = "Limits"
    )]
    pub(super) loading_wait_seconds: u64,
    /// How long the answer of a reload waits for versions that it has retired; 0 means not at all
    #[arg(
        long = "reload_wait_seconds",
        value_name = "N",
        default_value_t = 2,
        help_heading = "Limits"
    )]
    pub(super) reload_wait_seconds: u32,
    /// How long requests under way may take after SIGINT or SIGTERM; a second signal ends at once
    #[arg(
        long = "shutdown_timeout_seconds",
        value_name = "N",
        default_value_t = 30,
        help_heading = "Limits"
    )]
    pub(super) shutdown_timeout_seconds: u64,
}

/// The formats of the log.
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
