//! `ovms serve`: flags to settings, signals to a stop, and the exit code.

mod args;
mod hints;

use std::{io::IsTerminal, path::PathBuf};

use ovms::{config::Config, error::chain, model::demo, openvino::runtime, server};
use tempfile::TempDir;

pub(crate) use args::{Args, refuse_unmatched};

use crate::{
    error::{Failure, FailureKind},
    logging, places, setup,
};

/// The ports of `--demo` when none is given.
const DEMO_PORTS: (u32, u32) = (9000, 8000);

/// Serves until a signal.
pub(crate) fn run(mut args: Args) -> Result<(), Failure> {
    let demo = prepare_demo(&mut args)?;
    let log = (args.log_level.clone(), args.log_path.clone());
    // On a terminal, log and error message would say the same twice.
    let log_failure = |error: &dyn std::error::Error, path_given: bool| {
        let both_seen = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
        if path_given || !both_seen {
            tracing::error!("{}", chain(error));
        }
    };
    let config = Config::from_flags(args.into()).map_err(|error| {
        let failure = if error.is_usage() {
            Failure::usage_verbatim(error.to_string())
        } else {
            // A failed start is told in the log as well.
            if logging::start(&log.0, log.1.as_deref()).is_ok() {
                log_failure(&error, log.1.is_some());
            }
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
        log_failure(&error, log.1.is_some());
        hints::of_bind(&error)
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
        let stop = signal(demo.as_ref().map(|folder| folder.path().to_owned()))?;
        server::serve(listeners, config, stop)
            .await
            .map_err(|error| {
                log_failure(&error, log.1.is_some());
                hints::of_start(&error)
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

/// Returns a future that is done at the first SIGINT or SIGTERM. The second ends the process, and
/// removes the temporary folder that nobody else then would.
fn signal(temporary: Option<PathBuf>) -> Result<impl Future<Output = ()>, Failure> {
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
        if let Some(folder) = temporary {
            let _ = std::fs::remove_dir_all(folder);
        }
        std::process::exit(i32::from(FailureKind::Interrupted.code()));
    })
    .detach();
    Ok(async move {
        let _ = done.await;
    })
}
