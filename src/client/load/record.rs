//! Record of a level: its windows, and what was counted in each.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;

use super::{
    report::{ErrorCount, HistogramBin, LatencyFigures, WindowReport, histogram_bins},
    stability::WindowMeans,
};
use crate::{client::error::ClientError, error::chain, tls::in_words};

/// Range of the latencies: from a nanosecond to an hour, to three digits.
const MAX_NANOSECONDS: u64 = 3_600_000_000_000;
const DIGITS: u8 = 3;

/// Maximum number of different error texts; further ones are counted together.
const MAX_ERROR_TEXTS: usize = 100;

/// Text for errors beyond that number.
const OTHERS: &str = "other errors";

/// Times of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// Moment from which its latency counts.
    pub(super) due: Instant,
    /// Moment at which it was sent.
    pub(super) sent: Instant,
    /// Moment of the first response of several.
    pub(super) first: Option<Instant>,
    /// Moment of the last response, or of the error.
    pub(super) ended: Instant,
}

/// Record of a level, from the first request that counts.
#[derive(Debug)]
pub(super) struct Recorder {
    started: Instant,
    /// Length of the windows; `None` for a single one that ends with the level.
    window: Option<Duration>,
    /// Number of windows whose latencies are kept.
    keeps: usize,
    current: Window,
    /// Last windows that have ended.
    kept: VecDeque<Window>,
    ended: Vec<WindowReport>,
    errors: HashMap<String, u64>,
    failed: u64,
    done: u64,
}

/// Window of a measurement.
#[derive(Debug)]
pub(super) struct Window {
    started: Instant,
    pub(super) seconds: f64,
    pub(super) ok: u64,
    pub(super) failed: u64,
    pub(super) responses: u64,
    pub(super) rows: u64,
    pub(super) latencies: Histogram<u64>,
    pub(super) firsts: Option<Histogram<u64>>,
    pub(super) delays: Histogram<u64>,
}

impl Recorder {
    pub(super) fn start(started: Instant, window: Option<Duration>, keeps: usize) -> Self {
        Self {
            started,
            window,
            keeps: keeps.max(1),
            current: Window::start(started),
            kept: VecDeque::new(),
            ended: Vec::new(),
            errors: HashMap::new(),
            failed: 0,
            done: 0,
        }
    }

    /// Ends the windows that were over at a moment.
    pub(super) fn advance(&mut self, now: Instant) {
        while let Some(end) = self.window_end().filter(|end| *end <= now) {
            self.end_window(end);
        }
    }

    /// Returns the end of the current window.
    pub(super) fn window_end(&self) -> Option<Instant> {
        Some(self.current.started + self.window?)
    }

    /// Ends the last window before its time, for levels without windows and those that are stopped early.
    pub(super) fn finish(&mut self, now: Instant) {
        self.advance(now);
        let is_needed = self.window.is_none() || self.kept.is_empty();
        if is_needed && now > self.current.started {
            self.end_window(now);
        }
    }

    fn end_window(&mut self, end: Instant) {
        let mut window = std::mem::replace(&mut self.current, Window::start(end));
        window.seconds = end.duration_since(window.started).as_secs_f64();
        self.ended.push(window.report());
        if self.kept.len() == self.keeps {
            self.kept.pop_front();
        }
        self.kept.push_back(window);
    }

    /// Adds a request that was answered. The window is that of its end, so [`Self::advance`] goes before.
    pub(super) fn answered(&mut self, times: &Times, responses: u64, rows: u64) {
        let window = &mut self.current;
        window.ok += 1;
        window.responses += responses;
        window.rows += rows;
        record(&mut window.latencies, times.due, times.ended);
        record(&mut window.delays, times.due, times.sent);
        if let Some(first) = times.first {
            let firsts = window.firsts.get_or_insert_with(histogram);
            record(firsts, times.due, first);
        }
        self.done += 1;
    }

    /// Adds a request that failed.
    pub(super) fn failed(&mut self, error: &ClientError) {
        self.current.failed += 1;
        self.failed += 1;
        self.done += 1;
        let mut text = in_words(&chain(error)).into_owned();
        if self.errors.len() >= MAX_ERROR_TEXTS && !self.errors.contains_key(&text) {
            OTHERS.clone_into(&mut text);
        }
        *self.errors.entry(text).or_default() += 1;
    }

    /// Returns the number of requests that have ended, and how many of them failed.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.done, self.failed)
    }

    /// Returns the windows that have ended.
    pub(super) fn windows(&self) -> &[WindowReport] {
        &self.ended
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// Returns what the rule for the end looks at.
    pub(super) fn means(&self) -> Vec<WindowMeans> {
        let means = |window: &WindowReport| WindowMeans {
            rate: window.rate,
            latency: window.latency_us.map(|it| it.mean),
        };
        self.ended.iter().map(means).collect()
    }

    /// Returns the kept windows as one, with the number of them.
    pub(super) fn merged(&self) -> (Window, usize) {
        let mut whole = Window::start(self.started);
        for window in &self.kept {
            whole.add(window);
        }
        if self.kept.is_empty() {
            whole.add(&self.current);
            whole.seconds = self.current.started.elapsed().as_secs_f64();
        }
        (whole, self.kept.len())
    }

    /// Returns the errors, the most frequent first.
    pub(super) fn errors(&self) -> Vec<ErrorCount> {
        let errors = self.errors.iter().map(|(error, times)| ErrorCount {
            times: *times,
            error: error.clone(),
        });
        let mut errors: Vec<_> = errors.collect();
        errors.sort_by(|a, b| b.times.cmp(&a.times).then_with(|| a.error.cmp(&b.error)));
        errors
    }
}

