//! Driver of a level: starts requests when they are due, and ends when the rule of the plan says so.

use std::{
    cell::{Cell, RefCell},
    future::pending,
    pin::pin,
    time::{Duration, Instant},
};

use futures::{
    FutureExt as _, StreamExt as _,
    future::{FusedFuture, join_all, try_join_all},
    stream::FuturesUnordered,
};
use rustix::time::{ClockId, clock_gettime};

use super::{
    alarm::Alarm,
    plan::{LoadEnd, LoadPlan, LoadRunError, LoadTarget, Until},
    record::{Recorder, Times},
    report::{LatencyFigures, LevelEnd, LevelReport},
    schedule::Schedule,
    stability::is_stable,
};
use crate::client::{error::ClientError, server_counters::ServerCounters, wire::Answered};

/// Pause of a lane if there is no server: trying again at once would only burn time.
const REST: Duration = Duration::from_millis(50);

/// Time limit for requests in flight at the end, for ends of sequences and streams, and for counters of the server.
const DRAIN: Duration = Duration::from_secs(5);

/// Interval of looks at the limits if nothing else is awaited.
const LOOK: Duration = Duration::from_millis(100);

/// Work of a load: [`Traffic`](super::Traffic), and what stands for it in tests.
pub(super) trait Exchange {
    /// Place of one request in flight.
    type Lane;

    /// Makes a lane, counted from 0.
    fn lane(&self, index: usize) -> Self::Lane;

    /// Sends a request and waits for the answer.
    async fn exchange(&self, lane: &mut Self::Lane) -> Result<Answered, ClientError>;

    /// Ends what is open in a lane.
    async fn close(&self, _: Self::Lane) {}

    /// Reads the counters of the server.
    async fn counters(&self) -> Option<ServerCounters> {
        None
    }
}

/// Measurement of a level.
#[derive(Debug)]
pub struct LoadRun {
    plan: LoadPlan,
    created: Instant,
    recorder: RefCell<Option<Recorder>>,
    started: Cell<u64>,
    /// Number of windows that the rule for the end has seen.
    checked: Cell<usize>,
    end: Cell<LevelEnd>,
    server: Cell<Option<(ServerCounters, Option<ServerCounters>)>>,
    cpu: Cell<Cpu>,
}

/// Processor time of this process at the start of a measurement, and at its end.
#[derive(Debug, Clone, Copy, Default)]
struct Cpu {
    before: Duration,
    used: Option<(Duration, Duration)>,
}

/// Progress of a measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadProgress {
    /// Requests that have ended, well or not.
    pub done: u64,
    /// Number of them that failed.
    pub failed: u64,
    /// Time since the first request that counts.
    pub elapsed: Duration,
    /// Number of windows that have ended.
    pub windows: usize,
    /// Rate of the last window.
    pub rate: Option<f64>,
    /// 99th percentile of the last window, in microseconds.
    pub p99_us: Option<f64>,
}

/// Request that has ended, with its lane.
struct Ended<L> {
    lane: L,
    times: Times,
    result: Result<Answered, ClientError>,
}

impl LoadRun {
    /// Prepares a measurement.
    pub fn new(plan: LoadPlan) -> Self {
        Self {
            plan,
            created: Instant::now(),
            recorder: RefCell::new(None),
            started: Cell::new(0),
            checked: Cell::new(0),
            end: Cell::new(LevelEnd::Interrupted),
            server: Cell::new(None),
            cpu: Cell::default(),
        }
    }

    /// Sends until the plan says that it is enough, or `stop` is ready. Requests in flight are waited for, sequences
    /// and streams are ended, each for some seconds. If the future is dropped, [`Self::report`] has what was
    /// measured so far; nothing is measured if the maximum time of the plan ends within the warm-up.
    ///
    /// # Errors
    ///
    /// Fails if a request fails that is only to warm up, unless a limit of the client or an overload of the server refuses it.
    /// Later failures are counted.
    pub async fn run(
        &self,
        traffic: &super::Traffic<'_>,
        stop: impl Future<Output = ()>,
    ) -> Result<LoadEnd, LoadRunError> {
        self.drive(traffic, stop).await
    }

