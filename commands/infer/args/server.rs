//! Flags for the server and the protocol.

use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
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
        value_parser = api(),
        value_name = "PROTOCOL",
        default_value_t = Api::KserveGrpc,
        env = "OVMS_API",
        hide_env_values = true
    )]
    pub(in crate::infer) api: Api,

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

/// Reads protocols by their names.
fn api() -> impl TypedValueParser<Value = Api> {
    let values = [
        ("kserve-grpc", "KServe v2 over gRPC"),
        ("kserve-rest", "KServe v2 over REST"),
        ("tfs-grpc", "TensorFlow Serving over gRPC"),
        ("tfs-rest", "TensorFlow Serving over REST"),
    ];
    let values = values.map(|(name, about)| PossibleValue::new(name).help(about));
    let named = |name: String| Api::ALL.into_iter().find(|api| api.to_string() == name);
    PossibleValuesParser::new(values).map(move |name| named(name).expect("they are all of `Api`"))
}
