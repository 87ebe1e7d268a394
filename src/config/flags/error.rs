//! Errors of flags.

use std::path::PathBuf;

use crate::{
    config::{
        batching::ParseBatchingError, preprocessing::PreprocessingError, shape::ParseShapeError,
        version_policy::PolicyError,
    },
    quota::ClientLimitsError,
    shared_memory::KeyPrefixError,
    store::StoreAddressError,
    tensor::LayoutError,
};

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
    #[error(
        "model_path is not UTF-8: found {0:?}; rename the file or folder, or link to it by another name"
    )]
    ModelPath(PathBuf),
    #[error("Model parameters in CLI are exclusive with the config file")]
    FileAndParameters,
    #[error(
        "cannot serve {folder} with {}: its {file} says what is served, and with which settings",
        flags.join(", ")
    )]
    FolderAndParameters {
        folder: String,
        /// Name of the configuration file in it.
        file: String,
        flags: Vec<&'static str>,
    },
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
    #[error("{0} number out of range from 0 to 65535")]
    PortRange(&'static str),
    #[error("{0} has invalid format: proper hostname or IP address expected.")]
    BindAddress(&'static str),
    #[error("port and rest_port cannot have the same values")]
    SamePorts,
    #[error("management_port has to be another port than port and rest_port; found {0} twice")]
    ManagementPortTaken(u16),
    #[error("management_bind_address is set but management_port is not set")]
    ManagementAddressWithoutPort,
    #[error("grpc_unix_socket and rest_unix_socket cannot have the same path; found {0} twice")]
    SameUnixSockets(String),
    #[error("unix_socket_mode is set but neither grpc_unix_socket nor rest_unix_socket is set")]
    ModeWithoutUnixSocket,
    #[error(
        "unix_socket_mode has invalid format: expected permission bits in octal from 000 to 0777, such \
         as 0660; found {0}"
    )]
    UnixSocketMode(String),
    #[error("{0} is set but {1} is not set")]
    TlsPair(&'static str, &'static str),
    #[error("tls_client_auth needs CA certificates, but tls_client_ca is not set")]
    ClientAuthWithoutCa,
    #[error("tls_cert is set but no port has TLS")]
    TlsNowhere,
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
    #[error("log_path names a file, and stdout has the log in any case; found -")]
    LogPath,
    #[error(
        "Setting low_latency_transformation, max_sequence_number and idle_sequence_cleanup require setting stateful flag for the model."
    )]
    NotStateful,
    #[error("Setting {0} requires setting stateful flag for the model.")]
    NeedsStateful(&'static str),
    #[error("sequence_store is not the address of a store: {0}")]
    SequenceStore(StoreAddressError),
    #[error("sequence_durability is set but sequence_store is not set")]
    DurabilityWithoutStore,
    #[error(transparent)]
    SharedMemory(#[from] KeyPrefixError),
    #[error(
        "otlp_endpoint has invalid format: expected a URL such as http://collector:4317; found {0}"
    )]
    OtlpEndpoint(String),
    #[error("client_limits has invalid format: {0}")]
    ClientLimits(#[from] ClientLimitsError),
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
    #[error(transparent)]
    Batching(#[from] ParseBatchingError),
    #[error("dynamic_batching is for models without state; use sequence_batch")]
    BatchingStateful,
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
        "Configuration file not found or cannot open - metrics_enable and monitoring in the configuration file are both \
         given; keep one of them"
    )]
    MetricsTwice,
    #[error("Missing rest_port parameter in server CLI - metrics are enabled in the file")]
    FileMetricsWithoutPort,
}

impl FlagError {
    /// Returns whether the command line is wrong, as opposed to the settings of a model or a file.
    pub fn is_usage(&self) -> bool {
        !matches!(
            self,
            Self::ChannelArguments(_)
                | Self::PluginConfig(_)
                | Self::Shape(_)
                | Self::Layout(_)
                | Self::Policy(_)
                | Self::StatefulAuto
                | Self::MetricsTwice
                | Self::FileMetricsWithoutPort
        )
    }
}
