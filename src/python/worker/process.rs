//! A worker as a process.

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

use rustix::process::{Pid, Signal, pidfd_send_signal};
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::SetOnce,
};

use super::stacks;

/// End of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// End with a status of its own.
    Status(i32),
    /// End by a signal.
    Signal(i32),
    /// End with the process that had forked it.
    Unknown,
}

impl Ended {
    /// Reads a status of `wait`.
    pub(super) fn of_wait(status: i32) -> Self {
        match status & 0x7f {
            0 => Self::Status((status >> 8) & 0xff),
            signal => Self::Signal(signal),
        }
    }

    /// Returns what is said of a worker.
    pub(super) fn text(self) -> String {
        match self {
            Self::Status(status) => format!("ended with status {status}"),
            Self::Signal(number) => match signal_name(number) {
                Some(name) => format!("was killed by {name}"),
                None => format!("was killed by signal {number}"),
            },
            Self::Unknown => "was killed".to_owned(),
        }
    }
}

fn signal_name(number: i32) -> Option<&'static str> {
    Some(match number {
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGHUP => "SIGHUP",
        libc::SIGILL => "SIGILL",
        libc::SIGINT => "SIGINT",
        libc::SIGKILL => "SIGKILL",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGSYS => "SIGSYS",
        libc::SIGTERM => "SIGTERM",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGXCPU => "SIGXCPU",
        _ => return None,
    })
}

/// The end of a process, once it is known. What is known first counts.
#[derive(Debug, Default)]
pub(super) struct Exit(SetOnce<Ended>);

impl Exit {
    /// Sets how it ended.
    pub(super) fn set(&self, ended: Ended) {
        let _ = self.0.set(ended);
    }

    /// Returns how it ended, once it has.
    pub(super) fn get(&self) -> Option<Ended> {
        self.0.get().copied()
    }

    /// Waits for the end.
    pub(super) async fn wait(&self) -> Ended {
        *self.0.wait().await
    }
}

/// Registers a descriptor with a runtime.
#[expect(
    deprecated,
    reason = "it asks for a descriptor that stays open: that of an owned file does"
)]
pub(super) fn follow<T: Into<OwnedFd> + AsRawFd>(
    file: T,
    interest: Interest,
) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(file, interest)
}

/// Time that the parent of a process that has ended may take to report its status.
const STATUS: Duration = Duration::from_secs(5);

/// A worker that was forked. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Process {
    pid: Pid,
    handle: OwnedFd,
    pub(super) exit: Arc<Exit>,
}

impl Process {
    pub(super) fn new(pid: Pid, handle: OwnedFd, exit: Arc<Exit>) -> Self {
        Self { pid, handle, exit }
    }

    /// Returns its number.
    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns a second handle of it, if there may be one.
    pub(super) fn handle(&self) -> Option<OwnedFd> {
        self.handle.try_clone().ok()
    }

    /// Waits for its end. Its parent reports that, with the status; where that does not, it is seen by the handle.
    pub(super) async fn ended(handle: Option<OwnedFd>, exit: &Exit) -> Ended {
        let followed = handle.and_then(|it| follow(it, Interest::READABLE).ok());
        let seen = async {
            let Some(followed) = &followed else {
                return std::future::pending().await;
            };
            if followed.readable().await.is_err() {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(STATUS).await;
            exit.set(Ended::Unknown);
        };
        tokio::select! {
            ended = exit.wait() => ended,
            () = seen => exit.wait().await,
        }
    }

    /// Asks it for its stacks.
    pub(super) fn ask(&self) {
        // One that has ended has written what it can.
        let _ = pidfd_send_signal(self.handle.as_fd(), stacks::ASK);
    }

    /// Kills it. What it leaves behind in its group is killed by the process that has forked it.
    pub(super) fn kill(&self) {
        // The handle knows whether it is still this process.
        let _ = pidfd_send_signal(self.handle.as_fd(), Signal::KILL);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use std::{os::fd::AsFd as _, process::Command};

    use super::{Ended, Exit, Process};

    #[tokio::test(start_paused = true)]
    async fn an_end_of_which_the_parent_is_silent_is_seen_by_the_handle() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        let handle =
            rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
        let exit = Exit::default();
        let ended = Process::ended(handle.as_fd().try_clone_to_owned().ok(), &exit);
        assert_eq!(ended.await, Ended::Unknown);
        // What is known first counts, and a parent that is heard needs no handle.
        exit.set(Ended::Status(3));
        assert_eq!(Process::ended(None, &exit).await, Ended::Unknown);
        let heard = Exit::default();
        heard.set(Ended::Status(3));
        assert_eq!(Process::ended(Some(handle), &heard).await, Ended::Status(3));
        child.wait().unwrap();
    }

    #[test]
    fn the_end_of_a_process_is_described_as_by_a_shell() {
        assert_eq!(Ended::of_wait(0x300).text(), "ended with status 3");
        assert_eq!(Ended::of_wait(11).text(), "was killed by SIGSEGV");
        // With a core.
        assert_eq!(Ended::of_wait(6 | 0x80).text(), "was killed by SIGABRT");
        assert_eq!(Ended::of_wait(64).text(), "was killed by signal 64");
    }
}
