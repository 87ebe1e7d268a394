//! Shells at a terminal, driven by key presses.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use super::{cli, emulator, repository, tools};

/// A shell with a home folder of its own, in which the completions are installed.
pub(crate) struct Shell {
    name: &'static str,
    program: PathBuf,
    home: TempDir,
    /// Output of `--install`.
    pub(crate) said: String,
}

/// Time limit for the program to find names, in milliseconds: longer than in shells, since the machine
/// may be busy.
pub(crate) const WITHIN: &str = "20000";

/// Stand-in for the program in shells: completes like ours, and otherwise prints its arguments.
const STAND_IN: &str = r#"#!/bin/sh
if [ -n "$COMPLETE" ]; then
    echo asked >> "$HOME/asked"
    exec "$OVMS_PROGRAM" "$@"
fi
printf 'GOT'
for argument in "$@"; do printf '[%s]' "$argument"; done
printf ']END\n'
"#;

impl Shell {
    /// Finds a shell and installs the completions for it; without such a shell, prints a line and
    /// returns `None`.
    pub(crate) fn new(name: &'static str) -> Option<Self> {
        let program = tools::find(name)?;
        let home = repository::folder();
        let stand_in = home.path().join("bin/ovms");
        fs::create_dir(home.path().join("bin")).unwrap();
        fs::create_dir(home.path().join("work")).unwrap();
        fs::write(&stand_in, STAND_IN).unwrap();
        fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755)).unwrap();
        let run = cli::run(cli::bare(home.path()).env_remove("XDG_CONFIG_HOME").args([
            "completions",
            name,
            "--install",
        ]));
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let shell = Self {
            name,
            program,
            said: run.stderr,
            home,
        };
        shell.set_up();
        Some(shell)
    }

    /// Writes the start-up files of the home folder, with the lines that `--install` asks for.
    fn set_up(&self) {
        let home = self.home.path();
        let asked_for = |start: &str| -> String {
            let lines = self.said.lines().map(str::trim);
            let found: Vec<&str> = lines.filter(|line| line.starts_with(start)).collect();
            found.join("\n")
        };
        let (path, text) = match self.name {
            "bash" => {
                // What the package bash-completion does, or the line that is asked for without it.
                let script = home.join(".local/share/bash-completion/completions/ovms");
                let text = format!("PS1='READY>'\nsource {}\n", script.display());
                (home.join(".bashrc"), text)
            }
            "zsh" => {
                let path = asked_for("fpath=");
                assert!(!path.is_empty(), "{}", self.said);
                let quiet = "unsetopt prompt_sp zle_bracketed_paste 2>/dev/null";
                let text = format!(
                    "{path}\nautoload -Uz compinit && compinit -u -D\nPS1='READY>'\n{quiet}\n"
                );
                (home.join(".zshrc"), text)
            }
            _ => {
                let text = "function fish_prompt; echo -n 'READY>'; end\nset -g fish_greeting\n";
                (home.join(".config/fish/config.fish"), text.to_owned())
            }
        };
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Returns the working folder of the shell.
    pub(crate) fn folder(&self) -> PathBuf {
        self.home.path().join("work")
    }

    /// Returns the number of times the program was asked for names.
    pub(crate) fn asked(&self) -> usize {
        let asked = fs::read_to_string(self.home.path().join("asked"));
        asked.map_or(0, |asked| asked.lines().count())
    }

    /// Makes a command that finds the stand-in, and the server at this address.
    pub(crate) fn command(&self, program: &Path, url: &str) -> Command {
        let path = std::env::var("PATH").unwrap();
        let bin = self.home.path().join("bin");
        let mut command = Command::new(program);
        command
            .current_dir(self.folder())
            .env("HOME", self.home.path())
            .env("ZDOTDIR", self.home.path())
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("OVMS_PROGRAM", env!("CARGO_BIN_EXE_ovms"))
            .env("OVMS_URL", url)
            .env("TERM", "dumb")
            .env("LC_ALL", "C.UTF-8");
        for name in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "FPATH"] {
            command.env_remove(name);
        }
        command
    }

    /// Types lines and returns the screen of the shell after each, with the arguments of the program.
    pub(crate) fn show<S: AsRef<str>>(&self, url: &str, lines: &[S]) -> Vec<String> {
        self.typed(self.command(&emulator::python(), url), lines)
    }

    fn typed<S: AsRef<str>>(&self, mut command: Command, lines: &[S]) -> Vec<String> {
        let tab = Path::new(env!("WORKSPACE_ROOT")).join("tests/it/support/tab.py");
        let options: &[&str] = match self.name {
            "bash" => &["--noprofile", "-i"],
            "zsh" => &["-d", "-i"],
            _ => &["-i"],
        };
        command.arg(tab).arg(&self.program).args(options).arg("--");
        command.args(lines.iter().map(AsRef::as_ref));
        let run = cli::run(&mut command);
        assert_eq!(run.code, Some(0), "{}: {}", self.name, run.stderr);
        serde_json::from_slice(&run.stdout).unwrap()
    }

    /// Types lines and returns the arguments that the program got from each: `[infer][dummy]`.
    pub(crate) fn got<S: AsRef<str>>(&self, url: &str, lines: &[S]) -> Vec<String> {
        let mut command = self.command(&emulator::python(), url);
        command.env("OVMS_COMPLETE_MS", WITHIN);
        let shown = self.typed(command, lines).into_iter().map(|shown| {
            let (_, got) = shown.rsplit_once("GOT").unwrap();
            got.strip_suffix("]END").unwrap().to_owned()
        });
        shown.collect()
    }
}
