//! Locations of a user's completions for each shell, and further setup steps.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap_complete::Shell;

use crate::{
    error::{Failure, FailureKind},
    places, ui,
};

/// Location of a script, and the steps left to the user.
struct Place {
    path: PathBuf,
    next: String,
}

/// Writes the script to its location, and reports that and the steps left.
pub(super) fn write(shell: Shell, script: &str) -> Result<(), Failure> {
    let Place { path, next } = place(shell)?;
    let verb = match fs::read(&path) {
        Ok(there) if there == script.as_bytes() => "up to date",
        Ok(_) => "updated",
        Err(_) => "installed",
    };
    if verb != "up to date" {
        replace(&path, script).map_err(|error| unwritten(shell, &path, &error))?;
    }
    ui::print(format!(
        "{verb}: {}\n",
        ui::visible(&path.to_string_lossy())
    ))?;
    ui::note(&next);
    Ok(())
}

/// Writes a file atomically: a shell may be reading it.
fn replace(path: &Path, script: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    // A link stays one: people keep such files elsewhere.
    if path.is_symlink() {
        return fs::write(path, script);
    }
    let mut file = tempfile::Builder::new()
        .prefix(".ovms-")
        .permissions(readable())
        .tempfile_in(folder)?;
    io::Write::write_all(&mut file, script.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

/// Returns the usual permissions of new files, before the user's umask.
fn readable() -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o666)
}

fn place(shell: Shell) -> Result<Place, Failure> {
    let data = || places::data().ok_or_else(|| homeless("XDG_DATA_HOME"));
    let configuration = || places::configuration().ok_or_else(|| homeless("XDG_CONFIG_HOME"));
    Ok(match shell {
        Shell::Zsh => {
            let folder = data()?.join("zsh/site-functions");
            Place {
                next: for_zsh(&folder),
                path: folder.join("_ovms"),
            }
        }
        Shell::Fish => Place {
            path: configuration()?.join("fish/completions/ovms.fish"),
            next: "next: nothing; fish has it at once".to_owned(),
        },
        Shell::PowerShell => {
            let path = configuration()?.join("powershell/ovms.ps1");
            Place {
                next: format!(
                    "next: add this line to your profile, whose path is $PROFILE (on Linux \
                     ~/.config/powershell/Microsoft.PowerShell_profile.ps1), and start a new \
                     shell:\n  . {}",
                    quoted(&path, "''")
                ),
                path,
            }
        }
        Shell::Elvish => Place {
            path: configuration()?.join("elvish/lib/ovms-completions.elv"),
            next: "next: add this line to ~/.config/elvish/rc.elv, and start a new shell:\n  \
                   use ovms-completions"
                .to_owned(),
        },
        // The list of shells may grow; bash is what is left of it.
        _ => {
            let path = data()?.join("bash-completion/completions/ovms");
            Place {
                next: for_bash(&path),
                path,
            }
        }
    })
}

/// Locations of the package that loads completions by command name.
const BASH_COMPLETION: [&str; 4] = [
    "/usr/share/bash-completion/bash_completion",
    "/usr/local/share/bash-completion/bash_completion",
    "/opt/homebrew/etc/profile.d/bash_completion.sh",
    "/etc/bash_completion",
];

fn for_bash(path: &Path) -> String {
    if BASH_COMPLETION.iter().any(|it| Path::new(it).exists()) {
        return "next: start a new shell".to_owned();
    }
    format!(
        "next: install the package bash-completion, which loads it, or add this line to \
         ~/.bashrc; then start a new shell:\n  source {}",
        quoted(path, r"'\''")
    )
}

/// Returns the extra step for zsh: the folder in its function path, before `compinit` runs.
fn for_zsh(folder: &Path) -> String {
    // Exported by some set-ups only; where it is not, nobody but zsh knows.
    let is_known = std::env::var_os("FPATH")
        .is_some_and(|folders| std::env::split_paths(&folders).any(|it| it == folder));
    if is_known {
        return "next: start a new shell; if that does not complete, run: rm -f ~/.zcompdump*; \
                compinit"
            .to_owned();
    }
    format!(
        "next: see that ~/.zshrc has these lines, in this order, and start a new shell:\n  \
         fpath=({} $fpath)\n  autoload -Uz compinit && compinit\n\
         Oh My Zsh and the like call compinit themselves: there the first line alone goes\n\
         before the one that loads them.",
        quoted(folder, r"'\''")
    )
}

/// Quotes a path for a shell if needed. `apostrophe` replaces each single quote.
fn quoted(path: &Path, apostrophe: &str) -> String {
    let text = path.to_string_lossy();
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "_-./".contains(it);
    if text.chars().all(is_plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', apostrophe))
    }
}

fn homeless(variable: &str) -> Failure {
    let text = "there is no home folder to install into";
    Failure::new(FailureKind::Failed, text).hint(format!(
        "set HOME or {variable}, or send the script to a file: ovms completions SHELL > FILE"
    ))
}

fn unwritten(shell: Shell, path: &Path, error: &io::Error) -> Failure {
    let text = format!("cannot write {}", path.display());
    Failure::new(FailureKind::Failed, text)
        .caused_by(error)
        .hint(format!(
            "may you write to that folder? The script goes to any file with: ovms completions \
             {shell} > FILE"
        ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::quoted;

    #[test]
    fn paths_are_quoted_where_a_shell_would_take_them_apart() {
        assert_eq!(quoted(Path::new("/home/a/x.y"), "''"), "/home/a/x.y");
        assert_eq!(quoted(Path::new("/a b/it's"), r"'\''"), r"'/a b/it'\''s'");
        assert_eq!(quoted(Path::new("/$x"), "''"), "'/$x'");
    }
}
