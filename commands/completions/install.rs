//! Location of a user's completions for each shell, and the steps left to the user.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use clap_complete::Shell;

use crate::{error::Failure, places, ui};

/// Locations of the package that loads completions of bash by command name.
const BASH_COMPLETION: [&str; 4] = [
    "/usr/share/bash-completion/bash_completion",
    "/usr/local/share/bash-completion/bash_completion",
    "/opt/homebrew/etc/profile.d/bash_completion.sh",
    "/etc/bash_completion",
];

/// Writes the script to its location, and reports that and the steps left.
pub(super) fn write(shell: Shell, script: &[u8]) -> Result<(), Failure> {
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
                "may you write to that folder? The script goes to any file with: ovms \
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
                 Oh My Zsh and the like call compinit themselves: there the first line alone goes\n\
                 before the one that loads them.",
                quoted(folder)
            )
        }
        Shell::Fish => "nothing; fish has it at once".to_owned(),
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
