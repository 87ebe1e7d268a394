//! The flags of `serve` as typed, and their checks: the first that fails is the answer.

mod check;

use std::path::PathBuf;

use super::{
    preprocessing::PreprocessingError,
    settings::{AccessLogTarget, Cors, LogFormat, MAX_IMAGE_PIXELS, MAX_STRING_ELEMENTS},
    shape::ParseShapeError,
    version_policy::PolicyError,
};
use crate::tensor::LayoutError;

/// The flags as typed. Names and meaning are those of the command line; `None` is a flag that is
/// not given, where that makes a difference.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "each field is the flag of the same name")]
pub struct Flags {
    pub config_path: Option<PathBuf>,
    pub model_name: Option<String>,
    pub model_path: Option<PathBuf>,
    pub batch_size: Option<String>,
    pub shape: Option<String>,
    pub layout: Option<String>,
    pub mean: Option<String>,
    pub scale: Option<String>,
    pub color_format: Option<String>,
    pub precision: Option<String>,
    pub model_version_policy: Option<String>,
    pub nireq: u32,
    /// `--inference_timeout_ms`; 0 for none.
    pub inference_timeout_ms: u32,
    pub target_device: Option<String>,
    pub plugin_config: Option<String>,
    pub stateful: bool,
    pub idle_sequence_cleanup: Option<bool>,
    pub low_latency_transformation: Option<bool>,
    pub max_sequence_number: Option<u32>,
    /// `--drain_sequences_seconds`
    pub drain_sequences_seconds: Option<u32>,

    pub port: u32,
    pub rest_port: u32,
    /// `--management_port`
    pub management_port: u32,
    /// `--demo`: addresses that are not given are loopback.
    pub demo: bool,
    pub grpc_bind_address: Option<String>,
    pub rest_bind_address: Option<String>,
    /// `--management_bind_address`
    pub management_bind_address: Option<String>,
    pub grpc_workers: u32,
    pub grpc_max_threads: Option<u32>,
    pub grpc_memory_quota: u64,
    pub grpc_channel_arguments: Option<String>,
    pub rest_workers: Option<u32>,

    pub log_level: String,
    pub log_format: LogFormat,
    pub access_log: Option<AccessLogTarget>,
    pub metrics_enable: bool,
    pub metrics_list: Option<String>,

    pub file_system_poll_wait_seconds: u32,
    pub sequence_cleaner_poll_wait_minutes: u32,
    pub custom_node_resources_cleaner_interval_seconds: u32,
    pub cache_dir: Option<PathBuf>,
    pub cpu_extension: Option<PathBuf>,

    /// `--no_dashboard`
    pub no_dashboard: bool,
    pub allow_credentials: bool,
    pub allowed_origins: String,
    pub allowed_methods: String,
    pub allowed_headers: String,
    /// `--allowed_hosts`
    pub allowed_hosts: Option<String>,
    pub api_key_file: Option<PathBuf>,
    pub allowed_local_media_path: Option<PathBuf>,

    pub max_message_size: usize,
    pub max_bytes_in_flight: Option<usize>,
    pub max_connections: usize,
    /// `--max_connections_per_address`; 0 for any number.
    pub max_connections_per_address: usize,
    /// `--grpc_max_concurrent_streams`
    pub grpc_max_concurrent_streams: Option<u32>,
    pub max_queued_requests: usize,
    /// `--max_custom_node_runs`.
    pub max_custom_node_runs: usize,
    /// `--custom_node_load_seconds`.
    pub custom_node_load_seconds: u32,
    /// `--max_graph_runs`
    pub max_graph_runs: usize,
    /// `--graph_load_seconds`
    pub graph_load_seconds: u32,
    /// `--max_streams`
    pub max_streams: usize,
    /// `--python_environment`
    pub python_environment: Option<PathBuf>,
    /// `--hide_python_errors`
    pub hide_python_errors: bool,
    /// `--max_python_runs`
    pub max_python_runs: usize,
    pub max_image_pixels: u64,
    /// `--recovery_interval_ms`
    pub recovery_interval_ms: u32,
    /// `--hide_inference_errors`
    pub hide_inference_errors: bool,
    /// `--max_string_elements`
    pub max_string_elements: usize,
    pub read_timeout_seconds: u64,
    /// `--write_timeout_seconds`
    pub write_timeout_seconds: u32,
    /// `--idle_timeout_seconds`
    pub idle_timeout_seconds: u32,
    pub min_receive_rate: u64,
    pub loading_wait_seconds: u64,
    /// `--reload_wait_seconds`
    pub reload_wait_seconds: u32,
    pub shutdown_timeout_seconds: u64,