impl Window {
    fn start(started: Instant) -> Self {
        Self {
            started,
            seconds: 0.0,
            ok: 0,
            failed: 0,
            responses: 0,
            rows: 0,
            latencies: histogram(),
            firsts: None,
            delays: histogram(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.seconds += other.seconds;
        self.ok += other.ok;
        self.failed += other.failed;
        self.responses += other.responses;
        self.rows += other.rows;
        merge(&mut self.latencies, &other.latencies);
        merge(&mut self.delays, &other.delays);
        if let Some(firsts) = &other.firsts {
            merge(self.firsts.get_or_insert_with(histogram), firsts);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate needs no more digits")]
    pub(super) fn rate(&self) -> f64 {
        if self.seconds > 0.0 {
            self.ok as f64 / self.seconds
        } else {
            0.0
        }
    }

    fn report(&self) -> WindowReport {
        WindowReport {
            seconds: self.seconds,
            ok: self.ok,
            failed: self.failed,
            rate: self.rate(),
            latency_us: LatencyFigures::of(&self.latencies),
        }
    }

    pub(super) fn bins(&self) -> Vec<HistogramBin> {
        histogram_bins(&self.latencies)
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MAX_NANOSECONDS, DIGITS)
        .expect("the bounds are in order, and the digits at most five")
}

fn record(histogram: &mut Histogram<u64>, from: Instant, to: Instant) {
    let nanoseconds = to.saturating_duration_since(from).as_nanos();
    histogram.saturating_record(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
}

fn merge(into: &mut Histogram<u64>, other: &Histogram<u64>) {
    into.add(other).expect("all have the same bounds");
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{MAX_ERROR_TEXTS, OTHERS, Recorder, Times};
    use crate::client::error::{ClientError, ServerError, ServerErrorCode};

    const SECOND: Duration = Duration::from_secs(1);

    fn times(due: Instant, latency: Duration) -> Times {
        Times {
            due,
            sent: due,
            first: None,
            ended: due + latency,
        }
    }

    fn refused(message: &str) -> ClientError {
        ClientError::Refused(ServerError {
            code: ServerErrorCode::Grpc(tonic::Code::Unavailable),
            message: message.to_owned(),
            is_foreign: false,
        })
    }

    #[test]
    fn a_request_counts_in_the_window_in_which_it_ends() {
        let start = Instant::now();
        let mut recorder = Recorder::start(start, Some(SECOND), 2);
        for (due, latency) in [(0.1, 0.2), (0.5, 0.6), (1.0, 0.5), (3.0, 0.2)] {
            let times = times(
                start + Duration::from_secs_f64(due),
                Duration::from_secs_f64(latency),
            );
            recorder.advance(times.ended);
            recorder.answered(&times, 1, 4);
        }
        recorder.advance(start + 4 * SECOND);
        let counts: Vec<_> = recorder.windows().iter().map(|it| it.ok).collect();
        assert_eq!(counts, [1, 2, 0, 1]);
        let seconds: Vec<_> = recorder.windows().iter().map(|it| it.seconds).collect();
        assert_eq!(seconds, [1.0; 4]);
        assert_eq!(recorder.windows()[2].latency_us, None);
        // The last two make the result.
        let (whole, count) = recorder.merged();
        assert_eq!((whole.ok, whole.seconds, count), (1, 2.0, 2));
        assert_eq!(whole.rows, 4);
        assert!((whole.rate() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn percentiles_are_those_of_the_latencies() {
        let start = Instant::now();
        let mut recorder = Recorder::start(start, None, 1);
        for milliseconds in 1..=1000 {
            let latency = Duration::from_millis(milliseconds);
            recorder.answered(&times(start, latency), 1, 1);
        }
        recorder.finish(start + SECOND);
        let (whole, _) = recorder.merged();
        let figures = super::LatencyFigures::of(&whole.latencies).unwrap();
        for (found, expected) in [
            (figures.p50, 500e3),
            (figures.p90, 900e3),
            (figures.p95, 950e3),
            (figures.p99, 990e3),
            (figures.max, 1e6),
            (figures.mean, 500.5e3),
        ] {
            assert!((found / expected - 1.0).abs() < 1e-3, "{found} {expected}");
        }
        let bins = whole.bins();
        assert_eq!(bins.iter().map(|bin| bin.count).sum::<u64>(), 1000);
        assert!(bins.is_sorted_by(|a, b| a.below_us < b.below_us));
    }

    #[test]
    fn errors_are_counted_by_their_texts_up_to_a_number_of_texts() {
        let mut recorder = Recorder::start(Instant::now(), None, 1);
        for index in 0..=MAX_ERROR_TEXTS + 1 {
            recorder.failed(&refused(&index.to_string()));
        }
        recorder.failed(&refused("3"));
        let errors = recorder.errors();
        assert_eq!(errors.len(), MAX_ERROR_TEXTS + 1);
        assert_eq!(errors[0].error, OTHERS);
        assert_eq!(
            errors[1].error,
            "the server refused the request: UNAVAILABLE: 3"
        );
        assert_eq!((errors[0].times, errors[1].times), (2, 2));
        let all = MAX_ERROR_TEXTS as u64 + 3;
        assert_eq!(recorder.counts(), (all, all));
    }
}