    pub(super) async fn drive<E: Exchange>(
        &self,
        exchange: &E,
        stop: impl Future<Output = ()>,
    ) -> Result<LoadEnd, LoadRunError> {
        let mut stop = pin!(stop.fuse());
        let prepared = async {
            let lanes = self.warm_up(exchange).await?;
            Ok::<_, ClientError>((lanes, counters(exchange).await))
        };
        let (mut lanes, before) = tokio::select! {
            biased;
            () = &mut stop => return Ok(LoadEnd::Stopped),
            prepared = prepared => prepared?,
            () = self.time_is_over() => return Ok(LoadEnd::Done),
        };
        self.server.set(before.map(|before| (before, None)));
        let mut running = FuturesUnordered::new();
        let mut alarm = Alarm::new().map_err(LoadRunError::Timer)?;
        let mut made = lanes.len();

        let start = Instant::now();
        self.cpu.set(Cpu {
            before: processor_time(),
            used: None,
        });
        let (window, keeps) = match self.plan.until {
            Until::Limits { .. } => (None, 1),
            Until::Stable {
                window, windows, ..
            } => (Some(window), windows),
        };
        *self.recorder.borrow_mut() = Some(Recorder::start(start, window, keeps));
        let mut pace = Pace::new(self.plan.target, start);
        let end = loop {
            let now = Instant::now();
            let ends = self.ends(now);
            if let Some(end) = ends.filter(|end| *end != LevelEnd::Limit || running.is_empty()) {
                break end;
            }
            while ends.is_none()
                && self.may_start()
                && let Some(due) = pace.due(now, running.len())
            {
                self.started.set(self.started.get() + 1);
                let lane = lanes.pop().unwrap_or_else(|| {
                    made += 1;
                    exchange.lane(made - 1)
                });
                running.push(one(exchange, lane, due));
            }
            let takes_more = ends.is_none() && self.may_start();
            let due = takes_more.then(|| pace.next(running.len())).flatten();
            let wake = self.wake(now, due);
            tokio::select! {
                biased;
                () = &mut stop => break LevelEnd::Interrupted,
                Some(ended) = running.next(), if !running.is_empty() => {
                    lanes.push(self.record(ended));
                }
                rung = alarm.until(wake) => {
                    rung.map_err(LoadRunError::Timer)?;
                }
            }
        };
        self.finish(end);
        let drained = async {
            while let Some(ended) = running.next().await {
                lanes.push(ended.lane);
            }
        };
        // Those that take longer are cancelled, and the server ends their sequences when they are idle.
        let _ = tokio::time::timeout(DRAIN, drained).await;
        if let Some((before, _)) = self.server.get() {
            let after = counters(exchange).await;
            self.server.set(after.map(|after| (before, Some(after))));
        }
        let closed = join_all(lanes.into_iter().map(|lane| exchange.close(lane)));
        let _ = tokio::time::timeout(DRAIN, closed).await;
        Ok(match stop.is_terminated() {
            true => LoadEnd::Stopped,
            false => LoadEnd::Done,
        })
    }

    /// Waits for the maximum time of the plan.
    async fn time_is_over(&self) {
        match self.plan.until {
            Until::Limits { .. } => pending().await,
            Until::Stable { max_time, .. } => {
                tokio::time::sleep_until((self.created + max_time).into()).await;
            }
        }
    }

    /// Sends requests that do not count, a few at once; a failure ends it, but not that of a limit or an overload.
    async fn warm_up<E: Exchange>(&self, exchange: &E) -> Result<Vec<E::Lane>, ClientError> {
        let sent = &Cell::new(0);
        let warmup = self.plan.warmup;
        let lanes = match self.plan.target {
            LoadTarget::Concurrency(lanes) => lanes.min(usize::try_from(warmup).unwrap_or(lanes)),
            LoadTarget::Rate { .. } => usize::from(warmup > 0),
        };
        try_join_all((0..lanes).map(async |index| {
            let mut lane = exchange.lane(index);
            while sent.get() < warmup {
                sent.set(sent.get() + 1);
                match exchange.exchange(&mut lane).await {
                    // What a limit or an overload refuses is there to be measured.
                    Err(ClientError::Refused(error))
                        if error.is_exhausted() || error.is_unavailable() => {}
                    other => drop(other?),
                }
            }
            Ok(lane)
        }))
        .await
    }

