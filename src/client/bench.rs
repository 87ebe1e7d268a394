//! Load: the same request again and again, so many at once, and how long each took.
//!
//! A [`Bench`] is run by one task, without threads of its own: every lane sends, waits, and sends
//! again. Drop the future of [`Bench::run`] to end early; [`Bench::report`] then tells what was
//! measured so far.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    time::Duration,
};

use futures::future::{join_all, try_join_all};
use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::time::Instant;

use super::{connection::EncodedRequest, error::ClientError};
use crate::error::chain;

/// Range of the latencies: from a nanosecond to an hour, to three digits.
const LONGEST_NANOSECONDS: u64 = 3_600_000_000_000;
const DIGITS: u8 = 3;

/// How long a lane rests when there is no server: trying again at once would only burn time.
const REST: Duration = Duration::from_millis(50);

/// How much load. At least one of the two limits is there, or the run does not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadPlan {
    /// Requests to send and measure.
    pub requests: Option<u64>,
    /// How long to go on sending.
    pub duration: Option<Duration>,
    /// Requests in flight at once.
    pub concurrency: usize,
    /// Requests to send before, not measured.
    pub warmup: u64,
}

/// A measurement.
#[derive(Debug)]
pub struct Bench {
    plan: LoadPlan,
    /// Requests sent and not yet answered, and those answered.
    sent: Cell<u64>,
    clock: Cell<Clock>,
    failed: Cell<u64>,
    latencies: RefCell<Histogram<u64>>,
    errors: RefCell<HashMap<String, u64>>,
}

#[derive(Debug, Clone, Copy)]
enum Clock {
    /// Warming up.
    Waiting,
    Running(Instant),
    Stopped(Duration),
}

/// How far a measurement is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BenchProgress {
    /// Requests answered, well or not.
    pub done: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Time since the first request that counts.
    pub elapsed: Duration,
}

/// Results of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Requests answered well.
    pub ok: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Time since the first request that counts.
    pub seconds: f64,
    /// Good answers a second.
    pub ok_per_second: f64,
    /// The latencies of good answers; `None` if there is none.
    pub latency_ms: Option<LatencySummary>,
    /// The errors, the most frequent first.
    pub errors: Vec<ErrorCount>,
}

/// Text of an error, and how often it came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorCount {
    /// How often.
    pub times: u64,
    /// The text.
    pub error: String,
}

/// How long good answers took, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LatencySummary {
    /// The mean.
    pub mean: f64,
    /// Half were faster.
    pub p50: f64,
    /// Nine of ten were faster.
    pub p90: f64,
    /// All but one in a hundred were faster.
    pub p99: f64,
    /// The slowest.
    pub max: f64,
}

impl Bench {
    /// Prepares a measurement.
    pub fn new(plan: LoadPlan) -> Self {
        let latencies = Histogram::new_with_bounds(1, LONGEST_NANOSECONDS, DIGITS)
            .expect("the bounds are in order, and the digits at most five");
        Self {
            plan,
            sent: Cell::new(0),
            clock: Cell::new(Clock::Waiting),
            failed: Cell::new(0),
            latencies: RefCell::new(latencies),
            errors: RefCell::default(),
        }
    }

    /// Sends until a limit of the plan is reached, and waits for the answers in flight.
    ///
    /// # Errors
    ///
    /// Fails if a request fails that is only to warm up. What fails later is counted.
    pub async fn run(&self, call: &EncodedRequest<'_>) -> Result<(), ClientError> {
        self.run_with(async |lane| call.send(lane).await.map(drop))
            .await
    }

    async fn run_with(
        &self,
        send: impl AsyncFn(usize) -> Result<(), ClientError>,
    ) -> Result<(), ClientError> {
        let warm = Cell::new(0);
        let send = &send;
        let lanes = 0..self.plan.concurrency;
        try_join_all(lanes.clone().map(async |lane| {
            while warm.get() < self.plan.warmup {
                warm.set(warm.get() + 1);
                send(lane).await?;
            }
            Ok::<(), ClientError>(())
        }))
        .await?;

        let start = Instant::now();
        self.clock.set(Clock::Running(start));
        join_all(lanes.map(async |lane| {
            while self.may_send(start) {
                self.sent.set(self.sent.get() + 1);
                let sent = Instant::now();
                match send(lane).await {
                    Ok(()) => self.record(sent.elapsed()),
                    Err(error) => {
                        self.record_failure(&error);
                        if matches!(error, ClientError::Unreachable { .. }) {
                            tokio::time::sleep(REST).await;
                        }
                    }
                }
            }
        }))
        .await;
        self.clock.set(Clock::Stopped(start.elapsed()));
        Ok(())
    }

    /// Returns the progress of the measurement.
    pub fn progress(&self) -> BenchProgress {
        let failed = self.failed.get();
        BenchProgress {
            done: self.latencies.borrow().len() + failed,
            failed,
            elapsed: match self.clock.get() {
                Clock::Waiting => Duration::ZERO,
                Clock::Running(start) => start.elapsed(),
                Clock::Stopped(elapsed) => elapsed,
            },
        }
    }

