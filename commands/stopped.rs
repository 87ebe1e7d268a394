//! Signals that end a request, or a measurement, which shows what it has until then.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::{Failure, FailureKind};

/// Signal that ended a request or a measurement before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// Ctrl-C.
    Interrupted,
    /// SIGTERM, as of a script or a job with a limit of time.
    Terminated,
}

impl Stopped {
    /// Returns the failure of a measurement, which has the exit code of the signal.
    pub(crate) fn failure(self, requests: u64) -> Failure {
        let (kind, what) = self.words();
        Failure::new(kind, format!("{what} after {requests} requests"))
    }

    /// Returns the failure of what has nothing to show yet.
    pub(crate) fn bare_failure(self) -> Failure {
        let (kind, what) = self.words();
        Failure::new(kind, what)
    }

    fn words(self) -> (FailureKind, &'static str) {
        match self {
            Self::Interrupted => (FailureKind::Interrupted, "interrupted"),
            Self::Terminated => (FailureKind::Terminated, "terminated"),
        }
    }
}

/// Listener for the signals.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupts: Signal,
    terminations: Signal,
}

impl Signals {
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupts: signal(SignalKind::interrupt())?,
            terminations: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next one. This method is cancel safe.
    pub(crate) async fn next(&mut self) -> Stopped {
        tokio::select! {
            _ = self.interrupts.recv() => Stopped::Interrupted,
            _ = self.terminations.recv() => Stopped::Terminated,
        }
    }
}
