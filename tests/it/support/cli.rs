//! Runs the program and keeps what it said.

use std::{
    ffi::OsStr,
    process::{Command, Stdio},
};

/// What a run of the program gave.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Run {
    /// Returns stdout as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).expect("the output is text")
    }

    /// Returns exit code and stderr.
    pub(crate) fn failure(&self) -> String {
        format!("exit {}\n{}", self.code.unwrap_or(-1), self.stderr)
    }
}

/// Makes the command of the program.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ovms"));
    command.env("NO_COLOR", "1").env("COLUMNS", "100").stdin(Stdio::null());
    command
}

/// Runs the program to its end.
pub(crate) fn ovms<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Run {
    run(command().args(args))
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Run {
    let output = command.output().expect("the program starts");
    Run {
        code: output.status.code(),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
