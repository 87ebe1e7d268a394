//! `ovms serve`: flags to settings, signals to a stop, and the exit code.

mod args;
mod check;
mod directives;
pub(crate) mod hints;
pub(crate) mod load_hints;
mod printed;
mod start;
mod summary;

use std::{
    fs,
    future::Future,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use ovms::{
    config::{
        self, AccessLogTarget, CheckDepth, ClientAuth, ClosedPorts, Config, ConfigSource,
        FlagEnvironment, FlagError, Flags, LogFormat, ServerSettings,
    },
    custom_node,
    engine::reload::read_paths,
    error::chain,
    frontends::access,
    model::demo,
    openvino::runtime,
    python,
    server::{self, Listeners},
    trace::{TraceError, TraceSettings, Tracer},
};
use tempfile::TempDir;
use tokio::signal::unix::{Signal, SignalKind, signal as listen_for};

use self::start::Start;
use super::{
    error::{Failure, FailureKind},
    log_file::LogFile,
    logging, places, setup,
    stopped::TOGETHER,
    ui::{self, OutputFormat},
};

pub(crate) use args::{ServeArgs, normalized, overridden, refuse_unmatched};
pub(crate) use check::{is_asked as asks_for_document, of_failure as document_of};
pub(crate) use directives::path_behind;

/// Ports of `--demo` if none is given.
const DEMO_PORTS: (u32, u32) = (9000, 8000);

/// Time limit for writing the last lines of the access log.
const ACCESS_LOG_END: Duration = Duration::from_secs(1);

/// Time limit for the runtime to drop what is left after the server has stopped.
const RUNTIME_END: Duration = Duration::from_secs(1);

/// Serves until a signal, or runs the requested action instead.
pub(crate) fn run(args: ServeArgs) -> Result<(), Failure> {
    if let Some(done) = directives::run(&args) {
        return done;
    }
    let ServeArgs {
        paths,
        mut flags,
        closed,
        output,
    } = args;
    let demo = prepare_demo(&mut flags, closed)?;
    if flags.check != CheckDepth::Off {
        return check::run(flags, paths, closed, output);
    }
    if output == OutputFormat::Json {
        let text = "`--output json` is for --check, --list-models, --add-to-config and \
                    --remove-from-config";
        return Err(Failure::usage(text).hint("the log of a server has `--log-format json`"));
    }
    let log = flags.clone();
    // Where both go to one place, log and error message would say the same twice; a log in JSON has
    // readers of its own.
    let is_seen = ui::outputs_are_one() && log.log_format == LogFormat::Text;
    let log_failure = |error: &dyn std::error::Error| {
        if is_seen {
            tracing::error!(target: logging::FILE_ONLY, "{}", chain(error));
        } else {
            tracing::error!("{}", chain(error));
        }
    };
    // A failed start is logged as well.
    let log_start = |error: &dyn std::error::Error| {
        if logging::start(&log).is_ok() {
            log_failure(error);
        }
    };
    let refused = |error: FlagError| {
        if !error.is_usage() {
            log_start(&error);
        }
        hints::of_flags(&error)
    };
    let is_by_path = !paths.is_empty();
    let mut config = configured(flags, paths, closed).map_err(refused)?;
    places::check_python(&config.settings.flags)?;
    // Read once more when it is served; here its errors are reported before anything else.
    match &config.source {
        ConfigSource::File { path, defaults } => {
            let file = config::read(path, defaults).map_err(|error| {
                log_start(&error);
                hints::explain(&error, "--config-path")
            })?;
            config.add_monitoring(&file).map_err(refused)?;
        }
        ConfigSource::Paths(source) => {
            read_paths(source).map_err(|error| {
                if !error.is_usage() {
                    log_start(&error);
                }
                hints::of_path(&error)
            })?;
        }
        ConfigSource::Model { .. } | ConfigSource::Graph { .. } => {}
    }
    let opened = runtime::open(&places::all()).map_err(|error| setup::explain(&error))?;
    let log_file = logging::start(&log)?;
    let access = logging::start_access(&config.settings.flags)?;
    tracing::info!(
        "ovms {} with OpenVINO {} from {}",
        env!("CARGO_PKG_VERSION"),
        opened.version,
        opened.found.library.display()
    );
    if let (true, ConfigSource::File { path, .. }) = (is_by_path, &config.source) {
        let (folder, path) = (places::folder_of(path).display(), path.display());
        tracing::info!(
            "{folder} has a configuration file, which is served as with --config-path {path}"
        );
    }
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    places::prepare_python(&config.settings.flags, Some(&opened.found.library));
    python::charge(&config.settings.budget);
    let listeners = server::bind(&config.settings).map_err(|error| {
        log_failure(&error);
        hints::of_bind(&error)
    })?;
    let demo_folder = demo.as_ref().map(|it| it.path().display().to_string());
    let start = Start::new(&config.settings, opened, demo_folder);
    announce(&config, demo.as_ref().filter(|_| !start.is_seen()));
    warn_of_strangers(&listeners, &config.settings);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // One worker that is held up for a moment must not hold up everybody.
        .worker_threads(
            std::thread::available_parallelism()
                .map_or(2, usize::from)
                .max(2),
        )
        // A look at what has come, a microsecond, between so many turns: with the usual 61, connections that
        // are always at work kept others waiting for tens of milliseconds.
        .event_interval(8)
        .thread_stack_size(custom_node::STACK_BYTES)
        .enable_all()
        .build()
        .map_err(|error| Failure::system("cannot start threads").caused_by(&error))?;
    let result = runtime.block_on(async {
        let tracer = start_traces(&config.settings.flags)?;
        let access = access.clone().with_tracer(tracer.clone());
        let flush = Duration::from_secs(config.settings.flags.otlp_flush_seconds.into());
        let to_file = matches!(
            config.settings.flags.access_log,
            Some(AccessLogTarget::File(_))
        );
        let reopens = log_file.is_some() || to_file;
        if reopens {
            reopen_on_hangup(log_file, access.clone())?;
        }
        let folder = demo.as_ref().map(|folder| folder.path().to_owned());
        let stop = signal(folder, !reopens && is_hangup_heard())?;
        let served = server::serve(listeners, config, access, &start, stop).await;
        if let Some(tracer) = tracer {
            // While the runtime lives, by which they are sent.
            ovms::task::blocking("traces", move || tracer.close(flush)).await;
        }
        served.map_err(|error| {
            log_failure(&error);
            hints::of_start(&error)
        })
    });
    // What still holds models is dropped before the process is taken down around it. A load that
    // cannot be broken off, or a request that was given up, has no more time than this.
    runtime.shutdown_timeout(RUNTIME_END);
    ui::clear_foot();
    access.flush(ACCESS_LOG_END);
    result
}

/// Starts to send traces, if something asks for them; within the runtime.
fn start_traces(flags: &Flags) -> Result<Option<Arc<Tracer>>, Failure> {
    let failed = |error: TraceError| {
        tracing::error!("{}", chain(&error));
        Failure::of(FailureKind::Failed, &error).hint(error.hint())
    };
    let mut warnings = Vec::new();
    let settings = trace_settings(flags, &mut warnings);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let Some(settings) = settings.map_err(failed)? else {
        return Ok(None);
    };
    let tracer = Tracer::start(settings, env!("CARGO_PKG_VERSION"));
    tracer.map(Some).map_err(failed)
}

/// Reads the settings of traces, and adds warnings of variables whose values are not known.
fn trace_settings(
    flags: &Flags,
    warnings: &mut Vec<String>,
) -> Result<Option<TraceSettings>, TraceError> {
    // What is no text is a value that is not known, as opposed to one that is not there.
    let variable = |name: &str| {
        let value = std::env::var_os(name)?;
        Some(value.to_string_lossy().into_owned())
    };
    TraceSettings::of(flags.otlp_endpoint.as_deref(), variable, warnings)
}

/// Checks the flags, beside the paths of models if there are any.
fn configured(
    mut flags: Flags,
    paths: Vec<PathBuf>,
    closed: ClosedPorts,
) -> Result<Config, FlagError> {
    if paths.is_empty() {
        if flags.config_path.is_some() || flags.model_path.is_some() {
            return Config::from_flags(flags, &environment());
        }
        flags.model_repository_path = directives::repository_path(&flags);
        if flags.model_repository_path.is_none() {
            return Config::from_flags(flags, &environment());
        }
    }
    Config::from_paths_without(flags, paths, closed, &environment())
}

/// Returns the values of flags from the environment.
fn environment() -> FlagEnvironment {
    FlagEnvironment {
        grpc_servers: std::env::var("GRPC_SERVERS").ok(),
        api_key: std::env::var("API_KEY").ok(),
    }
}

/// Unpacks the example and fills in missing flags.
fn prepare_demo(flags: &mut Flags, closed: ClosedPorts) -> Result<Option<TempDir>, Failure> {
    if !flags.demo {
        return Ok(None);
    }
    let folder = demo::unpack()
        .map_err(|error| Failure::failed("cannot unpack the example").caused_by(&error))?;
    flags.model_name = Some(demo::NAME.to_owned());
    flags.model_path = Some(folder.path().to_owned());
    let sockets = [&flags.grpc_unix_socket, &flags.rest_unix_socket];
    if flags.port == 0 && flags.rest_port == 0 && sockets.iter().all(|it| it.is_none()) {
        (flags.port, flags.rest_port) = closed.of(DEMO_PORTS);
    }
    Ok(Some(folder))
}

/// Logs the listening addresses, and a command to try the example if there is one.
fn announce(config: &Config, demo: Option<&TempDir>) {
    let settings = &config.settings;
    let listens = |side: &str, port: Option<u16>, addresses: &[String]| {
        if let Some(port) = port {
            tracing::info!("{side} listens on {} port {port}", addresses.join(", "));
        }
    };
    listens("gRPC", settings.port, &settings.grpc_bind_addresses);
    listens("REST", settings.rest_port, &settings.rest_bind_addresses);
    let addresses = &settings.management_bind_addresses;
    listens("management", settings.management_port, addresses);
    let flags = &settings.flags;
    for (side, path) in [
        ("gRPC", &flags.grpc_unix_socket),
        ("REST", &flags.rest_unix_socket),
    ] {
        if let Some(path) = path {
            let (path, mode) = (path.display(), settings.unix_socket_mode);
            tracing::info!("{side} listens on the Unix socket {path} with mode {mode:04o}");
        }
    }
    if let Some(folder) = demo {
        let folder = folder.path().display().to_string();
        let url = summary::demo_server(settings);
        let arguments = summary::demo_arguments(&folder);
        tracing::info!("try, in another terminal: ovms infer {arguments}{url}");
    }
}

/// Logs that a key is for paths below `/v3` alone; warns if there are identities in its way.
fn warn_of_key(settings: &ServerSettings, has_identities: bool) {
    if settings.api_key.is_none() {
        return;
    }
    let (source, fix) = match settings.flags.api_key_file {
        Some(_) => ("--api-key-file", "leave out --api-key-file"),
        None => ("the variable API_KEY", "unset API_KEY"),
    };
    if has_identities {
        tracing::warn!(
            "--auth and {source} both read the header `authorization`, so POST requests below /v3 need a key that is \
             in both; {fix}: --auth guards /v3 as well"
        );
    } else {
        tracing::info!("{source} is for /v3 only; --auth has keys and rights for all paths");
    }
}

/// Warns that other machines reach the server without authentication: a key guards only paths below `/v3`,
/// where nothing is served. With identities, warns that their keys travel in the clear.
fn warn_of_strangers(listeners: &Listeners, settings: &ServerSettings) {
    let has_identities = listeners.auth.is_some();
    warn_of_key(settings, has_identities);
    let tls = settings.tls.as_ref();
    let reachable = |has_tls| -> Vec<String> {
        let all = listeners.reachable(tls).filter(|(_, it)| *it == has_tls);
        all.map(|(address, _)| address.to_string()).collect()
    };
    let over_tls = reachable(true);
    if tls.is_some_and(|tls| tls.client_auth != ClientAuth::Required)
        && !over_tls.is_empty()
        && !has_identities
    {
        tracing::warn!(
            "other machines can reach {} over TLS without a client certificate, and use or reload what is served; \
             restrict them with --auth or --tls-client-ca",
            over_tls.join(", ")
        );
    }
    let reachable = reachable(false);
    if !reachable.is_empty() && has_identities {
        tracing::warn!(
            "API keys and tokens travel to {} in the clear; give --tls-cert, or put a proxy with TLS in front",
            reachable.join(", ")
        );
    } else if !reachable.is_empty() {
        tracing::warn!(
            "other machines can reach {} without a key or TLS, and use or reload what is served \
             (--api-key-file guards only /v3); bind 127.0.0.1, give --auth and --tls-cert, or put \
             a proxy in front",
            reachable.join(", ")
        );
    }
}

/// Reopens the log files on each SIGHUP. Without files, SIGHUP stops the server.
fn reopen_on_hangup(log_file: LogFile, access: access::AccessLog) -> Result<(), Failure> {
    let mut hangup = listen(SignalKind::hangup())?;
    ovms::task::Task::spawn(async move {
        while hangup.recv().await.is_some() {
            log_file.reopen();
            access.reopen();
            tracing::info!("log files are opened again");
        }
    })
    .detach();
    Ok(())
}

/// Returns whether SIGHUP, sent when the terminal is closed, would end the process. `nohup` ignores it so
/// that the process continues; if the state is unknown, this returns false.
fn is_hangup_heard() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    !is_hangup_ignored(&status).unwrap_or(true)
}

