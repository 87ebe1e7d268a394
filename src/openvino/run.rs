//! Choice of the thread that a slot runs on.
//!
//! A run of a few microseconds is done in place, on the async worker that has the request: a
//! hand-over to another thread would cost more than the run. Anything longer goes to the model's
//! own worker threads. What decides is a moving average of the run time, and it is only trusted
//! for models whose input shapes are fixed and that take no strings: elsewhere the next request may
//! be a thousand times larger than the last.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use super::{
    batch::{BatchOutcome, BatchRules, BatchingFacts, Unbatched},
    health::{Health, Nature},
    options::{LoadOptions, Placement},
    pool::{Lease, Pool, PoolError, Rank, SlotQueue, SlotWait},
    runtime_error::OpenVinoError,
    slot::Slot,
    slot_error::SlotError,
    slot_input::{SlotInput, rows_of},
    state::Hold,
    workers::{Answer, Run, Workers, failure},
};
use crate::{
    metrics::{Reporter, RequestRecord, Times},
    quota::Priority,
    task,
    tensor::Tensor,
    trace::TraceContext,
};

/// A model whose runs take less than this on average runs in place. Measured: a hand-over costs
/// 20–90 µs, and an async worker that is busy for 200 µs delays nobody noticeably.
const IN_PLACE: Duration = Duration::from_micros(200);

/// A model whose runs take less than this on average is worth waiting for on the thread, for as
/// long: waking a task takes longer than such a run. That is reasoning, not measurement: with one
/// slot and 16 clients the effect was indistinguishable from noise.
const SPIN: Duration = Duration::from_micros(20);

/// The weight of one run in the moving average: 1/16.
const WEIGHT_SHIFT: u32 = 4;

/// Any run may count for this many nanoseconds, however short the runs before were.
const MIN_SAMPLE: u64 = 1000;

