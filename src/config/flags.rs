//! The flags of `serve` as typed, and their checks: the first that fails is the answer.

use std::{path::PathBuf, time::Duration};

use super::{Config, Limits, ModelConfig, ServerSettings, address, plugin};
use crate::openvino::LoadOptions;

/// The flags as typed. Names and meaning are those of the command line.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "each field is the flag of the same name")]
pub struct Flags {
    pub model_name: Option<String>,
    pub model_path: Option<PathBuf>,
    pub port: u32,
    pub rest_port: u32,
    pub grpc_bind_address: String,
    pub rest_bind_address: String,
    pub log_level: String,
    pub nireq: u32,
    pub target_device: String,
    pub plugin_config: Option<String>,
    pub max_message_size: usize,
    pub max_connections: usize,
    pub max_queued_requests: usize,
    pub read_timeout_seconds: u64,
    pub loading_wait_seconds: u64,
    pub shutdown_timeout_seconds: u64,
}

/// A flag that is not accepted. Texts are those that start scripts know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say it")]
pub enum FlagError {
    #[error("Use config_path or model_path with model_name")]
    ModelMissing,
    #[error("port and rest_port cannot both be unset")]
    PortsUnset,
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
    #[error("log_level should be one of: TRACE, DEBUG, INFO, WARNING, ERROR")]
    LogLevel,
    /// Not a usage error for the reference either: the model does not start.
    #[error("Plugin config is in wrong format - {0}")]
    PluginConfig(String),
}

impl FlagError {
    /// Tells whether the command line is wrong, as against the model's own settings.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        !matches!(self, Self::PluginConfig(_))
    }
}

/// The log levels, from all to least.
const LOG_LEVELS: [&str; 5] = ["TRACE", "DEBUG", "INFO", "WARNING", "ERROR"];

impl Config {
    /// Checks flags.
    ///
    /// # Errors
    ///
    /// Fails with the first flag that is not accepted.
    pub fn from_flags(flags: Flags) -> Result<Self, FlagError> {
        let (Some(name), Some(base_path)) = (flags.model_name, flags.model_path) else {
            return Err(FlagError::ModelMissing);
        };
        if flags.port == 0 && flags.rest_port == 0 {
            return Err(FlagError::PortsUnset);
        }
        let port = u16::try_from(flags.port).map_err(|_| FlagError::Port)?;
        let rest_port = u16::try_from(flags.rest_port).map_err(|_| FlagError::RestPort)?;
        let rest_bind_addresses =
            address::parse_list(&flags.rest_bind_address).ok_or(FlagError::RestBindAddress)?;
        let grpc_bind_addresses =
            address::parse_list(&flags.grpc_bind_address).ok_or(FlagError::GrpcBindAddress)?;
        if port == rest_port {
            return Err(FlagError::SamePorts);
        }
        if !LOG_LEVELS.contains(&flags.log_level.as_str()) {
            return Err(FlagError::LogLevel);
        }
        let properties = plugin::properties(&flags.target_device, flags.plugin_config.as_deref())
            .map_err(FlagError::PluginConfig)?;
        Ok(Self {
            settings: ServerSettings {
                port: (port != 0).then_some(port),
                rest_port: (rest_port != 0).then_some(rest_port),
                grpc_bind_addresses,
                rest_bind_addresses,
                limits: Limits {
                    message_size: flags.max_message_size,
                    connections: flags.max_connections,
                    read: Duration::from_secs(flags.read_timeout_seconds),
                    loading: Duration::from_secs(flags.loading_wait_seconds),
                    shutdown: Duration::from_secs(flags.shutdown_timeout_seconds),
                },
            },
            model: ModelConfig {
                name,
                base_path,
                load: LoadOptions {
                    device: flags.target_device,
                    properties,
                    nireq: flags.nireq,
                    most_waiting: flags.max_queued_requests,
                },
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Config, FlagError, Flags};

    fn flags() -> Flags {
        Flags {
            model_name: Some("dummy".to_owned()),
            model_path: Some("/models/dummy".into()),
            port: 9000,
            rest_port: 8000,
            grpc_bind_address: "0.0.0.0".to_owned(),
            rest_bind_address: "0.0.0.0".to_owned(),
            log_level: "INFO".to_owned(),
            nireq: 0,
            target_device: "CPU".to_owned(),
            plugin_config: None,
            max_message_size: 1 << 30,
            max_connections: 100,
            max_queued_requests: 100,
            read_timeout_seconds: 60,
            loading_wait_seconds: 10,
            shutdown_timeout_seconds: 30,
        }
    }

    fn fault(change: impl FnOnce(&mut Flags)) -> FlagError {
        let mut flags = flags();
        change(&mut flags);
        Config::from_flags(flags).unwrap_err()
    }

    #[test]
    fn the_first_fault_in_order_is_the_answer() {
        // Each row breaks one rule more than the row below it.
        assert_eq!(
            fault(|f| {
                f.model_path = None;
                f.port = 0;
                f.rest_port = 0;
            }),
            FlagError::ModelMissing
        );
        assert_eq!(
            fault(|f| {
                f.port = 0;
                f.rest_port = 0;
                f.log_level = "info".to_owned();
            }),
            FlagError::PortsUnset
        );
        assert_eq!(
            fault(|f| {
                f.port = 65536;
                f.rest_port = 65536;
            }),
            FlagError::Port
        );
        assert_eq!(
            fault(|f| {
                f.rest_port = 65536;
                f.rest_bind_address = "?".to_owned();
            }),
            FlagError::RestPort
        );
        assert_eq!(
            fault(|f| {
                f.rest_bind_address = "?".to_owned();
                f.grpc_bind_address = "?".to_owned();
            }),
            FlagError::RestBindAddress
        );
        assert_eq!(
            fault(|f| {
                f.grpc_bind_address = "?".to_owned();
                f.rest_port = 9000;
            }),
            FlagError::GrpcBindAddress
        );
        assert_eq!(
            fault(|f| {
                f.rest_port = 9000;
                f.log_level = "info".to_owned();
            }),
            FlagError::SamePorts
        );
        assert_eq!(
            fault(|f| {
                f.log_level = "info".to_owned();
                f.plugin_config = Some("{".to_owned());
            }),
            FlagError::LogLevel
        );
        let plugin = fault(|f| f.plugin_config = Some("[]".to_owned()));
        assert!(!plugin.is_usage());
    }

    #[test]
    fn a_port_of_zero_is_no_port() {
        let mut only_rest = flags();
        only_rest.port = 0;
        let config = Config::from_flags(only_rest).unwrap();
        assert_eq!(config.settings.port, None);
        assert_eq!(config.settings.rest_port, Some(8000));
    }
}
