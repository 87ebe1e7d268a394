//! Flags for ports, browser access, and keys.

use std::path::PathBuf;

use super::boolean;

/// Flags about the network.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Network")]
#[group(skip)]
pub(in crate::serve) struct Args {
    /// gRPC port; 0 disables gRPC
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(in crate::serve) port: u32,
    /// REST port; 0 disables REST
    #[arg(long = "rest_port", value_name = "PORT", default_value_t = 0)]
    pub(in crate::serve) rest_port: u32,
    /// Port for health, metrics, and reload only; 0 disables it
    ///
    /// Serves the operator's part of the REST port over HTTP: health, readiness and model states,
    /// /metrics, /v1/config and /v1/config/reload, and the dashboard. Its connections are counted
    /// separately, so that probes are answered when the other ports are full. The REST port stays
    /// the same.
    #[arg(long = "management_port", value_name = "PORT", default_value_t = 0)]
    pub(super) management_port: u32,
    /// Addresses or host names for gRPC, separated by commas [default: 0.0.0.0; with --demo
    /// 127.0.0.1]
    #[arg(long = "grpc_bind_address", value_name = "LIST")]
    pub(super) grpc_bind_address: Option<String>,
    /// Addresses or host names for REST, separated by commas [default: 0.0.0.0; with --demo
    /// 127.0.0.1]
    #[arg(long = "rest_bind_address", value_name = "LIST")]
    pub(super) rest_bind_address: Option<String>,
    /// Addresses or host names for management, separated by commas [default: those of REST]
    #[arg(long = "management_bind_address", value_name = "LIST")]
    pub(super) management_bind_address: Option<String>,
    /// gRPC channel arguments by their names in gRPC C++, such as
    /// grpc.max_concurrent_streams=100,grpc.max_connection_age_ms=60000; unsupported ones are
    /// logged
    #[arg(long = "grpc_channel_arguments", value_name = "LIST")]
    pub(super) grpc_channel_arguments: Option<String>,
    /// Maximum number of concurrent streams of a gRPC connection [default: 128]
    #[arg(
        long = "grpc_max_concurrent_streams",
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(super) grpc_max_concurrent_streams: Option<u32>,
    /// Disable the web dashboard
    #[arg(
        long = "no_dashboard",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true",
        hide_default_value = true,
        hide_possible_values = true,
        value_parser = boolean(),
        action = clap::ArgAction::Set,
        value_name = "BOOL"
    )]
    pub(super) no_dashboard: bool,

    /// Allow cross-origin requests with credentials
    #[arg(
        long = "allow_credentials",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true",
        hide_default_value = true,
        hide_possible_values = true,
        value_parser = boolean(),
        action = clap::ArgAction::Set,
        value_name = "BOOL",
        help_heading = "Access"
    )]
    pub(super) allow_credentials: bool,
    /// Access-Control-Allow-Origin header of responses, except those of management; empty omits it
    #[arg(
        long = "allowed_origins",
        value_name = "TEXT",
        default_value = "*",
        help_heading = "Access"
    )]
    pub(super) allowed_origins: String,
    /// Access-Control-Allow-Methods header of the same responses; empty omits it
    #[arg(
        long = "allowed_methods",
        value_name = "TEXT",
        default_value = "*",
        help_heading = "Access"
    )]
    pub(super) allowed_methods: String,
    /// Access-Control-Allow-Headers header of the same responses; empty omits it
    #[arg(
        long = "allowed_headers",
        value_name = "TEXT",
        default_value = "*",
        help_heading = "Access"
    )]
    pub(super) allowed_headers: String,
    /// Host names under which browsers may use management pages, separated by commas [default:
    /// loopback names and the bound addresses]
    ///
    /// A * allows any, and 0.0.0.0 any numeric address. For browsers, /, /dashboard, /metrics,
    /// /v1/config, and all paths below them are restricted to these names and to pages of the
    /// server itself. Requests without Origin and Sec-Fetch-Site do not count as a browser's.
    #[arg(long = "allowed_hosts", value_name = "LIST", help_heading = "Access")]
    pub(super) allowed_hosts: Option<String>,
    /// File with the API key for /v3, in its first line
    #[arg(long = "api_key_file", value_name = "FILE", help_heading = "Access")]
    pub(super) api_key_file: Option<PathBuf>,
    /// Folder of local files that requests to /v3 may refer to [default: none]
    #[arg(
        long = "allowed_local_media_path",
        value_name = "DIR",
        help_heading = "Access"
    )]
    pub(super) allowed_local_media_path: Option<PathBuf>,
}
