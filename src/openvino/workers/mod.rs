//! The worker threads of a model version, and their runs.
//!
//! A run comes with its slot. One that waits for a slot may be left with the threads as an offer: a
//! thread that ends a run, and finds nobody waiting for its slot but offers, continues with the
//! first of them. That saves the way through a task, which has to be woken for the answer and then
//! wakes the thread again; meanwhile the slot would stand idle. Of a model with batches, a thread takes
//! the offers along that run together with its run ([`super::batch`]).

mod together;

use std::{
    collections::VecDeque,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use super::{
    batch::{
        BatchRules, ReturnRule, ReturnWait,
        queue::{Batchable, RunQueue},
    },
    health::Health,
    limit::{Late, Limit},
    pool::{Lease, Pool, Rank},
    run::{RunError, Work, end},
    slot_error::SlotError,
    state::Hold,
};
use crate::{
    metrics::{Active, Reporter, Times},
    quota::ClientPlace,
    task,
    tensor::Tensor,
    trace::{TraceContext, TraceSpan},
};

/// Outcome of a run.
pub(super) type Answer = (Result<Vec<Tensor>, RunError>, Times);

/// One inference.
pub(super) struct Run {
    pub(super) work: Work,
    pub(super) hold: Box<dyn Hold>,
    /// Time at which a slot was asked for.
    pub(super) asked: Instant,
    /// Its place in the queue.
    pub(super) rank: Rank,
    /// Number of its rows in a batch; `None` if it runs alone.
    pub(super) rows: Option<usize>,
    /// Place of its request among those of the client, until it ends.
    pub(super) _place: Option<Arc<ClientPlace>>,
    /// Times measured so far.
    pub(super) times: Times,
    pub(super) reporter: Arc<Reporter>,
    /// Parent context of its spans, if its request is traced.
    pub(super) trace: Option<TraceContext>,
    /// Channel to the client; `None` once it has its response.
    pub(super) reply: Option<oneshot::Sender<Answer>>,
}

impl Run {
    /// Gives it a slot.
    pub(super) fn with(mut self, lease: Lease) -> Job {
        let now = Instant::now();
        self.times.waited = now - self.asked;
        self.times.started = now;
        Job {
            lease,
            active: self.reporter.active(),
            run: self,
        }
    }
}

impl Batchable for Run {
    type Shapes = Vec<Vec<usize>>;

    fn rank(&self) -> Rank {
        self.rank
    }

    fn rows(&self) -> Option<usize> {
        self.rows
    }

    fn shapes(&self) -> Self::Shapes {
        let rows = self.work.inputs.iter().map(|input| &input.shape);
        rows.map(|shape| shape[1..].to_vec()).collect()
    }

    fn has_shapes(&self, shapes: &Self::Shapes) -> bool {
        let inputs = &self.work.inputs;
        let of_row = |shape: &[usize], row: &[usize]| shape.get(1..) == Some(row);
        let mut pairs = inputs.iter().zip(shapes);
        inputs.len() == shapes.len() && pairs.all(|(input, row)| of_row(&input.shape, row))
    }

    fn is_wanted(&self) -> bool {
        let reply = self.reply.as_ref();
        reply.is_some_and(|reply| !reply.is_closed())
    }
}

/// A run that has its slot. There are never more of them than slots.
pub(super) struct Job {
    lease: Lease,
    active: Active,
    run: Run,
}

/// The worker threads of one model version, started when first needed, at most one for each slot.
pub(super) struct Workers {
    shared: Arc<Shared>,
    most: usize,
    name: String,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    /// Notified when a batch that waits for more rows may be at the end of its wait.
    gathered: Condvar,
    /// Notified when as many rows are there as a slot waits for.
    returned: Condvar,
    health: Arc<Health>,
    /// Name of the model.
    model: String,
    /// Maximum duration of an inference.
    limit: Option<Duration>,
    batches: Option<BatchRules>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Runs that wait for a slot.
    queue: RunQueue<Run>,
    returns: ReturnRule,
    /// Numbers of rows that slots wait for.
    awaited: Vec<usize>,
    idle: usize,
    threads: usize,
    closed: bool,
}

/// A run that was left with the threads; it is taken back on drop.
pub(super) struct Offer<'a> {
    shared: &'a Shared,
    number: u64,
    over: bool,
}

impl Offer<'_> {
    /// Returns the run, unless a thread has taken it. Its owner does not wait for a slot any more.
    pub(super) fn take_back(&mut self) -> Option<Run> {
        if std::mem::replace(&mut self.over, true) {
            return None;
        }
        self.shared.state.lock().queue.take_back(self.number)
    }
}

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        self.take_back();
    }
}

