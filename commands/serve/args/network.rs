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
    /// Addresses or host names for gRPC, separated by commas
    #[arg(
        long = "grpc_bind_address",
        value_name = "LIST",
        default_value = "0.0.0.0"
    )]
    pub(super) grpc_bind_address: String,
    /// Addresses or host names for REST, separated by commas
    #[arg(
        long = "rest_bind_address",
        value_name = "LIST",
        default_value = "0.0.0.0"
    )]
    pub(super) rest_bind_address: String,
    /// Settings of gRPC connections by the names of the C++ server's library, as in
    /// grpc.max_concurrent_streams=100,grpc.max_connection_age_ms=60000; those without a
    /// counterpart are named in the log
    #[arg(long = "grpc_channel_arguments", value_name = "LIST")]
    pub(super) grpc_channel_arguments: Option<String>,
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
    /// Access-Control-Allow-Origin of every HTTP answer; an empty text leaves it out
    #[arg(
        long = "allowed_origins",
        value_name = "TEXT",
        default_value = "*",
        help_heading = "Access"
    )]
    pub(super) allowed_origins: String,
    /// Access-Control-Allow-Methods of every HTTP answer; an empty text leaves it out
    #[arg(
        long = "allowed_methods",
        value_name = "TEXT",
        default_value = "*",
        help_heading = "Access"
    )]
    pub(super) allowed_methods: String,
    /// Access-Control-Allow-Headers of every HTTP answer; an empty text leaves it out
    #[arg(
        long = "allowed_headers",
        value_name = "TEXT",
        default_value = "*",
        help_heading = "Access"
    )]
    pub(super) allowed_headers: String,
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
