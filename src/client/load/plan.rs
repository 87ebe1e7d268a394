//! One level of load, and when its measurement ends.

use std::{io, time::Duration};

use crate::client::error::ClientError;

/// Level of load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadPlan {
    /// Pace of the requests.
    pub target: LoadTarget,
    /// Number of requests that are sent before, and not measured.
    pub warmup: u64,
    /// End of the measurement.
    pub until: Until,
}

/// Pace of requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LoadTarget {
    /// Closed loop: so many requests in flight, the next one after each answer.
    Concurrency(usize),
    /// Open loop: requests at a rate, whatever comes of them.
    Rate {
        /// Requests a second.
        per_second: f64,
        /// Distribution of the intervals.
        arrivals: ArrivalProcess,
        /// Maximum number of requests in flight; one that is due beyond it waits, which counts as latency.
        max_in_flight: usize,
    },
}

/// Distribution of the intervals between requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrivalProcess {
    /// Equal intervals.
    Constant,
    /// Exponential, as with many independent clients; the same seed gives the same ones.
    Poisson {
        /// Seed of the intervals.
        seed: u64,
    },
}

/// Rule for the end of a measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Until {
    /// A number of requests, a time, or whichever comes first; without either there is no end.
    Limits {
        /// Number of requests.
        requests: Option<u64>,
        /// Time.
        duration: Option<Duration>,
    },
    /// Consecutive windows that agree in rate and mean latency.
    Stable {
        /// Length of a window.
        window: Duration,
        /// Number of windows that have to agree.
        windows: usize,
        /// Largest distance of a window from the mean of them, as a share.
        tolerance: f64,
        /// Maximum number of windows.
        max_windows: usize,
        /// Maximum time, warm-up included.
        max_time: Duration,
    },
}

/// End of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadEnd {
    /// The plan is done.
    Done,
    /// The caller stopped it.
    Stopped,
}

/// Error of a run, apart from those of requests that count.
#[derive(Debug, thiserror::Error)]
pub enum LoadRunError {
    /// A request that is only to warm up has failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The system gives no timer.
    #[error("cannot use a timer of the system")]
    Timer(#[source] io::Error),
}

impl LoadTarget {
    /// Returns the maximum number of requests in flight.
    pub fn max_in_flight(&self) -> usize {
        match self {
            Self::Concurrency(lanes) => *lanes,
            Self::Rate { max_in_flight, .. } => *max_in_flight,
        }
    }
}