impl Workers {
    /// Makes the threads of a pool of slots, which are started when they are needed.
    pub(super) fn new(
        pool: &Pool,
        name: &str,
        health: Arc<Health>,
        limit: Option<Duration>,
        batches: Option<BatchRules>,
    ) -> Self {
        let state = State {
            queue: RunQueue::counting(pool.taken()),
            ..State::default()
        };
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                wake: Condvar::new(),
                gathered: Condvar::new(),
                returned: Condvar::new(),
                health,
                model: name.to_owned(),
                limit,
                batches,
            }),
            most: pool.size(),
            name: format!("infer {name}"),
        }
    }

    /// Hands a job to a thread.
    pub(super) fn submit(&self, job: Job) -> Result<(), RunError> {
        let mut state = self.shared.state.lock();
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

    /// Leaves a run with the threads, while its owner keeps waiting for a slot: there may be no
    /// thread that comes to it.
    pub(super) fn offer(&self, run: Run) -> Offer<'_> {
        let mut state = self.shared.state.lock();
        let number = state.queue.push(run);
        if let Some(&target) = state.awaited.iter().min()
            && state.queue.rows() >= target
        {
            self.shared.returned.notify_all();
        }
        drop(state);
        // A batch that waits for more rows does not keep its infer request from this one.
        self.shared.gathered.notify_all();
        Offer {
            shared: &self.shared,
            number,
            over: false,
        }
    }

    /// Returns the name of the model.
    pub(super) fn model(&self) -> &str {
        &self.shared.model
    }

    /// Returns the rules of batches, if the model has any.
    pub(super) fn batches(&self) -> Option<&BatchRules> {
        self.shared.batches.as_ref()
    }

    /// Returns whether no run waits for a slot.
    pub(super) fn has_no_offers(&self) -> bool {
        self.shared.state.lock().queue.is_empty()
    }

    /// Puts a run into a batch that waits for more rows, or gives it back.
    #[expect(
        clippy::result_large_err,
        reason = "a run that is given back goes on as it is, and a box would be an allocation for each request"
    )]
    pub(super) fn join(&self, run: Run) -> Result<(), Run> {
        let joined = self.shared.state.lock().queue.join(run);
        if joined.is_ok() {
            // Each batch finds out itself whether it is full.
            self.shared.gathered.notify_all();
        }
        joined
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.wake.notify_all();
        self.shared.gathered.notify_all();
        self.shared.returned.notify_all();
    }
}

impl Shared {
    /// Runs jobs until the model version is dropped.
    fn work(&self) {
        while let Some(job) = self.next() {
            let mut job = Some(job);
            while let Some(next) = job {
                job = self.run(next);
            }
        }
    }

    /// Runs a job; returns the next one, which can have its slot at once.
    fn run(&self, job: Job) -> Option<Job> {
        let Job {
            mut lease,
            active,
            mut run,
        } = job;
        if run.reply.as_ref().is_none_or(oneshot::Sender::is_closed) {
            // Its client has left meanwhile.
            return None;
        }
        if self.health.sends_away() {
            // It would run for nothing: what comes out is not to be trusted.
            let answer = (Err(RunError::Spoilt(None, run.work)), run.times);
            drop(lease);
            if let Some(reply) = run.reply {
                let _ = reply.send(answer);
            }
            return None;
        }
        if let Some(rules) = &self.batches {
            if let Some(others) = self.companions(rules, &run) {
                return self.run_together(rules, (lease, active), run, others);
            }
            if !run.is_wanted() {
                // While others were waited for.
                return None;
            }
        }
        run.times.started = Instant::now();
        run.times.waited = run.times.started - run.asked;
        // A panic is reported to the one client; the thread has others to serve.
        let infer = || self.infer(&mut lease, &mut run);
        let outputs = catch_unwind(AssertUnwindSafe(infer)).ok()?;
        let ended = Instant::now();
        if let Some(rules) = &self.batches
            && outputs.is_ok()
            && run.rows() == Some(1)
        {
            rules.choice.ran(None, ended - run.times.started, ended);
        }
        let answered = run.rows().unwrap_or(0);
        let (reply, answer) = self.answer(run, outputs, ended, None);
        // The slot is free before the answer is out, so that a client that sends its next
        // request at once finds it.
        drop(active);
        self.go_on(lease, answered, || match reply {
            // A client that left is not an error.
            Some(reply) => drop(reply.send(answer)),
            // Its time was over, so that nobody else would see to what it has left.
            None => self.health.stuck.notify_one(),
        })
    }