    /// Returns the results so far.
    #[expect(clippy::cast_precision_loss, reason = "a rate needs no more digits")]
    pub fn report(&self) -> Report {
        let progress = self.progress();
        let latencies = self.latencies.borrow();
        let seconds = progress.elapsed.as_secs_f64();
        let ok = latencies.len();
        let errors = self.errors.borrow();
        let errors = errors.iter().map(|(error, times)| ErrorCount {
            times: *times,
            error: error.clone(),
        });
        let mut errors: Vec<_> = errors.collect();
        errors.sort_by(|a, b| b.times.cmp(&a.times).then_with(|| a.error.cmp(&b.error)));
        Report {
            ok,
            failed: progress.failed,
            seconds,
            ok_per_second: if seconds > 0.0 {
                ok as f64 / seconds
            } else {
                0.0
            },
            latency_ms: LatencySummary::of(&latencies),
            errors,
        }
    }

    fn may_send(&self, start: Instant) -> bool {
        self.plan.requests.is_none_or(|most| self.sent.get() < most)
            && self
                .plan
                .duration
                .is_none_or(|limit| start.elapsed() < limit)
    }

    fn record(&self, latency: Duration) {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.latencies.borrow_mut().saturating_record(nanoseconds);
    }

    fn record_failure(&self, error: &ClientError) {
        self.failed.set(self.failed.get() + 1);
        *self.errors.borrow_mut().entry(chain(error)).or_default() += 1;
    }
}

impl LatencySummary {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a mean of latencies is positive and in range"
    )]
    fn of(latencies: &Histogram<u64>) -> Option<Self> {
        if latencies.is_empty() {
            return None;
        }
        let milliseconds = |nanoseconds| Duration::from_nanos(nanoseconds).as_secs_f64() * 1000.0;
        let quantile = |quantile| milliseconds(latencies.value_at_quantile(quantile));
        Some(Self {
            mean: milliseconds(latencies.mean() as u64),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            max: milliseconds(latencies.max()),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, time::Duration};

    use super::{Bench, LoadPlan};
    use crate::client::error::{ClientError, ServerError, ServerErrorCode};

    const PLAN: LoadPlan = LoadPlan {
        requests: Some(100),
        duration: None,
        concurrency: 7,
        warmup: 3,
    };

    fn refused() -> ClientError {
        ClientError::Refused(ServerError {
            code: ServerErrorCode::Grpc(tonic::Code::NotFound),
            message: "no".to_owned(),
        })
    }

    #[tokio::test]
    async fn as_many_are_sent_as_planned_and_no_more_at_once() {
        let bench = Bench::new(PLAN);
        let (sent, in_flight, most) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let send = async |lane: usize| {
            assert!(lane < 7);
            sent.set(sent.get() + 1);
            in_flight.set(in_flight.get() + 1);
            most.set(most.get().max(in_flight.get()));
            tokio::task::yield_now().await;
            in_flight.set(in_flight.get() - 1);
            if sent.get() % 10 == 0 {
                Err(refused())
            } else {
                Ok(())
            }
        };
        bench.run_with(send).await.unwrap();
        assert_eq!((sent.get(), most.get()), (103, 7));
        let report = bench.report();
        assert_eq!(report.ok + report.failed, 100);
        assert!(report.failed > 0);
        let text = "the server refused the request: NOT_FOUND: no";
        let [error] = &report.errors[..] else {
            panic!("{:?}", report.errors);
        };
        assert_eq!((&*error.error, error.times), (text, report.failed));
        let latency = report.latency_ms.unwrap();
        assert!(latency.p50 <= latency.p90 && latency.p99 <= latency.max);
        assert!(report.ok_per_second > 0.0);
    }

    #[tokio::test]
    async fn a_failure_while_warming_up_ends_the_run() {
        let bench = Bench::new(PLAN);
        let error = bench.run_with(async |_| Err(refused())).await.unwrap_err();
        assert!(matches!(error, ClientError::Refused(_)));
        assert_eq!(bench.progress().done, 0);
        assert_eq!(bench.report().latency_ms, None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_limit_ends_a_run_without_a_number() {
        let bench = Bench::new(LoadPlan {
            requests: None,
            duration: Some(Duration::from_millis(5)),
            concurrency: 2,
            warmup: 0,
        });
        let send = async |_| {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok(())
        };
        bench.run_with(send).await.unwrap();
        assert_eq!(bench.progress().elapsed, Duration::from_millis(5));
        assert_eq!(bench.progress().done, 10);
    }

    #[tokio::test]
    async fn a_run_that_is_dropped_still_reports() {
        let bench = Bench::new(LoadPlan {
            requests: None,
            warmup: 0,
            ..PLAN
        });
        let sent = Cell::new(0);
        let send = async |_| {
            sent.set(sent.get() + 1);
            if sent.get() > 20 {
                std::future::pending::<()>().await;
            }
            Ok(())
        };
        tokio::select! {
            biased;
            _ = bench.run_with(send) => unreachable!("the later calls never end"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(bench.progress().done, 20);
    }
}
