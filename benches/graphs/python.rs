//! Plain Python processes that compute, which bound what workers can give.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Instant,
};

use super::files::COMPUTE;
use crate::process;

/// A process that computes as often as each line of its input says, and answers with a line; ends on drop.
pub(super) struct Python {
    child: Child,
    stdin: ChildStdin,
    lines: BufReader<ChildStdout>,
}

/// Begins a command of the interpreter of the tests, or of the system.
pub(super) fn python() -> Command {
    let own = Path::new(env!("WORKSPACE_ROOT")).join(".venv/bin/python");
    let python = if own.is_file() {
        Some(own)
    } else {
        process::tool("python3")
    };
    Command::new(python.expect("Python is there"))
}

impl Python {
    pub(super) fn start() -> Self {
        let program = format!(
            "import sys\ndef compute():\n    return {COMPUTE}\nfor line in sys.stdin:\n    for _ in range(int(line)):\n        \
             compute()\n    print(flush=True)\n"
        );
        let mut child = python()
            .args(["-c", &program])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python starts");
        let stdin = child.stdin.take().expect("stdin is piped");
        let stdout = child.stdout.take().expect("stdout is piped");
        Self {
            child,
            stdin,
            lines: BufReader::new(stdout),
        }
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the computations a second of processes that share so many.
pub(super) fn rate(processes: &mut [Python], count: usize) -> f64 {
    let each = count / processes.len();
    let begun = Instant::now();
    for process in &mut *processes {
        writeln!(process.stdin, "{each}").expect("it reads");
    }
    for process in &mut *processes {
        let mut line = String::new();
        process.lines.read_line(&mut line).expect("it answers");
    }
    (each * processes.len()) as f64 / begun.elapsed().as_secs_f64()
}