    /// Returns whether the number of requests allows another one.
    fn may_start(&self) -> bool {
        match self.plan.until {
            Until::Limits {
                requests: Some(most),
                ..
            } => self.started.get() < most,
            Until::Limits { requests: None, .. } | Until::Stable { .. } => true,
        }
    }

    /// Ends windows, and returns the end of the measurement if it has come.
    fn ends(&self, now: Instant) -> Option<LevelEnd> {
        let mut recorder = self.recorder.borrow_mut();
        let recorder = recorder.as_mut()?;
        match self.plan.until {
            Until::Limits { duration, .. } => {
                let is_over =
                    duration.is_some_and(|limit| now.duration_since(recorder.started()) >= limit);
                (is_over || !self.may_start()).then_some(LevelEnd::Limit)
            }
            Until::Stable {
                windows,
                tolerance,
                max_windows,
                max_time,
                ..
            } => {
                recorder.advance(now);
                let ended = recorder.windows().len();
                if self.checked.replace(ended) < ended {
                    let means = recorder.means();
                    if is_stable(&means, windows, tolerance) {
                        return Some(LevelEnd::Stable);
                    }
                    let mut last = recorder.windows().iter().rev().take(windows);
                    // Without errors the windows may be shorter than a request.
                    let is_dead = ended >= windows && last.all(|it| it.ok == 0 && it.failed > 0);
                    if is_dead || ended >= max_windows {
                        return Some(LevelEnd::MaxTrials);
                    }
                }
                (now.duration_since(self.created) >= max_time).then_some(LevelEnd::MaxTime)
            }
        }
    }

    /// Returns the next moment at which something is to be done without an answer.
    fn wake(&self, now: Instant, due: Option<Instant>) -> Instant {
        let recorder = self.recorder.borrow();
        let window = recorder.as_ref().and_then(Recorder::window_end);
        let started = recorder.as_ref().map_or(now, Recorder::started);
        let deadline = match self.plan.until {
            Until::Limits { duration, .. } => duration.map(|limit| started + limit),
            Until::Stable { max_time, .. } => Some(self.created + max_time),
        };
        // A limit that has passed leaves only requests in flight to wait for.
        let deadline = deadline.filter(|moment| *moment > now);
        let moments = [due, window, deadline].into_iter().flatten();
        moments.min().unwrap_or(now + LOOK)
    }

    fn record<L>(&self, ended: Ended<L>) -> L {
        let Ended {
            lane,
            times,
            result,
        } = ended;
        if let Some(recorder) = self.recorder.borrow_mut().as_mut() {
            recorder.advance(times.ended);
            match &result {
                Ok(answered) => {
                    recorder.answered(&times, answered.responses, answered.rows);
                }
                Err(error) => recorder.failed(error),
            }
        }
        lane
    }

    fn finish(&self, end: LevelEnd) {
        self.end.set(match (end, self.plan.until) {
            // One window agrees with itself, which says nothing.
            (LevelEnd::Stable, Until::Stable { windows: 0 | 1, .. }) => LevelEnd::Limit,
            (end, _) => end,
        });
        let now = Instant::now();
        if let Some(recorder) = self.recorder.borrow_mut().as_mut() {
            // Windows that agree are the last ones: in a later one, as where this process was held up, nothing may have ended.
            if end != LevelEnd::Stable {
                recorder.finish(now);
            }
            let used = processor_time().saturating_sub(self.cpu.get().before);
            self.cpu.set(Cpu {
                used: Some((used, now.duration_since(recorder.started()))),
                ..self.cpu.get()
            });
        }
    }

    /// Returns the progress of the measurement.
    pub fn progress(&self) -> LoadProgress {
        let recorder = self.recorder.borrow();
        let recorder = recorder.as_ref();
        let (done, failed) = recorder.map_or((0, 0), Recorder::counts);
        let last = recorder.and_then(|it| it.windows().last());
        LoadProgress {
            done,
            failed,
            elapsed: recorder.map_or(Duration::ZERO, |it| it.started().elapsed()),
            windows: recorder.map_or(0, |it| it.windows().len()),
            rate: last.map(|it| it.rate),
            p99_us: last.and_then(|it| it.latency_us).map(|it| it.p99),
        }
    }

