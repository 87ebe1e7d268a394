//! Result of a level, as programs read it.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::plan::LoadTarget;
use crate::client::server_counters::ServerSplit;

/// Bins of a histogram for each doubling of the latency: each is 9 % wide.
const BINS_PER_OCTAVE: f64 = 8.0;

/// Result of a level. Its figures are those of the last windows, `reported` of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelReport {
    /// Requests in flight in a closed loop; `None` in an open one.
    pub concurrency: Option<usize>,
    /// Requests a second that an open loop was to send; `None` in a closed one.
    pub target_rate: Option<f64>,
    /// Requests answered well.
    pub ok: u64,
    /// Requests that failed, in all windows.
    pub failed: u64,
    /// Requests that ended, in all windows.
    pub total: u64,
    /// Time of the figures.
    pub seconds: f64,
    /// Good answers a second.
    pub rate: f64,
    /// Latencies of good answers; `None` if there is none.
    pub latency_us: Option<LatencyFigures>,
    /// Times to the first response, where a request has several.
    pub first_response_us: Option<LatencyFigures>,
    /// Responses a second, where a request has several.
    pub responses_per_second: Option<f64>,
    /// Rows of answered requests a second, where a request has several.
    #[serde(default)]
    pub rows_per_second: Option<f64>,
    /// Time from the due moment until a request was sent, in an open loop.
    pub send_delay_us: Option<LatencyFigures>,
    /// Times in the server; `None` if it has no statistics.
    pub server: Option<ServerSplit>,
    /// Processor time of this process for each request.
    pub client_cpu_us: f64,
    /// Share of one processor that this process took.
    pub client_load: f64,
    /// End of the measurement.
    pub end: LevelEnd,
    /// Agreement of the windows; `None` if unknown, as of a single window.
    #[serde(default)]
    pub stable: Option<bool>,
    /// Number of windows that the figures are of.
    pub reported: usize,
    /// All windows, in their order.
    pub windows: Vec<WindowReport>,
    /// Distribution of the latencies.
    pub histogram: Vec<HistogramBin>,
    /// Errors, the most frequent first.
    pub errors: Vec<ErrorCount>,
}

/// Reason for the end of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LevelEnd {
    /// The windows agree.
    Stable,
    /// The maximum number of windows, without agreement.
    MaxTrials,
    /// The maximum time, without agreement.
    MaxTime,
    /// The number of requests, or the time, that was planned.
    Limit,
    /// The user.
    Interrupted,
}

impl LevelEnd {
    /// Returns whether so many windows agree; `None` if that is unknown.
    pub(super) fn is_stable(self, windows: usize) -> Option<bool> {
        match self {
            Self::Stable => Some(true),
            Self::MaxTrials | Self::MaxTime => (windows > 1).then_some(false),
            Self::Limit | Self::Interrupted => None,
        }
    }
}

/// Window of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WindowReport {
    /// Length.
    pub seconds: f64,
    /// Requests answered well that ended in it.
    pub ok: u64,
    /// Requests that failed in it.
    pub failed: u64,
    /// Good answers a second.
    pub rate: f64,
    /// Latencies of good answers; `None` if there is none.
    pub latency_us: Option<LatencyFigures>,
}

/// Latencies, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LatencyFigures {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Longest.
    pub max: f64,
}

/// Bin of a histogram, above the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HistogramBin {
    /// Upper end, in microseconds.
    pub below_us: f64,
    /// Number of requests.
    pub count: u64,
}

/// Text of an error, and how often it came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// Number of occurrences.
    pub times: u64,
    /// The text.
    pub error: String,
}

impl LevelReport {
    /// Returns whether two levels have the same load.
    pub fn is_same_level(&self, other: &Self) -> bool {
        (self.concurrency, self.target_rate) == (other.concurrency, other.target_rate)
    }

    /// Returns the rows of answered requests a second, also where each request has one.
    pub fn rows(&self) -> f64 {
        self.rows_per_second.unwrap_or(self.rate)
    }

    /// Returns the share of the requests that failed.
    #[expect(clippy::cast_precision_loss, reason = "a share needs no more digits")]
    pub fn failed_share(&self) -> f64 {
        match self.total {
            0 => 0.0,
            total => self.failed as f64 / total as f64,
        }
    }

    /// Returns the windows that the figures are of.
    pub fn reported_windows(&self) -> &[WindowReport] {
        &self.windows[self.windows.len().saturating_sub(self.reported)..]
    }

    /// Returns the level as concurrency, and as rate; one of them is there.
    pub(super) fn level(target: LoadTarget) -> (Option<usize>, Option<f64>) {
        match target {
            LoadTarget::Concurrency(lanes) => (Some(lanes), None),
            LoadTarget::Rate { per_second, .. } => (None, Some(per_second)),
        }
    }
}

impl LatencyFigures {
    /// Returns the figures of latencies in nanoseconds; `None` if there are none.
    pub(super) fn of(latencies: &Histogram<u64>) -> Option<Self> {
        if latencies.is_empty() {
            return None;
        }
        let quantile = |quantile| micros(latencies.value_at_quantile(quantile));
        Some(Self {
            mean: latencies.mean() / 1e3,
            p50: quantile(0.5),
            p90: quantile(0.9),
            p95: quantile(0.95),
            p99: quantile(0.99),
            max: micros(latencies.max()),
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "latencies have three digits")]
fn micros(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

/// Sorts latencies into bins of equal width on a logarithmic scale; those in between may be empty.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "indices of bins are small"
)]
pub(super) fn histogram_bins(latencies: &Histogram<u64>) -> Vec<HistogramBin> {
    let index = |nanoseconds: u64| {
        let octaves = (nanoseconds.max(1) as f64).log2();
        (octaves * BINS_PER_OCTAVE).floor() as i32
    };
    let mut bins: Vec<HistogramBin> = Vec::new();
    let mut last = None;
    for value in latencies.iter_recorded() {
        let bin = index(value.value_iterated_to());
        for new in last.map_or(bin, |last: i32| last + 1)..=bin {
            bins.push(HistogramBin {
                below_us: 2_f64.powf(f64::from(new + 1) / BINS_PER_OCTAVE) / 1e3,
                count: 0,
            });
        }
        last = Some(bin);
        if let Some(bin) = bins.last_mut() {
            bin.count += value.count_since_last_iteration();
        }
    }
    bins
}
