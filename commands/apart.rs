//! Runs this program again, for what may crash or hang: only that process does then.

use std::{
    ffi::OsStr,
    io::{self, Read, Seek},
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

/// How often it is looked whether the process has ended.
const LOOK: Duration = Duration::from_millis(10);

/// What a process said until its end.
#[derive(Debug)]
pub(crate) struct Said {
    /// How it ended.
    pub(crate) status: ExitStatus,
    /// What it printed.
    pub(crate) stdout: String,
    /// What it complained about.
    pub(crate) stderr: String,
}

impl Said {
    /// Returns the complaint without its mark, or how the process ended if there is none.
    pub(crate) fn reason(&self) -> String {
        let reason = self.stderr.trim();
        match reason.strip_prefix("error: ").unwrap_or(reason) {
            "" => format!("the process ended with {}", self.status),
            reason => reason.to_owned(),
        }
    }
}

/// Runs a hidden command of this program to its end; `None` if that takes longer than the limit,
/// after which the process is ended.
///
/// # Errors
///
/// Fails if the process cannot be started.
pub(crate) fn run(
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    limit: Duration,
) -> io::Result<Option<Said>> {
    // Files hold any amount, so that nobody has to read while the process runs.
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let mut child = Command::new(std::env::current_exe()?)
        .args(args)
        .stdin(Stdio::null())
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?)
        .spawn()?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed() > limit {
            // Not waited for: one that hangs in the system would not end for that either.
            let _ = child.kill();
            let _ = child.try_wait();
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    };
    let read = |file: &mut std::fs::File| -> io::Result<String> {
        let mut bytes = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    Ok(Some(Said {
        status,
        stdout: read(&mut stdout)?,
        stderr: read(&mut stderr)?,
    }))
}
