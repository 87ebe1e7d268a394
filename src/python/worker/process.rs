//! A worker as a process.

use std::{
    os::fd::{AsFd as _, OwnedFd},
    sync::{Arc, OnceLock},
};

use rustix::process::{Pid, Signal, pidfd_send_signal};
use tokio::sync::Notify;

use super::stacks;

/// How a process has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// With a status of its own.
    Status(i32),
    /// By a signal.
    Signal(i32),
    /// With what had forked it.
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

/// The end of a process, once it is known.
#[derive(Debug, Default)]
pub(super) struct Exit {
    ended: OnceLock<Ended>,
    known: Notify,
}

impl Exit {
    /// Sets how it ended; the first one counts.
    pub(super) fn set(&self, ended: Ended) {
        let _ = self.ended.set(ended);
        self.known.notify_waiters();
    }

    /// Waits for the end.
    pub(super) async fn wait(&self) -> Ended {
        loop {
            let known = self.known.notified();
            let mut known = std::pin::pin!(known);
            known.as_mut().enable();
            if let Some(ended) = self.ended.get() {
                return *ended;
            }
            known.await;
        }
    }
}

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
    use super::Ended;

    #[test]
    fn the_end_of_a_process_is_described_as_by_a_shell() {
        assert_eq!(Ended::of_wait(0x300).text(), "ended with status 3");
        assert_eq!(Ended::of_wait(11).text(), "was killed by SIGSEGV");
        // With a core.
        assert_eq!(Ended::of_wait(6 | 0x80).text(), "was killed by SIGABRT");
        assert_eq!(Ended::of_wait(64).text(), "was killed by signal 64");
    }
}
