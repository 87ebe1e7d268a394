//! `ovms pipeline`: draw, check, try and write pipelines, without a server.

pub(crate) mod aside;
pub(crate) mod check;
pub(crate) mod facts;
pub(crate) mod new;
mod run;
pub(crate) mod show;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use ovms::{config::FileConfig, python};

use crate::{
    error::{Failure, FailureKind},
    graph, ui,
};

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
    /// Run a pipeline once, in this process, and show where the time goes
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

/// Returns the configuration file that a path stands for: of a folder, the `config.json` in it.
pub(crate) fn config_of(path: PathBuf) -> PathBuf {
    match path.is_dir() {
        true => path.join("config.json"),
        false => path,
    }
}

/// Returns the failure for a pipeline or graph, as `noun` says, that the file does not have or that is
/// left out, with the names of those in the file.
pub(crate) fn missing(
    noun: &str,
    path: &Path,
    file: &FileConfig,
    name: &str,
    names: &[&str],
) -> Failure {
    // What the file has is no mistake of the command line.
    let kind = match file.refused.iter().any(|entry| entry.name == name) {
        true => FailureKind::Failed,
        false => FailureKind::Usage,
    };
    refused(file, unknown(kind, noun, path, name, names))
}

/// Adds the other errors of the file, about entries that are left out.
pub(crate) fn refused(file: &FileConfig, failure: Failure) -> Failure {
    file.refused.iter().fold(failure, |failure, entry| {
        failure.detail(format!(
            "`{}` in line {} is left out: {}",
            entry.name, entry.place.line, entry.reason
        ))
    })
}

fn unknown(kind: FailureKind, noun: &str, path: &Path, name: &str, names: &[&str]) -> Failure {
    let path = path.display();
    let text = format!("the configuration file {path} has no {noun} `{name}`");
    let failure = Failure::new(kind, text).hint_nearest(name, names.iter().copied());
    if names.is_empty() {
        return failure.hint(format!("it has no {noun}s"));
    }
    let are = if names.len() == 1 { " is" } else { "s are" };
    failure.hint(format!("its {noun}{are} {}", ui::quoted_names(names)))
}