    /// Nothing is to be served: ports may be left out, and all that needs them with them.
    pub check: bool,
    pub environment: FlagEnvironment,
}

/// Flag values from the environment of the process.
#[derive(Debug, Clone, Default)]
pub struct FlagEnvironment {
    /// `GRPC_SERVERS`: a number above 0 goes before `grpc_workers`.
    pub grpc_servers: Option<String>,
    /// `API_KEY`: the key if there is no `api_key_file`.
    pub api_key: Option<String>,
}

impl Default for Flags {
    /// No flag is given.
    fn default() -> Self {
        let cors = Cors::default();
        Self {
            config_path: None,
            model_name: None,
            model_path: None,
            batch_size: None,
            shape: None,
            layout: None,
            mean: None,
            scale: None,
            color_format: None,
            precision: None,
            model_version_policy: None,
            nireq: 0,
            inference_timeout_ms: 0,
            target_device: None,
            plugin_config: None,
            stateful: false,
            idle_sequence_cleanup: None,
            low_latency_transformation: None,
            max_sequence_number: None,
            drain_sequences_seconds: None,
            port: 0,
            rest_port: 0,
            management_port: 0,
            demo: false,
            grpc_bind_address: None,
            rest_bind_address: None,
            management_bind_address: None,
            grpc_workers: 1,
            grpc_max_threads: None,
            grpc_memory_quota: 1 << 31,
            grpc_channel_arguments: None,
            rest_workers: None,
            log_level: "INFO".to_owned(),
            log_format: LogFormat::Text,
            access_log: None,
            metrics_enable: false,
            metrics_list: None,
            file_system_poll_wait_seconds: 1,
            sequence_cleaner_poll_wait_minutes: 5,
            custom_node_resources_cleaner_interval_seconds: 300,
            cache_dir: None,
            cpu_extension: None,
            no_dashboard: false,
            allow_credentials: cors.allow_credentials,
            allowed_origins: cors.allowed_origins,
            allowed_methods: cors.allowed_methods,
            allowed_headers: cors.allowed_headers,
            allowed_hosts: None,
            api_key_file: None,
            allowed_local_media_path: None,
            max_message_size: 1 << 30,
            max_bytes_in_flight: None,
            max_connections: 4096,
            max_connections_per_address: 0,
            grpc_max_concurrent_streams: None,
            max_queued_requests: 1024,
            max_custom_node_runs: 16,
            custom_node_load_seconds: 300,
            max_graph_runs: 256,
            graph_load_seconds: 300,
            max_streams: 4096,
            python_environment: None,
            hide_python_errors: false,
            max_python_runs: 64,
            max_image_pixels: MAX_IMAGE_PIXELS,
            recovery_interval_ms: 1000,
            hide_inference_errors: false,
            max_string_elements: MAX_STRING_ELEMENTS,
            read_timeout_seconds: 60,
            write_timeout_seconds: 60,
            idle_timeout_seconds: 900,
            min_receive_rate: 1024,
            loading_wait_seconds: 10,
            reload_wait_seconds: 2,
            shutdown_timeout_seconds: 30,
            check: false,
            environment: FlagEnvironment::default(),
        }
    }
}

