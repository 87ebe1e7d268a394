//! The flags of `ovms serve`, in the reference's spelling, and those that are none.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args as _, Command};
use ovms::config::Flags;

use crate::error::Failure;

/// Arguments of `ovms serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        ovms serve --demo\n  \
        ovms serve --model_name resnet --model_path /models/resnet --port 9000 --rest_port 8000\n\n\
        The model folder holds one folder for each version: /models/resnet/1/model.xml and \
        model.bin.\nThe highest version is served.")]
pub(crate) struct Args {
    /// Name that clients use for the model
    #[arg(long = "model_name", value_name = "NAME", help_heading = "Model")]
    pub(super) model_name: Option<String>,
    /// Folder with the model's version folders
    #[arg(long = "model_path", value_name = "DIR", help_heading = "Model")]
    pub(super) model_path: Option<PathBuf>,
    /// Serve the built-in example, a classifier of drawn shapes
    ///
    /// Needs no files. Ports default to 9000 (gRPC) and 8000 (REST).
    #[arg(
        long = "demo",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true",
        hide_default_value = true,
        hide_possible_values = true,
        action = clap::ArgAction::Set,
        value_name = "BOOL",
        help_heading = "Model",
        conflicts_with_all = ["model_name", "model_path"]
    )]
    pub(super) demo: bool,
    /// Number of infer requests, which is how many inferences run at once; 0 lets the device
    /// choose
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Model")]
    pub(super) nireq: u32,
    /// Device to run on, such as CPU, GPU, AUTO
    #[arg(
        long = "target_device",
        value_name = "DEVICE",
        default_value = "CPU",
        help_heading = "Model"
    )]
    pub(super) target_device: String,
    /// Device properties as a JSON object, such as '{"NUM_STREAMS":2}'
    #[arg(long = "plugin_config", value_name = "JSON", help_heading = "Model")]
    pub(super) plugin_config: Option<String>,

    /// Port for gRPC; 0 means no gRPC
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        help_heading = "Network"
    )]
    pub(super) port: u32,
    /// Port for REST; 0 means no REST
    #[arg(
        long = "rest_port",
        value_name = "PORT",
        default_value_t = 0,
        help_heading = "Network"
    )]
    pub(super) rest_port: u32,
    /// Addresses or host names for gRPC, separated by commas
    #[arg(
        long = "grpc_bind_address",
        value_name = "LIST",
        default_value = "0.0.0.0",
        help_heading = "Network"
    )]
    pub(super) grpc_bind_address: String,
    /// Addresses or host names for REST, separated by commas
    #[arg(
        long = "rest_bind_address",
        value_name = "LIST",
        default_value = "0.0.0.0",
        help_heading = "Network"
    )]
    pub(super) rest_bind_address: String,

    /// Least important messages to log: TRACE, DEBUG, INFO, WARNING, ERROR
    #[arg(
        long = "log_level",
        value_name = "LEVEL",
        default_value = "INFO",
        help_heading = "Log"
    )]
    pub(super) log_level: String,
    /// File to log to, besides stdout
    #[arg(long = "log_path", value_name = "FILE", help_heading = "Log")]
    pub(super) log_path: Option<PathBuf>,

    /// Largest message or body in bytes, as sent and as expanded
    #[arg(
        long = "max_message_size",
        value_name = "BYTES",
        default_value_t = 1 << 30,
        help_heading = "Limits"
    )]
    pub(super) max_message_size: usize,
    /// Connections open at once on each port; more wait to be accepted
    #[arg(
        long = "max_connections",
        value_name = "N",
        default_value_t = 4096,
        value_parser = at_least_one,
        help_heading = "Limits"
    )]
    pub(super) max_connections: usize,
    /// Requests of a model that may wait for an infer request; more are refused (UNAVAILABLE,
    /// 503)
    #[arg(
        long = "max_queued_requests",
        value_name = "N",
        default_value_t = 1024,
        help_heading = "Limits"
    )]
    pub(super) max_queued_requests: usize,
    /// Longest pause within a request that is being received
    #[arg(
        long = "read_timeout_seconds",
        value_name = "N",
        default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..),
        help_heading = "Limits"
    )]
    pub(super) read_timeout_seconds: u64,
    /// How long a request waits for a version that is loading
    #[arg(
        long = "loading_wait_seconds",
        value_name = "N",
        default_value_t = 10,
        help_heading = "Limits"
    )]
    pub(super) loading_wait_seconds: u64,
    /// How long requests under way may take after SIGINT or SIGTERM; a second signal ends at once
    #[arg(
        long = "shutdown_timeout_seconds",
        value_name = "N",
        default_value_t = 30,
        help_heading = "Limits"
    )]
    pub(super) shutdown_timeout_seconds: u64,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("expected at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("expected a number: {error}")),
    }
}

