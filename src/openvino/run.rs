//! On which thread a slot runs.
//!
//! A run of a few microseconds is done in place, on the async worker that has the request: a
//! hand-over to another thread would cost more than the run. Anything longer goes to the model's
//! own worker threads. What decides is a moving average of the run time, and it is only trusted
//! for models whose input shapes are fixed and that take no strings: elsewhere the next request may
//! be a thousand times larger than the last.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use super::{
    pool::{Lease, Patience, Pool, PoolError, Queue},
    slot::{Slot, SlotError, SlotInput},
    state::Hold,
};
use crate::{
    metrics::{Active, Call, Reporter, Times},
    task,
    tensor::Tensor,
};

/// A model whose runs take less than this on average runs in place. Measured: a hand-over costs
/// 20–90 µs, and an async worker that is busy for 200 µs delays nobody noticeably.
const IN_PLACE: Duration = Duration::from_micros(200);

/// A model whose runs take less than this on average is worth waiting for on the thread, for as
/// long: waking a task takes longer than such a run. That is reasoning, not measurement: with one
/// slot and 16 clients the effect could not be told from the noise.
const SPIN: Duration = Duration::from_micros(20);

/// The weight of one run in the moving average: 1/16. One run of seconds among fast ones keeps
/// the model off the async workers for about a hundred runs; one delayed by the system for a few.
const WEIGHT_SHIFT: u32 = 4;

/// Why a request was not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No slot was free and the queue was full.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The inference failed.
    #[error(transparent)]
    Slot(#[from] SlotError),
    /// The system gave no thread to run on.
    #[error("cannot start a worker thread")]
    Thread(#[source] std::io::Error),
    /// The worker ended before it answered; a bug in the runtime or here.
    #[error("the worker thread ended without an answer")]
    Lost,
}

/// The slots of a model version and the threads that they run on.
pub struct Runner {
    pool: Arc<Pool>,
    workers: Workers,
    /// Moving average of the run time in nanoseconds; starts high, so that the first runs, which
    /// are slow, are done on the worker threads.
    average: AtomicU64,
    /// Whether every input has a fixed number of bytes.
    steady: bool,
    streams: u32,
}

impl Runner {
    pub(super) fn new(
        slots: Vec<Slot>,
        most_waiting: usize,
        steady: bool,
        streams: u32,
        name: &str,
    ) -> Self {
        let workers = Workers::new(slots.len(), name);
        Self {
            pool: Pool::new(slots, most_waiting),
            workers,
            average: AtomicU64::new(nanoseconds(IN_PLACE) * 2),
            steady,
            streams,
        }
    }

    /// Returns the number of execution streams of the device.
    #[must_use]
    pub fn streams(&self) -> u32 {
        self.streams
    }

    /// Returns the number of slots.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.pool.size()
    }

    /// Runs one inference and returns the wanted outputs, by port, in the order asked for, and
    /// when the run ended. The run counts in the figures of `call`, its answer does not yet.
    ///
    /// Waits in turn for a free slot. Dropping the future while it waits leaves the queue;
    /// dropping it during a run lets the run end, after which the slot is free again. `hold` lives
    /// until then.
    ///
    /// # Errors
    ///
    /// Fails if the queue is full or the runtime fails.
    pub async fn infer(
        &self,
        inputs: Vec<SlotInput>,
        wanted: Vec<usize>,
        hold: impl Hold,
        call: &Call,
    ) -> Result<(Vec<Tensor>, Instant), RunError> {
        let ran = self.run(inputs, wanted, hold, call, Queue::Bounded).await;
        ran.map(|(outputs, times)| (outputs, times.ended))
    }

    /// Does the same for a node of a pipeline, and returns all times of the run. It may wait also
    /// where the queue is full: requests to pipelines are bounded before they begin.
    ///
    /// # Errors
    ///
    /// Fails if the runtime fails.
    pub(crate) async fn infer_node(
        &self,
        inputs: Vec<SlotInput>,
        wanted: Vec<usize>,
        call: &Call,
    ) -> Result<(Vec<Tensor>, Times), RunError> {
        self.run(inputs, wanted, (), call, Queue::Admitted).await
    }

    /// Returns what a run takes on average.
    #[must_use]
    pub fn usual(&self) -> Duration {
        Duration::from_nanos(self.average.load(Ordering::Relaxed))
    }

    async fn run(
        &self,
        inputs: Vec<SlotInput>,
        wanted: Vec<usize>,
        mut hold: impl Hold,
        call: &Call,
        queue: Queue,
    ) -> Result<(Vec<Tensor>, Times), RunError> {
        let average = self.average.load(Ordering::Relaxed);
        let in_place = self.steady && average < nanoseconds(IN_PLACE);
        let patience = if in_place && average < nanoseconds(SPIN) {
            Patience::Spin(SPIN)
        } else {
            Patience::InTurn
        };
        let asked = Instant::now();
        let mut lease = self.pool.lease(patience, queue).await?;
        let started = Instant::now();
        let times = Times {
            prepared: call.elapsed(asked),
            waited: started - asked,
            started,
            ended: started,
        };
        let reporter = call.reporter();
        let active = reporter.active();
        if in_place {
            let outputs = lease.slot().infer(hold.state(), &inputs, &wanted);
            let ended = Instant::now();
            hold.ended(outputs.is_ok());
            self.learn(ended - started);
            let outputs = outputs?;
            let times = Times { ended, ..times };
            reporter.ran(&times);
            return Ok((outputs, times));
        }
        let (reply, answer) = oneshot::channel();
        self.workers.submit(Job {
            lease,
            inputs,
            wanted,
            hold: Box::new(hold),
            times,
            active,
            reporter: Arc::clone(reporter),
            reply,
        })?;
        let (outputs, times) = answer.await.map_err(|_| RunError::Lost)?;
        self.learn(times.ended - times.started);
        Ok((outputs?, times))
    }

    /// Two threads that learn at once may lose one of the two samples, which does no harm.
    fn learn(&self, took: Duration) {
        let old = self.average.load(Ordering::Relaxed);
        let new = old - (old >> WEIGHT_SHIFT) + (nanoseconds(took) >> WEIGHT_SHIFT);
        self.average.store(new, Ordering::Relaxed);
    }
}

