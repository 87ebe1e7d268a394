//! The settings of the server as a whole: where it listens, what it answers with, its bounds.

use std::{convert::Infallible, path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use serde::Serialize;

use super::flags::Flags;
use crate::budget::Budget;

/// Addresses that the server listens on, and its behaviour towards all clients: the flags, and what
/// comes of those whose texts have a form.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// The flags, without those of a single model.
    pub flags: Arc<Flags>,
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
    /// Memory budget shared by all requests and responses.
    pub budget: Budget,
    /// Hosts under whose names browsers may use management paths, `*` for any; those of this machine
    /// for itself and the bound addresses if `None`.
    pub allowed_hosts: Option<Vec<String>>,
    /// Settings of `/metrics`.
    pub metrics: MetricsSettings,
    /// Settings of the C++ server's gRPC library.
    pub grpc_channel_arguments: Vec<(String, ChannelArgument)>,
    /// The key that clients of `/v3` must have; anyone may ask if `None`.
    pub api_key: Option<String>,
}

impl ServerSettings {
    /// Returns whether there is any port for HTTP.
    pub fn has_http(&self) -> bool {
        self.rest_port.is_some() || self.management_port.is_some()
    }

    /// Returns the interval between checks of the configuration file and version folders; no checks
    /// if `None`.
    pub fn poll(&self) -> Option<Duration> {
        let seconds = self.flags.file_system_poll_wait_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// Returns the interval between removals of idle sequences; no removals if `None`.
    pub fn sequence_cleaner_poll(&self) -> Option<Duration> {
        let minutes = self.flags.sequence_cleaner_poll_wait_minutes;
        (minutes > 0).then(|| Duration::from_secs(60 * u64::from(minutes)))
    }
}

/// Settings of `/metrics`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MetricsSettings {
    /// Whether the endpoint is enabled.
    pub enable: bool,
    /// Names of the families, as given; the default ones if `None`.
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

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl FromStr for LogFormat {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(()),
        }
    }
}

/// Destination of the access log, with a line for each request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum AccessLogTarget {
    /// Standard output.
    Stdout,
    /// A file, to whose end lines are added.
    File(PathBuf),
}

impl FromStr for AccessLogTarget {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "-" => Self::Stdout,
            path => Self::File(path.into()),
        })
    }
}

/// Extent of a check in place of serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum CheckDepth {
    /// No check.
    Off,
    /// Flags and files alone: nothing that they name is opened.
    Syntax,
    /// Everything that a server would load is opened and read.
    Full,
}

impl FromStr for CheckDepth {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "t" => Ok(Self::Full),
            "false" | "0" | "f" => Ok(Self::Off),
            "syntax" => Ok(Self::Syntax),
            _ => Err("expected true, false or syntax"),
        }
    }
}
