//! `ovms`: the command line of the OpenVINO Model Server.
//!
//! Parses, runs one subcommand, prints a failure, and returns its exit code. What the
//! subcommands do is in the library; what they print is here.

mod cli;
mod completions;
mod error;
mod infer;
mod logging;
mod places;
mod serve;
mod setup;
mod ui;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::run(std::env::args_os()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.print(),
    }
}
