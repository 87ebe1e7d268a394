//! Subprocesses that end with this program, however it ends.
//!
//! A killed program cannot end its subprocesses. So a supervisor stands between: this program
//! again, with a pipe from its caller that is never written to. When the pipe is closed, as the
//! system does after the death of the caller, the supervisor kills the subprocess and its whole
//! process group.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Read},
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Child, ChildStdin, Command, Output, Stdio},
};

use ovms::task;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::Failure;

/// Arguments of the hidden `ovms supervise`.
#[derive(Debug, clap::Args)]
pub(crate) struct SuperviseArgs {
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Supervised subprocess.
pub(super) struct Supervised {
    pub(super) child: Child,
    /// Pipe that ends the subprocess when it is closed.
    alive: Option<ChildStdin>,
}

impl Supervised {
    /// Starts a program with arguments and piped output.
    pub(super) fn start(program: &OsStr, args: &[&OsStr]) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["supervise", "--"])
            .arg(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // What Python prints is read as it comes, not in blocks.
            .env("PYTHONUNBUFFERED", "1")
            // A Ctrl-C is for the caller alone: the supervisor has to see its end.
            .process_group(0)
            .spawn()?;
        let alive = child.stdin.take();
        Ok(Self { child, alive })
    }

    /// Waits for the end, and returns the rest of the output.
    pub(super) fn output(self) -> io::Result<Output> {
        let Self { child, alive } = self;
        let output = child.wait_with_output();
        drop(alive);
        output
    }
}

/// Runs a program until its end, or until stdin is closed.
pub(crate) fn run(args: &SuperviseArgs) -> Result<(), Failure> {
    let [program, arguments @ ..] = &args.command[..] else {
        return Err(Failure::usage("no program is named"));
    };
    let started = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .process_group(0)
        .spawn();
    let mut child = started.map_err(|error| {
        let text = format!("cannot run {}", program.display());
        Failure::system(text).caused_by(&error)
    })?;
    let group = Pid::from_child(&child);
    task::thread("caller", move || {
        // The end of the pipe, or an error, which is as good as one.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        // It may have ended by itself.
        let _ = kill_process_group(group, Signal::KILL);
    })?;
    let status = child.wait()?;
    let killed = || 128 + status.signal().unwrap_or_default();
    std::process::exit(status.code().unwrap_or_else(killed));
}