/// Durations here are far below the 500 years that fit.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// One inference on its way to a worker thread. There are never more of them than slots.
struct Job {
    lease: Lease,
    inputs: Vec<SlotInput>,
    wanted: Vec<usize>,
    hold: Box<dyn Hold>,
    /// Of the run, as far as it has come.
    times: Times,
    active: Active,
    reporter: Arc<Reporter>,
    reply: oneshot::Sender<(Result<Vec<Tensor>, SlotError>, Times)>,
}

/// The worker threads of one model version, started when first needed, at most one for each slot.
struct Workers {
    shared: Arc<Shared>,
    most: usize,
    name: String,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    idle: usize,
    threads: usize,
    closed: bool,
}

impl Workers {
    fn new(most: usize, name: &str) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State::default()),
                wake: Condvar::new(),
            }),
            most,
            name: format!("infer {name}"),
        }
    }

    fn submit(&self, job: Job) -> Result<(), RunError> {
        let mut state = self.shared.lock();
        state.jobs.push_back(job);
        if state.idle < state.jobs.len() && state.threads < self.most {
            let shared = Arc::clone(&self.shared);
            match task::thread(&self.name, move || shared.work()) {
                Ok(()) => state.threads += 1,
                Err(error) if state.threads == 0 => {
                    state.jobs.clear();
                    return Err(RunError::Thread(error));
                }
                // The threads that there are will come to it.
                Err(_) => {}
            }
        }
        drop(state);
        self.shared.wake.notify_one();
        Ok(())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.wake.notify_all();
    }
}

impl Shared {
    /// The life of a worker thread: jobs until the model version is dropped.
    fn work(&self) {
        while let Some(mut job) = self.next() {
            if job.reply.is_closed() {
                // Its client has left meanwhile.
                continue;
            }
            job.times.started = Instant::now();
            let Job {
                lease,
                inputs,
                wanted,
                hold,
                ..
            } = &mut job;
            let run = || lease.slot().infer(hold.state(), inputs, wanted);
            // A panic is told to the one client; the thread has others to serve.
            let Ok(outputs) = catch_unwind(AssertUnwindSafe(run)) else {
                continue;
            };
            job.times.ended = Instant::now();
            job.hold.ended(outputs.is_ok());
            if outputs.is_ok() {
                job.reporter.ran(&job.times);
            }
            // The slot is free before the answer is out, so that a client that sends its next
            // request at once finds it.
            drop(job.active);
            drop(job.lease);
            // A client that left is not an error.
            let _ = job.reply.send((outputs, job.times));
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state.idle += 1;
            state = self
                .wake
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change to the state is a single step, so a panic cannot leave it half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