/// Flags of the C++ server that are not there yet; a guess at another flag would mislead.
const NOT_YET: [&str; 35] = [
    "add_to_config",
    "allow_credentials",
    "allowed_headers",
    "allowed_local_media_path",
    "allowed_methods",
    "allowed_origins",
    "api_key_file",
    "batch_size",
    "cache_dir",
    "config_path",
    "cpu_extension",
    "custom_node_resources_cleaner_interval_seconds",
    "file_system_poll_wait_seconds",
    "grpc_channel_arguments",
    "grpc_max_threads",
    "grpc_memory_quota",
    "grpc_workers",
    "idle_sequence_cleanup",
    "layout",
    "list_models",
    "low_latency_transformation",
    "max_sequence_number",
    "metrics_enable",
    "metrics_list",
    "model_repository_path",
    "model_version_policy",
    "overwrite_models",
    "pull",
    "remove_from_config",
    "rest_workers",
    "sequence_cleaner_poll_wait_minutes",
    "shape",
    "source_model",
    "stateful",
    "task",
];

/// Refuses arguments that are no flags of `serve`, all at once and in the words that start
/// scripts know.
pub(crate) fn refuse_unmatched(args: &[OsString]) -> Result<(), Failure> {
    let command = Args::augment_args(Command::new("serve"));
    let flag = |name: &str| {
        command
            .get_arguments()
            .find(|arg| arg.get_long() == Some(name))
    };
    let mut unmatched = Vec::new();
    let mut args = args.iter().map(|arg| arg.to_string_lossy());
    while let Some(arg) = args.next() {
        let Some(long) = arg.strip_prefix("--") else {
            if arg != "-h" {
                unmatched.push(arg.into_owned());
            }
            continue;
        };
        let name = long.split_once('=').map_or(long, |(name, _)| name);
        match flag(name) {
            Some(known)
                if known.get_action().takes_values()
                    && !known.is_require_equals_set()
                    && !long.contains('=') =>
            {
                // What follows is its value, whatever it looks like.
                args.next();
            }
            Some(_) => {}
            None if name == "help" || name == "version" => {}
            None => unmatched.push(arg.into_owned()),
        }
    }
    if unmatched.is_empty() {
        return Ok(());
    }
    let list: String = unmatched.iter().map(|arg| format!("{arg}, ")).collect();
    let mut failure = Failure::usage_verbatim(format!(
        "error parsing options - unmatched arguments: {list}"
    ));
    for arg in &unmatched {
        let name = arg.trim_start_matches('-');
        let name = name.split('=').next().unwrap_or(name);
        if arg.starts_with("--") && NOT_YET.contains(&name) {
            failure = failure.hint(format!(
                "`--{name}` is a flag of the C++ server that this release does not have"
            ));
            continue;
        }
        let known = command.get_arguments().filter_map(|arg| arg.get_long());
        if let Some(name) = ovms::error::nearest(arg.trim_start_matches('-'), known) {
            failure = failure.hint(format!("for `{arg}`, did you mean `--{name}`?"));
        }
    }
    Err(failure.hint("`ovms serve --help` lists the flags"))
}

impl From<Args> for Flags {
    fn from(args: Args) -> Self {
        Self {
            model_name: args.model_name,
            model_path: args.model_path,
            port: args.port,
            rest_port: args.rest_port,
            grpc_bind_address: args.grpc_bind_address,
            rest_bind_address: args.rest_bind_address,
            log_level: args.log_level,
            nireq: args.nireq,
            target_device: args.target_device,
            plugin_config: args.plugin_config,
            max_message_size: args.max_message_size,
            max_connections: args.max_connections,
            max_queued_requests: args.max_queued_requests,
            read_timeout_seconds: args.read_timeout_seconds,
            loading_wait_seconds: args.loading_wait_seconds,
            shutdown_timeout_seconds: args.shutdown_timeout_seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::refuse_unmatched;

    fn refused(args: &[&str]) -> Option<String> {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        refuse_unmatched(&args).err().map(|failure| failure.text())
    }

    #[test]
    fn strangers_are_listed_with_the_nearest_flag() {
        assert_eq!(
            refused(&["--port", "9000", "--demo", "--model_path=x"]),
            None
        );
        assert_eq!(refused(&["--port", "--odd-value-of-port"]), None);
        insta::assert_snapshot!(
            refused(&["--modelname", "x", "--port=1", "--qqq=1"]).unwrap(),
            @"
        error parsing options - unmatched arguments: --modelname, x, --qqq=1, 
        hint: for `--modelname`, did you mean `--model_name`?
        hint: `ovms serve --help` lists the flags
        "
        );
    }
}
