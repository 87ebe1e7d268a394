//! `ovms completions`: the completion script of a shell, printed or installed.
//!
//! `script` writes it from the command line's own description; it calls `ovms complete` for
//! names. `install` knows the locations of each shell.

mod install;
mod script;

use std::path::Path;

use clap_complete::Shell;

use crate::{
    error::{Failure, FailureKind},
    ui,
};

const AFTER_HELP: &str = "\
Flags, their values and files are in the script. Names are asked for while you type: the \
servables, inputs, outputs and versions of the server at --url, OVMS_URL or localhost, and the \
pipelines and graphs of the configuration file on the line. Where no server answers, the \
servables are those of the configuration file that OVMS_CONFIG names. If there is none to ask, or \
it takes longer than a moment, there are no names.

--install writes below your home folder and changes no other file; what is left to do is said.

Examples:
  ovms completions --install
  ovms completions zsh --install
  source <(ovms completions bash)

Exit codes: 0 done; 1 the script cannot be written; 64 usage, also a shell that is not known.";

/// Arguments of `ovms completions`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct CompletionsArgs {
    /// Shell [default: that of the variable SHELL]
    #[arg(value_enum)]
    shell: Option<Shell>,

    /// Write the script to where the shell looks for it, and say what is left to do
    #[arg(long)]
    install: bool,
}

/// Writes the script of one shell.
pub(crate) fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    let shell = match args.shell {
        Some(shell) => shell,
        None => of_environment()?,
    };
    let script = script::write(shell);
    if args.install {
        return install::write(shell, &script);
    }
    ui::print(script)
}

/// Returns the shell of the user.
fn of_environment() -> Result<Shell, Failure> {
    let variable = std::env::var_os("SHELL").filter(|value| !value.is_empty());
    let Some(variable) = variable else {
        let text = "no shell is named, and the variable SHELL is not set";
        return Err(named_ones(Failure::new(FailureKind::Usage, text)));
    };
    Shell::from_shell_path(Path::new(&variable)).ok_or_else(|| {
        let shown = Path::new(&variable).display();
        let text = format!("there are no completions for {shown}, which SHELL names");
        named_ones(Failure::new(FailureKind::Usage, text))
    })
}

fn named_ones(failure: Failure) -> Failure {
    failure.hint("name one: ovms completions bash, zsh, fish, powershell or elvish")
}