    /// Returns the results so far; `None` before the first request that counts.
    #[expect(clippy::cast_precision_loss, reason = "a rate needs no more digits")]
    pub fn report(&self) -> Option<LevelReport> {
        let recorder = self.recorder.borrow();
        let recorder = recorder.as_ref()?;
        let (whole, reported) = recorder.merged();
        let (concurrency, target_rate) = LevelReport::level(self.plan.target);
        let (total, failed) = recorder.counts();
        let (cpu, wall) = self.cpu.get().used.unwrap_or_default();
        let server = self
            .server
            .get()
            .and_then(|(before, after)| after?.since(&before));
        Some(LevelReport {
            concurrency,
            target_rate,
            ok: whole.ok,
            failed,
            total,
            seconds: whole.seconds,
            rate: whole.rate(),
            latency_us: LatencyFigures::of(&whole.latencies),
            first_response_us: whole.firsts.as_ref().and_then(LatencyFigures::of),
            responses_per_second: (whole.responses > whole.ok)
                .then(|| whole.responses as f64 / whole.seconds),
            rows_per_second: (whole.rows > whole.ok).then(|| whole.rows as f64 / whole.seconds),
            send_delay_us: target_rate.and_then(|_| LatencyFigures::of(&whole.delays)),
            server,
            client_cpu_us: cpu.as_secs_f64() * 1e6 / total.max(1) as f64,
            client_load: cpu.as_secs_f64() / wall.as_secs_f64().max(1e-9),
            end: self.end.get(),
            stable: self.end.get().is_stable(recorder.windows().len()),
            reported,
            windows: recorder.windows().to_vec(),
            histogram: whole.bins(),
            errors: recorder.errors(),
        })
    }
}

/// Reads the counters of the server, if they come in time.
async fn counters<E: Exchange>(exchange: &E) -> Option<ServerCounters> {
    let read = tokio::time::timeout(DRAIN, exchange.counters()).await;
    read.ok().flatten()
}

/// Sends one request; a lane without a server rests.
async fn one<E: Exchange>(exchange: &E, mut lane: E::Lane, due: Option<Instant>) -> Ended<E::Lane> {
    let sent = Instant::now();
    let result = exchange.exchange(&mut lane).await;
    let ended = Instant::now();
    let is_gone = |error: &ClientError| {
        matches!(
            error,
            ClientError::Unreachable { .. } | ClientError::Closed { .. }
        )
    };
    if result.as_ref().is_err_and(is_gone) {
        tokio::time::sleep(REST).await;
    }
    let first = result.as_ref().ok().and_then(|it| it.first);
    Ended {
        lane,
        times: Times {
            due: due.unwrap_or(sent),
            sent,
            first,
            ended,
        },
        result,
    }
}

/// Pace of the requests.
enum Pace {
    Closed {
        lanes: usize,
    },
    Open {
        schedule: Box<Schedule>,
        start: Instant,
        next: Instant,
        max_in_flight: usize,
    },
}

impl Pace {
    fn new(target: LoadTarget, start: Instant) -> Self {
        match target {
            LoadTarget::Concurrency(lanes) => Self::Closed { lanes },
            LoadTarget::Rate {
                per_second,
                arrivals,
                max_in_flight,
            } => {
                let mut schedule = Box::new(Schedule::new(per_second, arrivals));
                Self::Open {
                    next: start + schedule.next(),
                    schedule,
                    start,
                    max_in_flight,
                }
            }
        }
    }

    /// Returns the due moment of a request that is to start now; the inner `None` is for one that is due when it is
    /// sent.
    #[expect(clippy::option_option, reason = "a due moment of its own, or none")]
    fn due(&mut self, now: Instant, in_flight: usize) -> Option<Option<Instant>> {
        match self {
            Self::Closed { lanes } => (in_flight < *lanes).then_some(None),
            Self::Open {
                schedule,
                start,
                next,
                max_in_flight,
            } => {
                if *next > now || in_flight >= *max_in_flight {
                    return None;
                }
                let due = *next;
                *next = *start + schedule.next();
                Some(Some(due))
            }
        }
    }

    /// Returns the moment of the next request, if it does not wait for an answer.
    fn next(&self, in_flight: usize) -> Option<Instant> {
        match self {
            Self::Closed { .. } => None,
            Self::Open {
                next,
                max_in_flight,
                ..
            } => (in_flight < *max_in_flight).then_some(*next),
        }
    }
}

/// Returns the processor time of this process so far.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests;
