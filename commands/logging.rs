//! The log of `ovms serve`: to stdout, and to a file if one is named.

use std::{fs::OpenOptions, io::IsTerminal, path::Path};

use tracing_subscriber::{
    Layer, filter::Targets, fmt, layer::SubscriberExt, util::SubscriberInitExt,
};

use crate::error::{Failure, FailureKind};

/// Starts the log at a level of the server's own words: TRACE, DEBUG, INFO, WARNING, ERROR.
pub(crate) fn start(level: &str, path: Option<&Path>) -> Result<(), Failure> {
    let level = match level {
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
    };
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let console = fmt::layer().with_target(false).with_ansi(colour);
    let file = match path {
        None => None,
        Some(path) => {
            let file = OpenOptions::new()
                .create(true)
                .append(true)
                .open(path)
                .map_err(|error| {
                    Failure::new(
                        FailureKind::Failed,
                        format!("cannot open log file {}", path.display()),
                    )
                    .caused_by(&error)
                })?;
            let layer = fmt::layer().with_target(false).with_ansi(false);
            Some(layer.with_writer(std::sync::Mutex::new(file)))
        }
    };
    tracing_subscriber::registry()
        .with(console.and_then(file).with_filter(filter))
        .init();
    Ok(())
}
