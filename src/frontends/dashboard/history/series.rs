//! Samples of one servable, or of all together: differences of counters that only rise.

use std::collections::VecDeque;

use serde::Serialize;

use super::{SAMPLES, newest, push};
use crate::metrics::{Figures, LatencyHistogram};

/// Samples that a rate is computed from: ten seconds.
const RATES: usize = 2;

/// Samples that latencies are computed from: a minute. Their counts by size are kept as long.
const LATENCIES: usize = 12;

/// Load of a servable at a moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Load {
    /// Counts since the start.
    pub(super) figures: Figures,
    /// Requests that wait for an infer request; of a pipeline or graph, its requests in flight.
    pub(super) queue: usize,
    pub(super) sequences: usize,
    pub(super) streams: usize,
}

/// Ring of samples, which takes no memory until there is something to show.
#[derive(Debug, Default)]
pub(super) struct Ring {
    last: Figures,
    samples: VecDeque<Sample>,
    latencies: VecDeque<LatencyHistogram>,
    /// Number of consecutive samples with nothing to report.
    quiet: usize,
}

/// Sums from one sample to the next, and levels at its end.
#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    requests: u32,
    failed: u32,
    /// Microseconds; 0 if nothing was answered.
    p50: u32,
    p99: u32,
    queue: u32,
    sequences: u32,
    streams: u32,
}

/// Samples for a reader, the latest the last.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Series {
    pub(super) requests: Vec<u32>,
    failed: Vec<u32>,
    p50_us: Vec<Option<u32>>,
    p99_us: Vec<Option<u32>>,
    queue: Vec<u32>,
    sequences: Vec<u32>,
    streams: Vec<u32>,
}

/// Figures of the last seconds; `None` while nothing is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(in super::super) struct RecentFigures {
    /// Answers a second, in the last ten seconds.
    pub(in super::super) rate: Option<f64>,
    /// Failures a second, in the last ten seconds.
    pub(in super::super) failure_rate: Option<f64>,
    /// Microseconds that half of the answers of the last minute took at most.
    pub(in super::super) p50_us: Option<u64>,
    pub(in super::super) p99_us: Option<u64>,
}

impl Ring {
    /// Returns whether there are any samples.
    pub(super) fn is_kept(&self) -> bool {
        !self.samples.is_empty()
    }

    /// Adds a sample. The first one that has something to show begins the ring, if it may begin.
    pub(super) fn add(&mut self, load: &Load, may_begin: bool) {
        let (now, last) = (&load.figures, &self.last);
        let latency = now.latency.since(&last.latency);
        let sample = Sample {
            requests: risen(now.requests + now.streamed, last.requests + last.streamed),
            failed: risen(now.failed, last.failed),
            p50: micros(&latency, 0.5),
            p99: micros(&latency, 0.99),
            queue: small(load.queue),
            sequences: small(load.sequences),
            streams: small(load.streams),
        };
        self.last = now.clone();
        let levels = [sample.queue, sample.sequences, sample.streams];
        if sample.requests == 0 && sample.failed == 0 && levels == [0; 3] {
            self.quiet += 1;
        } else {
            self.quiet = 0;
        }
        if !self.is_kept() && (self.quiet > 0 || !may_begin) {
            return;
        }
        if self.quiet >= SAMPLES {
            (self.samples, self.latencies) = (VecDeque::new(), VecDeque::new());
            return;
        }
        push(&mut self.samples, sample);
        if self.latencies.len() >= LATENCIES {
            self.latencies.pop_front();
        }
        self.latencies.push_back(latency);
    }

    /// Returns the figures of the last seconds; `spans` are the milliseconds of the samples.
    pub(super) fn recent(&self, spans: &VecDeque<u32>) -> RecentFigures {
        let milliseconds: u64 = newest(spans, RATES).map(|span| u64::from(*span)).sum();
        if milliseconds == 0 {
            return RecentFigures::default();
        }
        let rate = |count: fn(&Sample) -> u32| {
            let counts = newest(&self.samples, RATES).map(|sample| f64::from(count(sample)));
            #[expect(clippy::cast_precision_loss, reason = "ten thousand or so")]
            let seconds = milliseconds as f64 / 1e3;
            // The sum of nothing would be below zero: -0.
            Some(counts.fold(0.0, |sum, count| sum + count) / seconds)
        };
        let mut latency = LatencyHistogram::default();
        for counts in &self.latencies {
            latency.add(counts);
        }
        let quantile = |share| {
            let took = latency.quantile(share)?;
            u64::try_from(took.as_micros()).ok()
        };
        RecentFigures {
            rate: rate(|sample| sample.requests),
            failure_rate: rate(|sample| sample.failed),
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
        }
    }

    /// Returns the latest samples.
    pub(super) fn series(&self, count: usize) -> Series {
        fn all<T>(ring: &Ring, count: usize, of: impl Fn(&Sample) -> T) -> Vec<T> {
            newest(&ring.samples, count).map(of).collect()
        }
        let known = |micros: u32| (micros > 0).then_some(micros);
        Series {
            requests: all(self, count, |sample| sample.requests),
            failed: all(self, count, |sample| sample.failed),
            p50_us: all(self, count, |sample| known(sample.p50)),
            p99_us: all(self, count, |sample| known(sample.p99)),
            queue: all(self, count, |sample| sample.queue),
            sequences: all(self, count, |sample| sample.sequences),
            streams: all(self, count, |sample| sample.streams),
        }
    }
}

/// Returns by how much a count has risen.
fn risen(now: u64, before: u64) -> u32 {
    u32::try_from(now.saturating_sub(before)).unwrap_or(u32::MAX)
}

fn small(level: usize) -> u32 {
    u32::try_from(level).unwrap_or(u32::MAX)
}

/// Returns a quantile in microseconds, at least one of them; 0 if there is none.
fn micros(latency: &LatencyHistogram, share: f64) -> u32 {
    latency.quantile(share).map_or(0, |took| {
        u32::try_from(took.as_micros()).unwrap_or(u32::MAX).max(1)
    })
}

#[cfg(test)]
mod tests {
    use super::{LATENCIES, LatencyHistogram, SAMPLES, Sample};

    #[test]
    fn a_servable_takes_what_the_manual_says() {
        let bytes = SAMPLES * size_of::<Sample>() + LATENCIES * size_of::<LatencyHistogram>();
        assert!(bytes <= 8500, "{bytes}");
    }
}
