//! `ovms`: the command line of the OpenVINO Model Server.
//!
//! Parses, runs one subcommand, prints a failure, and returns its exit code. What the
//! subcommands do is in the library; what they print is here.

mod apart;
mod bench;
mod check;
mod cli;
mod completions;
mod diagrams;
mod doctor;
mod error;
mod error_format;
mod graph;
mod infer;
mod key;
mod local;
mod log_file;
mod logging;
mod man;
mod pipeline;
mod places;
mod quiet;
mod serve;
mod setup;
mod spelling;
mod stdout_guard;
mod stopped;
mod ui;
mod written_files;

use std::{panic::catch_unwind, process::ExitCode};

use error::{Failure, FailureKind};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    // Before anything else: a shell waits.
    if completions::answer() {
        return ExitCode::SUCCESS;
    }
    // Before there is any other thread.
    ovms::openvino::spare_binding();
    match catch_unwind(|| cli::run(std::env::args_os())) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => failure.print(),
        // The panic has printed where it was.
        Err(_) => Failure::new(FailureKind::Bug, "internal error: this is a bug in ovms")
            .hint("report it with the lines above and the command that you ran")
            .print(),
    }
}