    /// Answers requests of so many rows, and returns what can have the slot at once.
    fn go_on(&self, lease: Lease, answered: usize, answer: impl FnOnce()) -> Option<Job> {
        let Some(wait) = self.return_wait(answered) else {
            let next = self.offered(lease);
            answer();
            return next;
        };
        answer();
        let deadline = Instant::now() + wait.limit;
        let mut state = self.state.lock();
        state.awaited.push(wait.target);
        while state.queue.rows() < wait.target && !state.closed {
            if self.returned.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        let own = state.awaited.iter().position(|it| *it == wait.target);
        own.map(|place| state.awaited.swap_remove(place));
        let present = self.batches.as_ref().map_or(0, |rules| {
            state.queue.rows_of_first(rules.choice.sizes().most())
        });
        state.returns.ended(wait, present);
        drop(state);
        self.offered(lease)
    }

    /// Returns the wait for those that have just been answered, if it is worth one.
    fn return_wait(&self, answered: usize) -> Option<ReturnWait> {
        let rules = self.batches.as_ref()?;
        if rules.are_off() || self.health.is_spoilt() {
            return None;
        }
        let mut state = self.state.lock();
        let waiting = state.queue.rows_of_first(rules.choice.sizes().most());
        if waiting == 0 && !state.queue.is_empty() {
            // The next one runs alone.
            return None;
        }
        let wait = state.returns.plan(&rules.choice, answered, waiting)?;
        // Those of other shapes would end it at once.
        (state.queue.rows() < wait.target).then_some(wait)
    }

    /// Ends a run; returns the channel to its client, and the answer for that.
    fn answer(
        &self,
        mut run: Run,
        outputs: Result<Vec<Tensor>, SlotError>,
        ended: Instant,
        batch: Option<&TraceSpan>,
    ) -> (Option<oneshot::Sender<Answer>>, Answer) {
        run.times.ended = ended;
        if let Some(trace) = &run.trace {
            let batch = batch.map(TraceSpan::context);
            trace.ran(run.times.moments(), failure(&outputs), batch);
        }
        let Run {
            work,
            times,
            reply,
            mut hold,
            ..
        } = run;
        let outputs = self.health.validate(outputs, || work);
        match reply {
            // Its client knows already that it has failed.
            None => hold.ended(outputs.is_ok()),
            Some(_) => end(&mut *hold, &outputs),
        }
        if outputs.is_ok() {
            run.reporter.ran(&times);
        }
        (reply, (outputs, times))
    }

    /// Runs the inference; answers its client before it has ended if it takes too long.
    fn infer(&self, lease: &mut Lease, run: &mut Run) -> Result<Vec<Tensor>, SlotError> {
        let Some(after) = self.limit else {
            let Work { inputs, wanted } = &run.work;
            return lease.slot().infer(run.hold.state(), inputs, wanted, None);
        };
        let pool = lease.pool();
        let (reply, reporter, mut times) = (&mut run.reply, &run.reporter, run.times);
        let mut stuck = None;
        let mut passed = |late| match late {
            Late::Over => {
                times.ended = Instant::now();
                if let Some(reply) = reply.take() {
                    let _ = reply.send((Err(SlotError::Timeout(after).into()), times));
                }
            }
            Late::Stuck => {
                stuck = Some((pool.stuck(), reporter.stuck()));
                self.health.stick();
            }
        };
        let limit = Limit {
            after,
            passed: &mut passed,
        };
        let Work { inputs, wanted } = &run.work;
        let state = run.hold.state();
        let ended = lease.slot().infer(state, inputs, wanted, Some(limit));
        drop(stuck);
        ended
    }

    /// Gives a slot to the first offer, or back if others wait for it as well, which have their turn.
    fn offered(&self, lease: Lease) -> Option<Job> {
        let run = {
            let mut state = self.state.lock();
            // Who offers waits for a slot, too, and does so until it knows that a thread has come.
            let others_wait = lease.waiting() > state.queue.owners();
            if others_wait || !state.jobs.is_empty() {
                return None;
            }
            state.queue.pop()
        };
        run.map(|run| run.with(lease))
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state.idle += 1;
            self.wake.wait(&mut state);
            state.idle -= 1;
        }
    }
}

/// Returns the error of a run, for its span.
pub(super) fn failure(outputs: &Result<Vec<Tensor>, SlotError>) -> Option<&dyn fmt::Display> {
    let error = outputs.as_ref().err()?;
    Some(error)
}
