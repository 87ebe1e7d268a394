//! The configuration file, and files for the runtime.

use std::path::PathBuf;

/// Flags about files.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Configuration file")]
#[group(skip)]
pub(in crate::serve) struct Args {
    /// JSON file with the models to serve, instead of --model_name and --model_path
    #[arg(long = "config_path", value_name = "FILE")]
    pub(in crate::serve) config_path: Option<PathBuf>,
    /// Seconds between two checks of the file and of the version folders; 0 means only on POST
    /// /v1/config/reload
    #[arg(
        long = "file_system_poll_wait_seconds",
        value_name = "N",
        default_value_t = 1
    )]
    pub(super) file_system_poll_wait_seconds: u32,
    /// Seconds between two cleanups of custom node resources; 0 disables them
    #[arg(
        long = "custom_node_resources_cleaner_interval_seconds",
        value_name = "N",
        default_value_t = 300
    )]
    pub(super) custom_node_resources_cleaner_interval_seconds: u32,

    /// Cache folder for compiled models, for a faster start; created if missing [default:
    /// /opt/cache if there is such a folder]
    #[arg(long = "cache_dir", value_name = "DIR", help_heading = "Runtime")]
    pub(in crate::serve) cache_dir: Option<PathBuf>,
    /// Shared library with custom operations for the CPU
    #[arg(long = "cpu_extension", value_name = "FILE", help_heading = "Runtime")]
    pub(super) cpu_extension: Option<PathBuf>,
}
