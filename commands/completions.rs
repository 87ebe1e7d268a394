//! Completion scripts, written from the command line's own description.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{cli::Cli, error::Failure};

/// Arguments of `ovms completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Writes the script of one shell to stdout.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ovms", &mut script);
    std::io::Write::write_all(&mut std::io::stdout(), &script)?;
    Ok(())
}
