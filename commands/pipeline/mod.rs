//! `ovms pipeline`: draw, check, try and write pipelines, without a server.

pub(crate) mod aside;
pub(crate) mod check;
pub(crate) mod facts;
pub(crate) mod new;
mod run;
pub(crate) mod show;

use std::path::Path;

use clap::Subcommand;
use ovms::python;

use crate::{
    error::{Failure, FailureKind},
    graph,
};

/// Maximum number of pipeline names in a hint.
const MAX_NAMES: usize = 20;

/// Text at the end of the help.
pub(crate) const AFTER_HELP: &str = "\
Examples:
  ovms pipeline new chain both models/first models/second -o config.json
  ovms pipeline show config.json
  ovms pipeline check config.json
  ovms pipeline run config.json both --random

Exit codes: 0 done; 1 failed, or errors were found; 2 warnings only; 64 usage; 72 no OpenVINO \
runtime; 130 Ctrl-C.";

/// Subcommands of `ovms pipeline`.
#[derive(Debug, Subcommand)]
pub(crate) enum PipelineCommand {
    /// Write a configuration file with a pipeline, or the skeleton of a custom node
    New(new::PipelineNewArgs),
    /// Draw a pipeline of a configuration file
    Show(show::PipelineShowArgs),
    /// Find all errors of the pipelines of a configuration file
    Check(check::PipelineCheckArgs),
    /// Run a pipeline once, in this process, and tell where the time goes
    Run(run::PipelineRunArgs),
}

/// Runs a subcommand.
pub(crate) fn run(command: PipelineCommand) -> Result<(), Failure> {
    let result = match command {
        PipelineCommand::New(args) => new::run(args),
        PipelineCommand::Show(args) => show::run(args),
        PipelineCommand::Check(args) => check::run(args),
        PipelineCommand::Run(args) => run::run(args),
    };
    // What handlers of Python nodes have printed.
    python::stop(graph::LIMIT);
    result
}

/// Returns the failure for a missing pipeline, with the names of those in the file.
fn unknown(kind: FailureKind, path: &Path, name: &str, names: &[&str]) -> Failure {
    let path = path.display();
    let text = format!("the configuration file {path} has no pipeline `{name}`");
    let failure = Failure::new(kind, text).hint_nearest(name, names.iter().copied());
    if names.is_empty() {
        return failure.hint("it has no pipelines");
    }
    let reported = names.iter().take(MAX_NAMES);
    let reported: Vec<String> = reported.map(|name| format!("`{name}`")).collect();
    let more = match names.len().saturating_sub(MAX_NAMES) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let noun = if names.len() == 1 {
        "pipeline is"
    } else {
        "pipelines are"
    };
    failure.hint(format!("its {noun} {}{more}", reported.join(", ")))
}
