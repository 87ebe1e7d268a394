//! `ovms pipeline show`.

use std::path::PathBuf;

use crate::error::{Failure, FailureKind};

/// The flags as typed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The configuration file
    config: PathBuf,
}

/// Runs the subcommand.
pub(super) fn run(args: Args) -> Result<(), Failure> {
    Err(Failure::new(
        FailureKind::Bug,
        format!("not there yet: {}", args.config.display()),
    ))
}
