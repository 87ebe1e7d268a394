//! `ovms serve`: flags to settings, signals to a stop, and the exit code.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args as _, Command};
use ovms::{
    config::{Config, Flags},
    error::chain,
    model::demo,
    openvino::runtime,
    server,
};
use tempfile::TempDir;

use crate::{
    error::{Failure, FailureKind},
    logging, places, setup,
};

/// The ports of `--demo` when none is given.
const DEMO_PORTS: (u32, u32) = (9000, 8000);

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
    model_name: Option<String>,
    /// Folder with the model's version folders
    #[arg(long = "model_path", value_name = "DIR", help_heading = "Model")]
    model_path: Option<PathBuf>,
    /// Serve the built-in example, a classifier of drawn shapes
    ///
    /// Needs no files. Ports default to 9000 (gRPC) and 8000 (REST).
    #[arg(
        long = "demo",
        help_heading = "Model",
        conflicts_with_all = ["model_name", "model_path"]
    )]
    demo: bool,
    /// Number of infer requests, which is how many inferences run at once; 0 lets the device
    /// choose
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Model")]
    nireq: u32,
    /// Device to run on, such as CPU, GPU, AUTO
    #[arg(
        long = "target_device",
        value_name = "DEVICE",
        default_value = "CPU",
        help_heading = "Model"
    )]
    target_device: String,
    /// Device properties as a JSON object, such as '{"NUM_STREAMS":2}'
    #[arg(long = "plugin_config", value_name = "JSON", help_heading = "Model")]
    plugin_config: Option<String>,

    /// Port for gRPC; 0 means no gRPC
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        help_heading = "Network"
    )]
    port: u32,
    /// Port for REST; 0 means no REST
    #[arg(
        long = "rest_port",
        value_name = "PORT",
        default_value_t = 0,
        help_heading = "Network"
    )]
    rest_port: u32,
    /// Addresses or host names for gRPC, separated by commas
    #[arg(
        long = "grpc_bind_address",
        value_name = "LIST",
        default_value = "0.0.0.0",
        help_heading = "Network"
    )]
    grpc_bind_address: String,
    /// Addresses or host names for REST, separated by commas
    #[arg(
        long = "rest_bind_address",
        value_name = "LIST",
        default_value = "0.0.0.0",
        help_heading = "Network"
    )]
    rest_bind_address: String,

    /// Least important messages to log: TRACE, DEBUG, INFO, WARNING, ERROR
    #[arg(
        long = "log_level",
        value_name = "LEVEL",
        default_value = "INFO",
        help_heading = "Log"
    )]
    log_level: String,
    /// File to log to, besides stdout
    #[arg(long = "log_path", value_name = "FILE", help_heading = "Log")]
    log_path: Option<PathBuf>,

    /// Largest message or body in bytes, as sent and as expanded
    #[arg(
        long = "max_message_size",
        value_name = "BYTES",
        default_value_t = 1 << 30,
        help_heading = "Limits"
    )]
    max_message_size: usize,
    /// Connections open at once on each port; more wait to be accepted
    #[arg(
        long = "max_connections",
        value_name = "N",
        default_value_t = 4096,
        value_parser = at_least_one,
        help_heading = "Limits"
    )]
    max_connections: usize,
    /// Requests of a model that may wait for an infer request; more are refused (UNAVAILABLE,
    /// 503)
    #[arg(
        long = "max_queued_requests",
        value_name = "N",
        default_value_t = 1024,
        help_heading = "Limits"
    )]
    max_queued_requests: usize,
    /// Longest pause within a request that is being received
    #[arg(
        long = "read_timeout_seconds",
        value_name = "N",
        default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..),
        help_heading = "Limits"
    )]
    read_timeout_seconds: u64,
    /// How long a request waits for a version that is loading
    #[arg(
        long = "loading_wait_seconds",
        value_name = "N",
        default_value_t = 10,
        help_heading = "Limits"
    )]
    loading_wait_seconds: u64,
    /// How long requests under way may take after SIGINT or SIGTERM; a second signal ends at once
    #[arg(
        long = "shutdown_timeout_seconds",
        value_name = "N",
        default_value_t = 30,
        help_heading = "Limits"
    )]
    shutdown_timeout_seconds: u64,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("expected at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("expected a number: {error}")),
    }
}

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
            Some(known) if known.get_action().takes_values() && !long.contains('=') => {
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
        let known = command.get_arguments().filter_map(|arg| arg.get_long());
        if let Some(name) = ovms::error::nearest(arg.trim_start_matches('-'), known) {
            failure = failure.hint(format!("for `{arg}`, did you mean `--{name}`?"));
        }
    }
    Err(failure.hint("`ovms serve --help` lists the flags"))
}

