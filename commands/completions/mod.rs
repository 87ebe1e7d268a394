//! Completions: `ovms completions`, which prints or installs a shell's script, and the answers that
//! the scripts ask for with the variable `COMPLETE`.
//!
//! `shells` has the scripts and their answers, which are those of `clap_complete`'s engine. Where an
//! argument is a name that only a server or a file knows, its attribute has a completer of `names`.

pub(crate) mod names;
mod shells;

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use clap::{Command, CommandFactory, ValueHint};
use clap_complete::{ArgValueCandidates, CompleteEnv, CompletionCandidate, Shell};

use self::shells::SHELLS;
use super::{cli::Cli, error::Failure, places, ui};

const AFTER_HELP: &str = "\
The script completes flags, their values and files; servables, inputs, outputs and versions of the \
server at --url, OVMS_URL or localhost; and pipelines and graphs of the configuration file on the \
command line. If no server answers, servables come from the configuration file that OVMS_CONFIG \
names. Names are omitted if they cannot be found quickly.

--install writes one file below your home folder, and prints the remaining steps.

Examples:
  ovms completions --install
  ovms completions zsh --install
  source <(ovms completions bash)

Exit codes: 0 done; 1 the script cannot be written; 64 usage, or an unknown shell.";

/// The name of the program.
const NAME: &str = "ovms";

/// Variable with the shell whose script asks.
const VARIABLE: &str = "COMPLETE";

/// Arguments of `ovms completions`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct CompletionsArgs {
    /// Shell [default: that of the variable SHELL]
    #[arg(value_enum)]
    shell: Option<Shell>,

    /// Install the script for your shell
    #[arg(long)]
    install: bool,
}

/// Answers a shell's script; false if none has asked.
pub(crate) fn answer() -> bool {
    let shell = env::var(VARIABLE).ok();
    if shell.is_none_or(|shell| SHELLS.completer(&shell).is_none()) {
        return false;
    }
    let folder = env::current_dir().ok();
    // An error would be shown in the middle of the line that is being typed.
    let _ = CompleteEnv::with_factory(described)
        .var(VARIABLE)
        .shells(SHELLS)
        .completer(NAME)
        .try_complete(env::args_os(), folder.as_deref());
    true
}

/// Writes the script of one shell.
pub(crate) fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    let shell = args.shell.map_or_else(of_environment, Ok)?;
    let mut script = Vec::new();
    if let Some(completer) = SHELLS.completer(&shell.to_string()) {
        completer.write_registration(VARIABLE, NAME, NAME, NAME, &mut script)?;
    }
    if args.install {
        return write(shell, &script);
    }
    ui::print(script)
}

/// Completes an argument with values that are often meant, of those that it takes.
pub(crate) fn usual(values: &'static [&'static str]) -> ArgValueCandidates {
    ArgValueCandidates::new(move || values.iter().map(CompletionCandidate::new).collect())
}

/// Returns the command line as scripts complete it: also with the flags of `serve`, which need no
/// subcommand.
fn described() -> Command {
    let mut root = Cli::command();
    if let Some(serve) = root.find_subcommand("serve").cloned() {
        let flags = serve.get_arguments().filter(|arg| !arg.is_positional());
        root = root.args(flags).groups(serve.get_groups());
    }
    root.build();
    hinted(root)
}

/// Distinguishes files from folders, and hides flags, which are offered then where nothing else is.
fn hinted(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let names = arg.get_value_names().unwrap_or_default();
        let is_folder = names.iter().any(|name| name.ends_with("DIR"));
        let hint = match arg.get_value_hint() {
            ValueHint::AnyPath if is_folder => ValueHint::DirPath,
            ValueHint::AnyPath => ValueHint::FilePath,
            hint => hint,
        };
        arg.value_hint(hint).hide(true)
    });
    command.mut_subcommands(hinted)
}

/// Returns the shell of the user.
fn of_environment() -> Result<Shell, Failure> {
    let variable = env::var_os("SHELL").filter(|value| !value.is_empty());
    let path = variable.as_deref().map(Path::new);
    path.and_then(Shell::from_shell_path).ok_or_else(|| {
        let text = match path.map(Path::display) {
            Some(path) => format!("there are no completions for {path}, which SHELL names"),
            None => "no shell is named, and the variable SHELL is not set".to_owned(),
        };
        Failure::usage(text)
            .hint("name one: ovms completions bash, zsh, fish, powershell or elvish")
    })
}

