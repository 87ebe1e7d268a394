//! Figures as they are given to those who ask.

use std::time::Duration;

use serde::{Serialize, Serializer};

use super::latency::LatencyHistogram;

/// Counts and times of a version since it was first loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Inference requests that were answered.
    pub success: Stage,
    /// Inference requests that were not.
    pub fail: Stage,
    /// Runs and how long they waited for an infer request.
    pub wait: Stage,
    /// Runs and what came before: unpacking and checks.
    pub prepare: Stage,
    /// Runs in the runtime, with copying in and out.
    pub run: Stage,
    /// Runs and what came after.
    pub finish: Stage,
    /// Rows of the inference requests that were answered; 1 for each where the model has no batches.
    pub rows: u64,
    /// The end of the last run in milliseconds since 1970; 0 if there was none.
    pub last_ms: u64,
}

/// Executions of one size of batch since a version was first loaded, those of requests alone among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Executions {
    /// Number of rows of each.
    pub rows: u64,
    /// Sum of the rows of all of them. Sizes above 1024 are counted with the next power of two, so that it may be less than
    /// `rows` times their number.
    pub all_rows: u64,
    /// Executions, and what came before their requests ran.
    pub prepare: Stage,
    /// Executions in the runtime, with copying in and out.
    pub run: Stage,
    /// Executions, and what came after for their requests.
    pub finish: Stage,
}

/// Totals of the requests for a version since it was first loaded.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Figures {
    /// Inference requests that were answered.
    pub requests: u64,
    /// Answers over streams of graphs, of which nobody knows how long they took.
    pub streamed: u64,
    /// Inference requests that failed, those of nodes of pipelines and graphs among them, and streams
    /// of graphs.
    pub failed: u64,
    /// Runs for nodes of pipelines and graphs.
    pub runs: u64,
    /// Nanoseconds of the requests that were answered.
    #[serde(rename = "time_us", serialize_with = "microseconds")]
    pub ns: u64,
    /// Histogram of their durations.
    pub latency: LatencyHistogram,
}

impl Figures {
    /// Returns whether anything has happened.
    pub fn is_any(&self) -> bool {
        self.requests + self.streamed + self.failed + self.runs > 0
    }

    /// Returns how long a request took on average; `None` if there was none.
    pub fn mean(&self) -> Option<Duration> {
        self.ns.checked_div(self.requests).map(Duration::from_nanos)
    }

    /// Adds those of another version.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.streamed += other.streamed;
        self.failed += other.failed;
        self.runs += other.runs;
        self.ns += other.ns;
        self.latency.add(&other.latency);
    }
}

fn microseconds<S: Serializer>(ns: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(ns / 1000)
}

/// A count, and nanoseconds of all of them together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stage {
    /// Number of them.
    pub count: u64,
    /// Duration of all of them together, in nanoseconds.
    pub ns: u64,
}
