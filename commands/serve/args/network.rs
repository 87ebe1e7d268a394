//! Ports, what browsers are told, and keys.

use std::path::PathBuf;

use super::boolean;

/// Flags about the network.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Network")]
#[group(skip)]
pub(in crate::serve) struct Args {
    /// Port for gRPC; 0 means no gRPC
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(in crate::serve) port: u32,
    /// Port for REST; 0 means no REST
    #[arg(long = "rest_port", value_name = "PORT", default_value_t = 0)]
    pub(in crate::serve) rest_port: u32,
    /// Port for health, metrics, and reload alone; 0 means none
    ///
    /// It serves over HTTP what the REST port has for those who run the server: health, readiness and states of
    /// models, /metrics, /v1/config and /v1/config/reload, and the page at /. Its connections are counted apart:
    /// probes are answered when all those of the other ports are taken. What the REST port serves stays the same.
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
    /// Settings of gRPC connections by the names of the C++ server's library, as in
    /// grpc.max_concurrent_streams=100,grpc.max_connection_age_ms=60000; those without a
    /// counterpart are named in the log
    #[arg(long = "grpc_channel_arguments", value_name = "LIST")]
    pub(super) grpc_channel_arguments: Option<String>,
    /// Calls that one gRPC connection may have open at once [default: 128]
    #[arg(
        long = "grpc_max_concurrent_streams",
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(super) grpc_max_concurrent_streams: Option<u32>,
    /// Leave out the page at / of the REST port, which shows browsers what is served and how it
    /// does
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

    /// Let browsers send credentials from other origins
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
    /// Access-Control-Allow-Origin of HTTP answers but those of management; an empty text leaves it
    /// out
    #[arg(
        long = "allowed_origins",
        value_name = "TEXT",
        default_value = "*",
        help_heading = "Access"
    )]
    pub(super) allowed_origins: String,
    /// Access-Control-Allow-Methods of the same answers; an empty text leaves it out
    #[arg(
        long = "allowed_methods",
        value_name = "TEXT",
        default_value = "*",
        help_heading = "Access"
    )]
    pub(super) allowed_methods: String,
    /// Access-Control-Allow-Headers of the same answers; an empty text leaves it out
    #[arg(
        long = "allowed_headers",
        value_name = "TEXT",
        default_value = "*",
        help_heading = "Access"
    )]
    pub(super) allowed_headers: String,
    /// Hosts, separated by commas, that browsers may manage [default: loopback names and the bound
    /// addresses]
    ///
    /// A * means any, and 0.0.0.0 any numeric address. Under these names alone, and only for pages
    /// of the server's own, browsers may use /, /dashboard, /metrics, /v1/config, and what is
    /// below. Requests without Origin and Sec-Fetch-Site are not those of browsers.
    #[arg(long = "allowed_hosts", value_name = "LIST", help_heading = "Access")]
    pub(super) allowed_hosts: Option<String>,
    /// File whose first line is the key that clients of /v3 must send
    #[arg(long = "api_key_file", value_name = "FILE", help_heading = "Access")]
    pub(super) api_key_file: Option<PathBuf>,
    /// Folder of local files that requests to /v3 may name [default: none]
    #[arg(
        long = "allowed_local_media_path",
        value_name = "DIR",
        help_heading = "Access"
    )]
    pub(super) allowed_local_media_path: Option<PathBuf>,
}