/// Locations of the package that loads completions of bash by command name.
const BASH_COMPLETION: [&str; 4] = [
    "/usr/share/bash-completion/bash_completion",
    "/usr/local/share/bash-completion/bash_completion",
    "/opt/homebrew/etc/profile.d/bash_completion.sh",
    "/etc/bash_completion",
];

/// Writes the script to its location, and reports that and the steps left.
fn write(shell: Shell, script: &[u8]) -> Result<(), Failure> {
    let path = path(shell)?;
    let verb = match fs::read(&path) {
        Ok(there) if there == script => "up to date",
        Ok(_) => "updated",
        Err(_) => "installed",
    };
    if verb != "up to date" {
        let folder = places::folder_of(&path);
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, script));
        written.map_err(|error| {
            Failure::cannot("write", &path, &error).hint(format!(
                "check the permissions of that folder, or write the script to another file: ovms \
                 completions {shell} > FILE"
            ))
        })?;
    }
    let shown = path.to_string_lossy();
    ui::print(format!("{verb}: {}\n", ui::visible(&shown)))?;
    ui::note(&format!("next: {}", left(shell, &path)));
    Ok(())
}

/// Returns the location of a script.
fn path(shell: Shell) -> Result<PathBuf, Failure> {
    let data = || places::data().ok_or_else(|| homeless("XDG_DATA_HOME"));
    let configuration = || places::configuration().ok_or_else(|| homeless("XDG_CONFIG_HOME"));
    Ok(match shell {
        Shell::Zsh => data()?.join("zsh/site-functions/_ovms"),
        Shell::Fish => configuration()?.join("fish/completions/ovms.fish"),
        Shell::PowerShell => configuration()?.join("powershell/ovms.ps1"),
        Shell::Elvish => configuration()?.join("elvish/lib/ovms-completions.elv"),
        // The list of shells may grow; bash is what is left of it.
        _ => data()?.join("bash-completion/completions/ovms"),
    })
}

/// Returns the steps left to the user.
fn left(shell: Shell, path: &Path) -> String {
    let quoted = |path: &Path| ui::shell_word(&path.to_string_lossy());
    match shell {
        Shell::Zsh => {
            let folder = path.parent().unwrap_or(path);
            // Exported by some set-ups only; where it is not, nobody but zsh knows.
            let folders = env::var_os("FPATH").unwrap_or_default();
            if env::split_paths(&folders).any(|it| it == folder) {
                return "start a new shell; if that does not complete, run: rm -f ~/.zcompdump*; \
                        compinit"
                    .to_owned();
            }
            // The folder has to be in the path of functions before `compinit` runs.
            format!(
                "see that ~/.zshrc has these lines, in this order, and start a new shell:\n  \
                 fpath=({} $fpath)\n  autoload -Uz compinit && compinit\n\
                 Oh My Zsh and the like call compinit themselves: then add only the first line,\n\
                 before the one that loads them.",
                quoted(folder)
            )
        }
        Shell::Fish => "nothing; fish loads it at once".to_owned(),
        Shell::PowerShell => format!(
            "add this line to your profile, whose path is $PROFILE (on Linux \
             ~/.config/powershell/Microsoft.PowerShell_profile.ps1), and start a new shell:\n  . '{}'",
            path.to_string_lossy().replace('\'', "''")
        ),
        Shell::Elvish => "add this line to ~/.config/elvish/rc.elv, and start a new shell:\n  use \
                          ovms-completions"
            .to_owned(),
        _ if BASH_COMPLETION.iter().any(|it| Path::new(it).exists()) => {
            "start a new shell".to_owned()
        }
        _ => format!(
            "install the package bash-completion, which loads it, or add this line to ~/.bashrc; \
             then start a new shell:\n  source {}",
            quoted(path)
        ),
    }
}

fn homeless(variable: &str) -> Failure {
    Failure::failed("there is no home folder to install into").hint(format!(
        "set HOME or {variable}, or send the script to a file: ovms completions SHELL > FILE"
    ))
}