/// Parses the signals that a process ignores: one bit each, the first for SIGHUP.
fn is_hangup_ignored(status: &str) -> Option<bool> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = u64::from_str_radix(mask?.trim(), 16).ok()?;
    Some(mask & 1 == 1)
}

/// Returns a future that resolves at the first SIGINT or SIGTERM, or SIGHUP if requested. The second one
/// ends the process, and removes the temporary folder that would otherwise be left.
fn signal(temporary: Option<PathBuf>, hangup: bool) -> Result<impl Future<Output = ()>, Failure> {
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hangup = hangup.then(|| listen(SignalKind::hangup())).transpose()?;
    let (first, done) = tokio::sync::oneshot::channel();
    ovms::task::Task::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            Some(()) = async { hangup.as_mut()?.recv().await } => {
                tracing::info!("SIGHUP: stopping");
            }
        }
        let _ = first.send(());
        // Both the system and the shell report that a terminal is closed, and `timeout` signals a process
        // and its group, so that these are no second signals.
        let began = Instant::now();
        loop {
            tokio::select! {
                _ = interrupt.recv() => break,
                _ = terminate.recv() => if began.elapsed() > TOGETHER { break },
            }
        }
        tracing::warn!("second signal: exiting at once");
        ui::clear_foot();
        if let Some(folder) = temporary {
            let _ = fs::remove_dir_all(folder);
        }
        std::process::exit(i32::from(FailureKind::Interrupted.code()));
    })
    .detach();
    Ok(async move {
        let _ = done.await;
    })
}

/// Listens for a signal.
fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    listen_for(kind).map_err(|error| Failure::system("cannot listen for signals").caused_by(&error))
}

#[cfg(test)]
mod tests {
    use super::is_hangup_ignored;

    #[test]
    fn the_mask_of_ignored_signals_tells() {
        let of =
            |mask: &str| is_hangup_ignored(&format!("Name:\tovms\nSigIgn:\t{mask}\nSigCgt:\t1\n"));
        assert_eq!(of("0000000000000001"), Some(true));
        assert_eq!(of("8000000000001001"), Some(true));
        assert_eq!(of("0000000000001000"), Some(false));
        assert_eq!(of("-"), None);
        assert_eq!(is_hangup_ignored(""), None);
    }
}
