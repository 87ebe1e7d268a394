//! Log of `ovms serve`, on stdout and optionally in a file, and destination of the access log.

use std::{
    fs::OpenOptions,
    io::{self, IsTerminal, Write},
    path::Path,
};

use ovms::{
    config::{AccessLogTarget, Flags, LogFormat},
    frontends::access::AccessLog,
};
use tracing_subscriber::{
    Layer, Registry,
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use super::{
    error::Failure,
    log_file::{LogFile, append},
    ui,
};

/// Target of events for the log file alone, which stdout has already.
pub(crate) const FILE_ONLY: &str = "ovms::start";

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
        let opened = LogFile::open(path);
        log_file = opened.map_err(|error| Failure::cannot("open log file", path, &error))?;
    }
    if let Some(writer) = log_file.writer() {
        let lines = layer(flags.log_format, false, move || writer.clone());
        layers.push(lines.with_filter(filter).boxed());
    }
    tracing_subscriber::registry().with(layers).init();
    Ok(log_file)
}

fn layer<W: Write + 'static>(
    format: LogFormat,
    colour: bool,
    writer: impl Fn() -> W + Send + Sync + 'static,
) -> Box<dyn Layer<Registry> + Send + Sync> {
    match format {
        LogFormat::Text => fmt::layer()
            .with_writer(move || Lines(writer()))
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

/// Returns the errors of logs that a start would not open. No file is made.
pub(crate) fn unwritable(flags: &Flags) -> Vec<String> {
    let access = match &flags.access_log {
        Some(AccessLogTarget::File(path)) => Some(path),
        Some(AccessLogTarget::Stdout) | None => None,
    };
    let audit = flags
        .audit_log
        .as_ref()
        .filter(|path| path.as_os_str() != "-");
    let logs = [
        ("log file", flags.log_path.as_ref()),
        ("access log", access),
        ("audit log", audit),
    ];
    let logs = logs
        .into_iter()
        .filter_map(|(what, path)| Some((what, path?)));
    let refused = logs.filter_map(|(what, path)| {
        let error = OpenOptions::new().append(true).open(path).err()?;
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let is_new = error.kind() == io::ErrorKind::NotFound && folder.is_dir();
        (!is_new).then(|| format!("cannot open {what} {}: {error}", path.display()))
    });
    refused.collect()
}

/// Indent of each further line of an event.
const INDENT: &str = "    ";

/// Writer that receives whole events.
struct Lines<W>(W);

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let whole = event.strip_suffix(b"\n").unwrap_or(event);
        if whole.iter().any(|byte| breaks(*byte)) {
            // In one piece, so that no other event gets between it and its end.
            let mut text = indented(whole);
            text.extend_from_slice(&event[whole.len()..]);
            self.0.write_all(&text)?;
        } else {
            self.0.write_all(event)?;
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Returns whether a byte begins a line, overwrites one, or makes a file binary.
const fn breaks(byte: u8) -> bool {
    matches!(byte, 0 | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Indents further lines. Other line breaks are shown escaped.
fn indented(event: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(event.len() + 64);
    for byte in event {
        match byte {
            b'\n' => {
                text.push(b'\n');
                text.extend_from_slice(INDENT.as_bytes());
            }
            byte if breaks(*byte) => text.extend(byte.escape_ascii()),
            byte => text.push(*byte),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::Lines;

    #[test]
    fn only_an_event_begins_a_line() {
        let mut written = Vec::new();
        let mut lines = Lines(&mut written);
        lines.write_all(b"INFO a\n").unwrap();
        lines
            .write_all(b"ERROR Traceback:\n  File\r\nERROR forged\0\n")
            .unwrap();
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "INFO a\nERROR Traceback:\n      File\\r\n    ERROR forged\\x00\n"
        );
    }
}
