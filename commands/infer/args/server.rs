//! Flags for the server and the protocol.

use std::time::Duration;

use clap::ValueEnum;
use ovms::client::Api;

use super::secret_pair;
use crate::infer::{duration::duration, job::URL};

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Server")]
pub(in crate::infer) struct ServerArgs {
    /// Address of the server [default: localhost:9000, or localhost:8000 over REST]
    #[arg(long, value_name = "HOST:PORT", env = URL, hide_env_values = true)]
    pub(in crate::infer) url: Option<String>,

    /// Protocol to use
    #[arg(
        long,
        value_enum,
        value_name = "PROTOCOL",
        default_value_t = ApiArg::KserveGrpc,
        env = "OVMS_API",
        hide_env_values = true
    )]
    pub(in crate::infer) api: ApiArg,

    /// Timeout of the connection and of each request
    #[arg(
        long,
        value_name = "TIME",
        value_parser = duration,
        default_value = "30s",
        env = "OVMS_TIMEOUT",
        hide_env_values = true
    )]
    pub(in crate::infer) timeout: Duration,

    /// HTTP header or gRPC metadata to send with each request
    ///
    /// Can be repeated. The environment variable has one per line.
    #[arg(
        long,
        value_name = "KEY=VALUE",
        value_parser = secret_pair,
        value_delimiter = '\n',
        env = "OVMS_HEADER",
        hide_env_values = true
    )]
    pub(in crate::infer) header: Vec<(String, String)>,
}

/// Protocols by their names in flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::infer) enum ApiArg {
    /// KServe v2 over gRPC
    KserveGrpc,
    /// KServe v2 over REST
    KserveRest,
    /// TensorFlow Serving over gRPC
    TfsGrpc,
    /// TensorFlow Serving over REST
    TfsRest,
}

impl From<ApiArg> for Api {
    fn from(api: ApiArg) -> Self {
        match api {
            ApiArg::KserveGrpc => Self::KserveGrpc,
            ApiArg::KserveRest => Self::KserveRest,
            ApiArg::TfsGrpc => Self::TfsGrpc,
            ApiArg::TfsRest => Self::TfsRest,
        }
    }
}
