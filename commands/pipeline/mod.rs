//! `ovms pipeline`: draw, check, try and write pipelines, without a server.

pub(crate) mod aside;
mod check;
pub(crate) mod facts;
pub(crate) mod new;
mod run;
pub(crate) mod show;

use clap::Subcommand;

use ovms::python;

use crate::{error::Failure, graph};

/// What ends the help.
pub(crate) const AFTER_HELP: &str = "\
Examples:
  ovms pipeline new chain both models/first models/second -o config.json
  ovms pipeline show config.json
  ovms pipeline check config.json
  ovms pipeline run config.json both --random

Exit codes: 0 done; 1 failed, or faults were found; 2 warnings only; 64 usage; 72 no OpenVINO \
runtime; 130 Ctrl-C.";

/// The subcommands of `ovms pipeline`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a configuration file with a pipeline, or the skeleton of a custom node
    New(new::Args),
    /// Draw a pipeline of a configuration file
    Show(show::Args),
    /// Find every fault of the pipelines of a configuration file
    Check(check::Args),
    /// Run a pipeline once, in this process, and tell where the time goes
    Run(run::Args),
}

/// Runs a subcommand.
pub(crate) fn run(command: Command) -> Result<(), Failure> {
    let result = match command {
        Command::New(args) => new::run(args),
        Command::Show(args) => show::run(args),
        Command::Check(args) => check::run(args),
        Command::Run(args) => run::run(args),
    };
    // What handlers of Python nodes have printed.
    python::stop(graph::LIMIT);
    result
}