/// A flag that is not accepted. Texts are those that start scripts know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say it")]
pub enum FlagError {
    #[error("error parsing options - --{0} parameter requires --layout to be set")]
    LayoutMissing(&'static str),
    #[error("error parsing options - {0}")]
    Preprocessing(#[from] PreprocessingError),
    #[error("Use either config_path or model_path with model_name")]
    FileAndModel,
    #[error("Use config_path or model_path with model_name")]
    ModelMissing,
    #[error("Model parameters in CLI are exclusive with the config file")]
    FileAndParameters,
    #[error("grpc_workers count should be from 1 to CPU core count : {cores}")]
    GrpcWorkers {
        cores: usize,
        /// Value of `GRPC_SERVERS`, if the number is from there.
        variable: Option<u32>,
    },
    #[error("rest_port setting is missing, metrics are enabled on rest port")]
    MetricsWithoutPort,
    #[error("metrics_enable setting is missing, required when metrics_list is provided")]
    MetricsNotEnabled,
    #[error("port and rest_port cannot both be unset")]
    PortsUnset,
    #[error("rest_workers count should be from 2 to 10000")]
    RestWorkers,
    #[error(
        "rest_workers is set but rest_port is not set. rest_port is required to start rest servers"
    )]
    RestWorkersWithoutPort,
    #[error("port number out of range from 0 to 65535")]
    Port,
    #[error("rest_port number out of range from 0 to 65535")]
    RestPort,
    #[error("rest_bind_address has invalid format: proper hostname or IP address expected.")]
    RestBindAddress,
    #[error("grpc_bind_address has invalid format: proper hostname or IP address expected.")]
    GrpcBindAddress,
    #[error("port and rest_port cannot have the same values")]
    SamePorts,
    #[error("management_port number out of range from 0 to 65535")]
    ManagementPort,
    #[error("management_bind_address has invalid format: proper hostname or IP address expected.")]
    ManagementBindAddress,
    #[error("management_port has to be another port than port and rest_port; found {0} twice")]
    ManagementPortTaken(u16),
    #[error("management_bind_address is set but management_port is not set")]
    ManagementAddressWithoutPort,
    #[error(
        "allowed_hosts has invalid format: expected host names and IP addresses without ports, \
         separated by commas, or * for any; found {0}"
    )]
    AllowedHosts(String),
    #[error(
        "File path provided as an --cpu_extension parameter does not exist in the filesystem: {0}"
    )]
    CpuExtension(String),
    #[error("log_level should be one of: TRACE, DEBUG, INFO, WARNING, ERROR")]
    LogLevel,
    #[error(
        "Setting low_latency_transformation, max_sequence_number and idle_sequence_cleanup require setting stateful flag for the model."
    )]
    NotStateful,
    #[error("Setting drain_sequences_seconds requires setting stateful flag for the model.")]
    DrainNotStateful,
    #[error("{0} has characters that an HTTP header cannot have")]
    HeaderText(&'static str),
    #[error("Unable to read API key file {path}: {reason}")]
    ApiKeyFile { path: String, reason: String },
    #[error(
        "options validation error - a graph is started with model_name, model_path and \
         plugin_config alone; found the graph {0}, and beside them {1}"
    )]
    GraphParameters(String, String),
    #[error("python_environment is no folder: {0}")]
    PythonEnvironment(String),
    // From here on not usage errors for the reference either: the server does not start.
    #[error("Grpc channel arguments passed in wrong format - {0}")]
    ChannelArguments(String),
    #[error("Plugin config is in wrong format - {0}")]
    PluginConfig(String),
    #[error(transparent)]
    Shape(#[from] ParseShapeError),
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error("Dynamic shape and dynamic batch size are not supported for stateful models")]
    StatefulAuto,
    #[error(
        "Configuration file not found or cannot open - metrics are set both by metrics_enable and \
         by monitoring in the file; keep one of them"
    )]
    MetricsTwice,
    #[error("Missing rest_port parameter in server CLI - metrics are enabled in the file")]
    FileMetricsWithoutPort,
}

impl FlagError {
    /// Returns whether the command line is wrong, as opposed to the settings of a model or a file.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            Self::ChannelArguments(_)
            | Self::PluginConfig(_)
            | Self::Shape(_)
            | Self::Layout(_)
            | Self::Policy(_)
            | Self::StatefulAuto
            | Self::MetricsTwice
            | Self::FileMetricsWithoutPort => false,
            Self::LayoutMissing(_)
            | Self::Preprocessing(_)
            | Self::FileAndModel
            | Self::ModelMissing
            | Self::FileAndParameters
            | Self::GrpcWorkers { .. }
            | Self::MetricsWithoutPort
            | Self::MetricsNotEnabled
            | Self::PortsUnset
            | Self::RestWorkers
            | Self::RestWorkersWithoutPort
            | Self::Port
            | Self::RestPort
            | Self::RestBindAddress
            | Self::GrpcBindAddress
            | Self::SamePorts
            | Self::ManagementPort
            | Self::ManagementBindAddress
            | Self::ManagementPortTaken(_)
            | Self::ManagementAddressWithoutPort
            | Self::AllowedHosts(_)
            | Self::CpuExtension(_)
            | Self::LogLevel
            | Self::NotStateful
            | Self::DrainNotStateful
            | Self::HeaderText(_)
            | Self::ApiKeyFile { .. }
            | Self::GraphParameters(..)
            | Self::PythonEnvironment(_) => true,
        }
    }
}

#[cfg(test)]
mod tests;
