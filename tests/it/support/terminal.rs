//! The program at a terminal of a given width, driven by key presses.

use std::path::Path;

use serde::Deserialize;

use super::{cli, emulator};

/// A text to wait for, and the keys to type then; without keys the terminal is closed.
pub(crate) type Step<'a> = (&'a str, Option<&'a str>);

/// Ctrl-C.
pub(crate) const INTERRUPT: Option<&str> = Some("\u{3}");

/// Contents of a terminal after the end of the program.
#[derive(Debug, Deserialize)]
pub(crate) struct Screen {
    /// Exit code; the negative number of the signal that ended the program.
    pub(crate) code: i32,
    pub(crate) lines: Vec<String>,
    /// Lines wrapped because they were longer than the terminal.
    pub(crate) broken: Vec<usize>,
    /// Texts in colour, in the order in which they were written.
    pub(crate) coloured: Vec<String>,
}

impl Screen {
    /// Returns the contents as text.
    pub(crate) fn text(&self) -> String {
        self.lines.join("\n")
    }
}

/// Runs the program to its end, with these variables of the environment.
pub(crate) fn run(
    columns: usize,
    args: &[&str],
    variables: &[(&str, &Path)],
    steps: &[Step<'_>],
) -> Screen {
    let script = Path::new(env!("WORKSPACE_ROOT")).join("tests/it/support/terminal.py");
    let program = cli::command();
    // What `cli` says of the environment, but for what concerns terminals.
    let mut command = std::process::Command::new(emulator::python());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
        .env_remove("NO_COLOR")
        .env_remove("COLUMNS")
        .env("TERM", "xterm-256color")
        .env("LC_ALL", "C.UTF-8")
        .envs(variables.iter().copied())
        .arg(script)
        .arg(columns.to_string())
        .arg(serde_json::to_string(steps).unwrap())
        .arg(program.get_program())
        .args(args);
    let run = cli::run(&mut command);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    serde_json::from_slice(&run.stdout).unwrap()
}
