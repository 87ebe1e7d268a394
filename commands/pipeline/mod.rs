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

/// The subcommands of `ovms pipeline`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Draw a pipeline of a configuration file
    Show(show::Args),
    /// Find every fault of the pipelines of a configuration file
    Check(check::Args),
    /// Run a pipeline once, in this process, and tell where the time goes
    Run(run::Args),
    /// Write a configuration file with a pipeline, or the skeleton of a custom node
    New(new::Args),
}

/// Runs a subcommand.
pub(crate) fn run(command: Command) -> Result<(), Failure> {
    let result = match command {
        Command::Show(args) => show::run(args),
        Command::Check(args) => check::run(args),
        Command::Run(args) => run::run(args),
        Command::New(args) => new::run(args),
    };
    // What handlers of Python nodes have printed.
    python::stop(graph::LIMIT);
    result
}
