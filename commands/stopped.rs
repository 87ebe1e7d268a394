//! Signals that end a request, or a measurement, which shows what it has until then.

use std::time::Duration;

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::Instant,
};

use crate::error::{Failure, FailureKind};

/// Time after a signal during which another one is the same: `timeout` signals a process and its group, and a program that
/// starts another one passes on what the terminal has sent to both.
pub(crate) const TOGETHER: Duration = Duration::from_millis(300);

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
    heard: Heard,
}

/// Time of the signal that was heard last.
#[derive(Debug, Default)]
struct Heard(Option<Instant>);

impl Heard {
    /// Returns whether a signal that comes now is none of its own.
    fn is_same(&mut self) -> bool {
        if self.0.is_some_and(|heard| heard.elapsed() < TOGETHER) {
            return true;
        }
        self.0 = Some(Instant::now());
        false
    }
}

impl Signals {
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupts: signal(SignalKind::interrupt())?,
            terminations: signal(SignalKind::terminate())?,
            heard: Heard::default(),
        })
    }

    /// Waits for the next one that is no part of the one before. This method is cancel safe.
    pub(crate) async fn next(&mut self) -> Stopped {
        loop {
            let stopped = tokio::select! {
                _ = self.interrupts.recv() => Stopped::Interrupted,
                _ = self.terminations.recv() => Stopped::Terminated,
            };
            if !self.heard.is_same() {
                return stopped;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, advance};

    use super::{Heard, TOGETHER};

    #[tokio::test(start_paused = true)]
    async fn signals_that_come_together_are_one() {
        let step = Duration::from_millis(1);
        let mut heard = Heard::default();
        assert!(!heard.is_same());
        assert!(heard.is_same());
        let begun = Instant::now();
        advance(TOGETHER - step).await;
        // It is counted from the first one, so that somebody who presses on and on is heard.
        assert!(heard.is_same());
        advance(step).await;
        assert!(!heard.is_same(), "{:?}", begun.elapsed());
        assert!(heard.is_same());
    }
}