/// Serves until a signal.
pub(crate) fn run(mut args: Args) -> Result<(), Failure> {
    let demo = prepare_demo(&mut args)?;
    let log = (args.log_level.clone(), args.log_path.clone());
    let config = Config::from_flags(flags(args)).map_err(|error| {
        let failure = if error.is_usage() {
            Failure::usage_verbatim(error.to_string())
        } else {
            Failure::new(FailureKind::Failed, error.to_string())
        };
        match error {
            ovms::config::FlagError::ModelMissing => {
                failure.hint("give both --model_name and --model_path, or --demo for an example")
            }
            ovms::config::FlagError::PortsUnset => {
                failure.hint("give --port for gRPC, --rest_port for REST, or both")
            }
            _ => failure,
        }
    })?;
    let opened = runtime::open(&places::all()).map_err(|error| setup::explain(&error))?;
    logging::start(&log.0, log.1.as_deref())?;
    tracing::info!(
        "ovms {} with OpenVINO {} from {}",
        env!("CARGO_PKG_VERSION"),
        opened.version,
        opened.found.library.display()
    );
    let listeners = server::bind(&config.settings).map_err(|error| {
        tracing::error!("{}", chain(&error));
        let failure = Failure::new(FailureKind::Failed, error.to_string());
        match &error {
            server::BindError::Busy { port, .. } => failure.hint(format!(
                "another process listens on port {port}; stop it, or choose another port"
            )),
            server::BindError::Address { source, .. } => failure.caused_by(source),
        }
    })?;
    announce(&config, demo.as_ref());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // One worker that is held up for a moment must not hold up everybody.
        .worker_threads(
            std::thread::available_parallelism()
                .map_or(2, usize::from)
                .max(2),
        )
        .enable_all()
        .build()
        .map_err(|error| {
            Failure::new(FailureKind::SystemPart, "cannot start threads").caused_by(&error)
        })?;
    let result = runtime.block_on(async {
        let stop = signal()?;
        server::serve(listeners, config, stop)
            .await
            .map_err(|error| {
                tracing::error!("{}", chain(&error));
                let failure = Failure::new(FailureKind::Failed, error.to_string());
                match std::error::Error::source(&error) {
                    Some(source) => failure.caused_by(source),
                    None => failure,
                }
            })
    });
    // A load that cannot be broken off, or a request that was given up, is not waited for.
    runtime.shutdown_background();
    result
}

/// Unpacks the example and fills in what was not given.
fn prepare_demo(args: &mut Args) -> Result<Option<TempDir>, Failure> {
    if !args.demo {
        return Ok(None);
    }
    let folder = demo::unpack().map_err(|error| {
        Failure::new(FailureKind::Failed, "cannot unpack the example").caused_by(&error)
    })?;
    args.model_name = Some(demo::NAME.to_owned());
    args.model_path = Some(folder.path().to_owned());
    if args.port == 0 && args.rest_port == 0 {
        (args.port, args.rest_port) = DEMO_PORTS;
    }
    Ok(Some(folder))
}

fn flags(args: Args) -> Flags {
    Flags {
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

/// Says where the server listens, and in a demo what to try.
fn announce(config: &Config, demo: Option<&TempDir>) {
    let settings = &config.settings;
    for (side, port, addresses) in [
        ("gRPC", settings.port, &settings.grpc_bind_addresses),
        ("REST", settings.rest_port, &settings.rest_bind_addresses),
    ] {
        if let Some(port) = port {
            tracing::info!("{side} listens on {} port {port}", addresses.join(", "));
        }
    }
    if let Some(folder) = demo {
        let folder = folder.path().display();
        let url = match (settings.port, settings.rest_port) {
            (Some(port), _) => format!("--url localhost:{port}"),
            (None, Some(port)) => format!("--api kserve-rest --url localhost:{port}"),
            (None, None) => String::new(),
        };
        tracing::info!(
            "try, in another terminal: ovms infer {} -i @{folder}/star.png --top 3 --labels \
             {folder}/labels.txt {url}",
            demo::NAME
        );
    }
}

/// Returns a future that is done at the first SIGINT or SIGTERM. The second ends the process.
fn signal() -> Result<impl Future<Output = ()>, Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let listen = |kind| {
        signal(kind).map_err(|error| {
            Failure::new(FailureKind::SystemPart, "cannot listen for signals").caused_by(&error)
        })
    };
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let (first, done) = tokio::sync::oneshot::channel();
    ovms::task::Task::spawn(async move {
        let mut either = async || {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        };
        either().await;
        let _ = first.send(());
        either().await;
        tracing::warn!("second signal; ending at once");
        std::process::exit(i32::from(FailureKind::Interrupted.code()));
    })
    .detach();
    Ok(async move {
        let _ = done.await;
    })
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
            @""
        );
    }
}
