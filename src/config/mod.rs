//! From flags to checked settings.
//!
//! [`Flags`] are the flags as typed; [`Config::from_flags`] checks them in the order, and with
//! the texts, that start scripts of model servers know. Nothing is checked again later.

mod address;
mod flags;
mod plugin;

use std::{path::PathBuf, time::Duration};

pub use flags::{FlagError, Flags};

use crate::openvino::LoadOptions;

/// Everything that the server needs to know to start.
#[derive(Debug, Clone)]
pub struct Config {
    /// Ports, addresses and limits.
    pub settings: ServerSettings,
    /// The model to serve.
    pub model: ModelConfig,
}

/// Where the server listens, and its bounds.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// The gRPC port; `None` for no gRPC.
    pub port: Option<u16>,
    /// The HTTP port; `None` for no HTTP.
    pub rest_port: Option<u16>,
    /// Addresses or host names that the gRPC port is opened on.
    pub grpc_bind_addresses: Vec<String>,
    /// Addresses or host names that the HTTP port is opened on.
    pub rest_bind_addresses: Vec<String>,
    /// The bounds.
    pub limits: Limits,
}

/// The bounds of everything that could otherwise grow or wait without end.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of a message or body, as sent and as expanded.
    pub message_size: usize,
    /// Connections open at once on each port.
    pub connections: usize,
    /// The longest pause within a request's body, and the time for its header.
    pub read: Duration,
    /// How long a request waits for a version that is loading.
    pub loading: Duration,
    /// How long requests under way may take after the signal to stop.
    pub shutdown: Duration,
}

/// One model to serve.
#[derive(Debug, Clone)]
pub struct ModelConfig {
    /// The name that clients use.
    pub name: String,
    /// The folder with the version folders.
    pub base_path: PathBuf,
    /// How to load it.
    pub load: LoadOptions,
}