/// Error of a request that was not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No free slot, and a full queue.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The inference failed.
    #[error(transparent)]
    Slot(#[from] SlotError),
    /// The model does not take shapes such as these together.
    #[error("OpenVINO refuses the shapes of the inputs")]
    Shapes(#[source] OpenVinoError),
    /// The compiled model is spoilt, and the request can run on another one: what it was, and what
    /// failed if it has run.
    #[error("the compiled model has to be replaced, since an inference before failed")]
    Spoilt(#[source] Option<SlotError>, Work),
    /// The system gave no thread to run on.
    #[error("cannot start a worker thread")]
    Thread(#[source] std::io::Error),
    /// The worker ended before it answered; a bug in the runtime or here.
    #[error("the worker thread ended without an answer")]
    Lost,
}

/// A request as slots take it.
#[derive(Debug, Clone)]
pub struct Work {
    /// The inputs, in the order of their ports, by which shapes of requests are compared.
    pub inputs: Vec<SlotInput>,
    /// The outputs that are wanted, by port.
    pub wanted: Vec<usize>,
}

impl Work {
    /// Makes a request of inputs in any order.
    pub fn new(mut inputs: Vec<SlotInput>, wanted: Vec<usize>) -> Self {
        inputs.sort_by_key(|input| input.port);
        Self { inputs, wanted }
    }
}

/// The slots of a model version and the threads that they run on.
pub struct Runner {
    pool: Arc<Pool>,
    /// Time that a step of priority is worth in the queue.
    priority_step: Duration,
    workers: Workers,
    /// The run time; starts high, so that the first runs, which are slow, are done on the worker
    /// threads. One run of seconds among fast ones keeps the model off the async workers for about a
    /// hundred runs; one delayed by the system for a few.
    average: Average,
    /// The same, but a run counts as twice the average at most: one whose thread was kept from the
    /// processor says nothing of the model.
    typical: Average,
    /// Indicates that every input has a fixed number of bytes.
    steady: bool,
    /// Indicates that the first dimension of a request is a number of rows.
    has_rows: bool,
    /// Indicates that runs are steps of sequences.
    stateful: bool,
    placement: Placement,
    streams: u32,
    health: Arc<Health>,
    /// Reason why there are no batches, although they were asked for.
    unbatched: Option<Unbatched>,
}

impl Runner {
    pub(super) fn new(
        mut slots: Vec<Slot>,
        options: &LoadOptions,
        (steady, has_rows, batches): (bool, bool, Option<Result<BatchRules, Unbatched>>),
        streams: u32,
        name: &str,
        nature: Nature,
    ) -> Self {
        let health = Arc::new(Health::new(nature));
        if let Some(condition) = health.doubts() {
            slots.iter_mut().for_each(|slot| slot.attend(condition));
        }
        // Batches are of rows, as was found when they were measured.
        let has_rows = has_rows || matches!(batches, Some(Ok(_)));
        let limit = options.inference_timeout;
        let (batches, unbatched) = match batches {
            Some(Ok(rules)) => (Some(rules), None),
            Some(Err(reason)) => (None, Some(reason)),
            None => (None, None),
        };
        // Nobody can be answered from within a run in place, nor does one wait for others.
        let waits = batches.as_ref().is_some_and(|it| !it.delay.is_zero());
        let steady = steady && limit.is_none() && !waits;
        let pool = Pool::new(slots, options.max_waiting);
        let workers = Workers::new(&pool, name, Arc::clone(&health), limit, batches);
        Self {
            pool,
            priority_step: options.priority_step,
            workers,
            average: Average(AtomicU64::new(nanoseconds(IN_PLACE) * 2)),
            typical: Average(AtomicU64::new(nanoseconds(IN_PLACE) * 2)),
            steady,
            has_rows,
            stateful: options.stateful,
            placement: options.placement,
            streams,
            health,
            unbatched,
        }
    }

    /// Returns the number of execution streams of the device.
    pub fn streams(&self) -> u32 {
        self.streams
    }

    /// Returns the name of the model.
    pub fn model(&self) -> &str {
        self.workers.model()
    }

    /// Returns the health of the compiled model.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Sends requests that wait to what has taken its place.
    pub fn hand_over(&self) {
        if self.health.lets_go() {
            self.pool.shut();
        }
    }

    /// Describes the batches of the model, if it is set to have any.
    pub fn batching(&self) -> Option<BatchingFacts> {
        let facts = self.workers.batches().map(BatchRules::facts);
        let off = self.unbatched.as_ref();
        facts.or_else(|| off.map(|off| BatchingFacts::off(Arc::clone(&off.reason))))
    }

    /// Returns the outcome of the preparation of batches, if the model is set to have any.
    pub fn batch_outcome(&self) -> Option<BatchOutcome> {
        let rules = self.workers.batches().map(BatchRules::outcome);
        rules.or_else(|| self.unbatched.as_ref().map(Unbatched::outcome))
    }

    /// Returns the number of slots.
    pub fn slots(&self) -> usize {
        self.pool.size()
    }

    /// Returns the number of requests that wait for one of them.
    pub fn in_queue(&self) -> usize {
        self.pool.in_queue()
    }

    /// Returns the average duration of a run done in place; `None` if the worker threads do it.
    pub fn in_place(&self) -> Option<Duration> {
        if self.placement == Placement::InPlace {
            return Some(Duration::ZERO);
        }
        let average = self.average.0.load(Ordering::Relaxed);
        (self.steady && average < nanoseconds(IN_PLACE)).then(|| Duration::from_nanos(average))
    }

    /// Runs one inference and returns the wanted outputs, by port, in the order asked for, and the times
    /// of the run. The run counts in the figures of `call`, its answer does not yet.
    ///
    /// Waits in turn for a free slot. Dropping the future while it waits leaves the queue;
    /// dropping it during a run lets the run end, after which the slot is free again. `hold` lives
    /// until then. Where the caller bounds the queue, a worker thread that is done with a slot may run
    /// it at once.
    ///
    /// # Errors
    ///
    /// Fails if the queue is full or the runtime fails.
    pub async fn infer(
        &self,
        work: Work,
        mut hold: impl Hold,
        call: &RequestRecord,
        queue: SlotQueue,
    ) -> Result<(Vec<Tensor>, Times), RunError> {
        let asked = Instant::now();
        if !self.health.is_sound() {
            if self.health.sends_away() {
                return Err(RunError::Spoilt(None, work));
            }
            if let Some(guard) = self.health.guard() {
                Box::pin(guard.admit(&work.inputs)).await?;
            }
        }
        if self.in_place().is_none() {
            // In a box, as are waits, so that runs in place do not carry room for it.
            let run = self.run_on_worker(work, hold, call, queue, asked);
            return Box::pin(run).await;
        }
        let short = self.placement == Placement::InPlace
            || self.typical.0.load(Ordering::Relaxed) < nanoseconds(SPIN);
        let strategy = if short {
            SlotWait::Spin(SPIN)
        } else {
            // Longer than others of the same connection are to wait.
            task::in_own_task().await;
            SlotWait::InTurn
        };
        let lease = match self.pool.lease_now(strategy) {
            Some(lease) => lease,
            // What waits may be taken along by others.
            None if self.workers.batches().is_some() => {
                let run = self.run_on_worker(work, hold, call, queue, asked);
                return Box::pin(run).await;
            }
            None => {
                let rank = self.rank(asked, call.priority());
                match Box::pin(self.pool.lease_in_turn(queue, rank)).await {
                    Ok(lease) => lease,
                    Err(error) => return Err(self.not_lent(error, work)),
                }
            }
        };
        let times = Times::begun(call, asked, Instant::now(), self.rows(&work.inputs));
        let origin = (call.reporter(), call.traced());
        self.run_here(lease, work, &mut hold, times, origin)
    }

    /// Runs on the calling thread.
    fn run_here(
        &self,
        mut lease: Lease,
        work: Work,
        hold: &mut dyn Hold,
        mut times: Times,
        (reporter, trace): (&Arc<Reporter>, Option<&TraceContext>),
    ) -> Result<(Vec<Tensor>, Times), RunError> {
        let _active = reporter.active();
        let Work { inputs, wanted } = &work;
        let outputs = lease.slot().infer(hold.state(), inputs, wanted, None);
        times.ended = Instant::now();
        // One that fails may take no time at all.
        if outputs.is_ok() {
            self.learn(times.ended - times.started);
        }
        if let Some(trace) = trace {
            trace.ran(times.moments(), failure(&outputs), None);
        }
        let outputs = self.health.validate(outputs, || work);
        end(hold, &outputs);
        let outputs = outputs?;
        reporter.ran(&times);
        Ok((outputs, times))
    }

    /// Runs the inference on a worker thread.
    async fn run_on_worker(
        &self,
        work: Work,
        hold: impl Hold,
        call: &RequestRecord,
        queue: SlotQueue,
        asked: Instant,
    ) -> Result<(Vec<Tensor>, Times), RunError> {
        let (reply, answer) = oneshot::channel();
        let mut run = Run {
            // A state has one row.
            rows: rows_of(&work.inputs).filter(|rows| *rows == 1 || !self.stateful),
            times: Times::begun(call, asked, asked, self.rows(&work.inputs)),
            work,
            hold: Box::new(hold),
            asked,
            rank: self.rank(asked, call.priority()),
            _place: call.owner().and_then(|owner| owner.place.clone()),
            reporter: Arc::clone(call.reporter()),
            trace: call.traced().cloned(),
            reply: Some(reply),
        };
        let batches = self.workers.batches();
        if batches.is_some_and(|it| !it.delay.is_zero()) {
            match self.workers.join(run) {
                Ok(()) => return self.answered(answer.await),
                Err(back) => run = back,
            }
        }
        let free = match queue {
            SlotQueue::Bounded if batches.is_none() => {
                match self.pool.lease(SlotWait::InTurn, queue, run.rank).await {
                    Ok(lease) => Some(lease),
                    Err(error) => return Err(self.not_lent(error, run.work)),
                }
            }
            // Where it waits, a worker thread that runs another one may take it along.
            _ => self.pool.lease_now(SlotWait::InTurn),
        };
        match free {
            Some(lease) => {
                self.workers.submit(run.with(lease))?;
                self.answered(answer.await)
            }
            None => self.offer(run, answer, queue).await,
        }
    }

    /// Takes in the answer of a worker thread.
    fn answered(
        &self,
        answer: Result<Answer, oneshot::error::RecvError>,
    ) -> Result<(Vec<Tensor>, Times), RunError> {
        let (outputs, times) = answer.map_err(|_| RunError::Lost)?;
        let outputs = outputs?;
        self.learn(times.ended - times.started);
        Ok((outputs, times))
    }

    /// Waits for a slot, or for a worker thread to take the run with the slot that it has.
    async fn offer(
        &self,
        run: Run,
        mut answer: oneshot::Receiver<Answer>,
        queue: SlotQueue,
    ) -> Result<(Vec<Tensor>, Times), RunError> {
        let rank = run.rank;
        let mut offer = self.workers.offer(run);
        tokio::select! {
            biased;
            answer = &mut answer => return self.answered(answer),
            lease = self.pool.lease(SlotWait::InTurn, queue, rank) => {
                if let Some(run) = offer.take_back() {
                    let lease = match lease {
                        Ok(lease) => lease,
                        Err(error) => return Err(self.not_lent(error, run.work)),
                    };
                    // As if it had waited in turn, unless others can be taken along.
                    if self.in_place().is_some() && self.workers.has_no_offers() {
                        return self.run_waited(lease, run);
                    }
                    self.workers.submit(run.with(lease))?;
                }
            }
        }
        self.answered(answer.await)
    }

    /// Runs on the calling thread after a wait.
    fn run_waited(&self, lease: Lease, run: Run) -> Result<(Vec<Tensor>, Times), RunError> {
        let Run {
            work,
            mut hold,
            asked,
            mut times,
            reporter,
            trace,
            ..
        } = run;
        times.started = Instant::now();
        times.waited = times.started - asked;
        self.run_here(lease, work, &mut *hold, times, (&reporter, trace.as_ref()))
    }

    /// Returns the number of rows of a request; 1 if the model has no batches.
    fn rows(&self, inputs: &[SlotInput]) -> usize {
        let rows = self.has_rows.then(|| rows_of(inputs)).flatten();
        rows.unwrap_or(1)
    }

    /// Returns the place in the queue of a run that has asked for a slot.
    fn rank(&self, asked: Instant, priority: Priority) -> Rank {
        asked + self.priority_step * priority.number().into()
    }

    /// Returns the outcome of a request that was lent no slot.
    fn not_lent(&self, error: PoolError, work: Work) -> RunError {
        match error {
            PoolError::Shut if self.health.lets_go() => RunError::Spoilt(None, work),
            error => RunError::Pool(error),
        }
    }

    /// Two threads that learn at once may lose one of the two samples, which does no harm.
    fn learn(&self, took: Duration) {
        let took = nanoseconds(took);
        self.average.add(took);
        let typical = self.typical.0.load(Ordering::Relaxed);
        self.typical.add(took.min(typical * 2 + MIN_SAMPLE));
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // The task that waits for stuck inferences ends.
        self.health.stuck.notify_one();
    }
}

/// Reports to the holder of a run how it has ended.
pub(super) fn end(hold: &mut dyn Hold, outputs: &Result<Vec<Tensor>, RunError>) {
    match outputs {
        Err(RunError::Spoilt(..)) => hold.undone(),
        outputs => hold.ended(outputs.is_ok()),
    }
}

/// A moving average in nanoseconds.
struct Average(AtomicU64);

impl Average {
    fn add(&self, sample: u64) {
        let old = self.0.load(Ordering::Relaxed);
        let new = old - (old >> WEIGHT_SHIFT) + (sample >> WEIGHT_SHIFT);
        self.0.store(new, Ordering::Relaxed);
    }
}

/// Durations here are far below the 500 years that fit.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
