//! Log of `ovms serve`, on stdout and optionally in a file, and destination of the access log.

mod indented;

use std::{
    fs::{File, OpenOptions},
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use arc_swap::ArcSwap;
use ovms::{
    config::{AccessLogTarget, Flags, LogFormat},
    frontends::access::AccessLog,
};
use tracing_subscriber::{
    Layer, Registry,
    filter::{LevelFilter, Targets},
    fmt::{self, MakeWriter},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use self::indented::Indented;
use crate::{error::Failure, ui};

/// Target of events for the log file alone, which stdout has already.
pub(crate) const FILE_ONLY: &str = "ovms::start";

/// Log file, if there is one.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogFile(Option<(PathBuf, Arc<ArcSwap<File>>)>);

impl LogFile {
    /// Returns whether there is a file.
    pub(crate) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// Reopens the file, for log rotation.
    pub(crate) fn reopen(&self) {
        let Some((path, file)) = &self.0 else {
            return;
        };
        match append(path) {
            Ok(opened) => file.store(Arc::new(opened)),
            Err(error) => tracing::error!("cannot open {} again: {error}", path.display()),
        }
    }
}

/// Starts the log.
pub(crate) fn start(flags: &Flags) -> Result<LogFile, Failure> {
    let level = match flags.log_level.as_str() {
        "TRACE" => tracing::Level::TRACE,
        "DEBUG" => tracing::Level::DEBUG,
        "WARNING" => tracing::Level::WARN,
        "ERROR" => tracing::Level::ERROR,
        _ => tracing::Level::INFO,
    };
    // Libraries below speak up only when they have a warning; TRACE shows everything.
    let filter = if level == tracing::Level::TRACE {
        Targets::new().with_default(level)
    } else {
        Targets::new()
            .with_default(level.min(tracing::Level::WARN))
            .with_target("ovms", level)
            // It warns of what clients send, a line for each frame.
            .with_target("h2", LevelFilter::ERROR)
    };
    let colour =
        io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|it| it.is_empty());
    let for_stdout = filter.clone().with_target(FILE_ONLY, LevelFilter::OFF);
    let stdout = layer(flags.log_format, colour, || ui::Stdout).with_filter(for_stdout);
    let mut layers = vec![stdout.boxed()];
    let mut log_file = LogFile::default();
    if let Some(path) = &flags.log_path {
        let file = append(path).map_err(|error| Failure::cannot("open log file", path, &error))?;
        let file = Arc::new(ArcSwap::from_pointee(file));
        let present = Arc::clone(&file);
        let lines = layer(flags.log_format, false, move || present.load_full());
        layers.push(lines.with_filter(filter).boxed());
        log_file = LogFile(Some((path.clone(), file)));
    }
    tracing_subscriber::registry().with(layers).init();
    Ok(log_file)
}

fn layer<W>(
    format: LogFormat,
    colour: bool,
    writer: W,
) -> Box<dyn Layer<Registry> + Send + Sync + 'static>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    match format {
        LogFormat::Text => fmt::layer()
            .with_writer(Indented(writer))
            .with_ansi(colour)
            .with_target(false)
            .boxed(),
        LogFormat::Json => fmt::layer()
            .with_writer(writer)
            .with_ansi(colour)
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .boxed(),
    }
}

/// Starts the access log, if one is configured.
pub(crate) fn start_access(flags: &Flags) -> Result<AccessLog, Failure> {
    let Some(place) = flags.access_log.clone() else {
        return Ok(AccessLog::default());
    };
    let name = match &place {
        AccessLogTarget::Stdout => "on stdout".to_owned(),
        AccessLogTarget::File(path) => path.display().to_string(),
    };
    let open = move || -> io::Result<Box<dyn Write + Send>> {
        Ok(match &place {
            AccessLogTarget::Stdout => Box::new(ui::Stdout),
            AccessLogTarget::File(path) => Box::new(append(path)?),
        })
    };
    AccessLog::start(flags.log_format, Box::new(open)).map_err(|error| {
        Failure::failed(format!("cannot open access log {name}")).caused_by(&error)
    })
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}
