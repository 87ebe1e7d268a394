//! Runs this program again for work that may crash or hang, so that only the new process does.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read, Seek},
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::fs::{MemfdFlags, memfd_create};

/// Interval between two checks for the end of the process.
const LOOK: Duration = Duration::from_millis(10);

/// Result of a process that has ended.
#[derive(Debug)]
pub(crate) struct Said {
    /// Exit status.
    pub(crate) status: ExitStatus,
    /// Output on stdout.
    pub(crate) stdout: String,
    /// Output on stderr.
    pub(crate) stderr: String,
}

impl Said {
    /// Returns the output on stdout of a process that has done its work, or the reason why it has not.
    pub(crate) fn success(self) -> Result<String, String> {
        match self.status.success() {
            true => Ok(self.stdout),
            false => Err(self.reason()),
        }
    }

    /// Returns stderr without its `error: ` prefix, or the exit status if stderr is empty.
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
    // Files hold any amount, so that nobody has to read while the process runs. In memory they need no folder that can
    // be written to.
    let (mut stdout, mut stderr) = (memory_file()?, memory_file()?);
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
    let read = |file: &mut File| -> io::Result<String> {
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

/// Creates an empty file in memory.
fn memory_file() -> io::Result<File> {
    let file = memfd_create("ovms-output", MemfdFlags::CLOEXEC)?;
    Ok(File::from(file))
}
