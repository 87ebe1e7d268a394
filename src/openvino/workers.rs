//! The worker threads of a model version, and their runs.
//!
//! A run comes with its slot. One that waits for a slot may be left with the threads as an offer: a
//! thread that ends a run, and finds nobody waiting for its slot but offers, continues with the
//! first of them. That saves the way through a task, which has to be woken for the answer and then
//! wakes the thread again; meanwhile the slot would stand idle.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use super::{
    health::Health,
    pool::Lease,
    run::{RunError, Work},
    slot::{Late, Limit, SlotError, Step},
    state::Hold,
};
use crate::{
    metrics::{Active, Reporter, Times},
    task,
    tensor::Tensor,
};

/// Outcome of a run.
pub(super) type Answer = (Result<Vec<Tensor>, RunError>, Times);

/// One inference.
pub(super) struct Run {
    pub(super) work: Work,
    pub(super) hold: Box<dyn Hold>,
    /// Time at which a slot was asked for.
    pub(super) asked: Instant,
    /// Times measured so far.
    pub(super) times: Times,
    pub(super) reporter: Arc<Reporter>,
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
    health: Arc<Health>,
    /// Maximum duration of an inference.
    limit: Option<Duration>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Runs that wait for a slot, each with its number.
    offers: VecDeque<(u64, Run)>,
    last_offer: u64,
    /// Number of offers that were taken while their owners keep waiting for a slot.
    taken: usize,
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
        let mut state = self.shared.state.lock();
        let mut offers = state.offers.iter();
        let place = offers.position(|(number, _)| *number == self.number);
        let Some(place) = place else {
            state.taken -= 1;
            return None;
        };
        state.offers.remove(place).map(|(_, run)| run)
    }
}

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        self.take_back();
    }
}

impl Workers {
    pub(super) fn new(
        most: usize,
        name: &str,
        health: Arc<Health>,
        limit: Option<Duration>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State::default()),
                wake: Condvar::new(),
                health,
                limit,
            }),
            most,
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
        state.last_offer += 1;
        let number = state.last_offer;
        state.offers.push_back((number, run));
        Offer {
            shared: &self.shared,
            number,
            over: false,
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.wake.notify_all();
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

    /// Does a job; returns what can have its slot at once.
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
        let most = lease.slot().batch();
        if most > 1 {
            let others = self.companions(most - 1);
            if !others.is_empty() {
                return self.run_together(lease, active, run, others);
            }
        }
        run.times.started = Instant::now();
        // A panic is reported to the one client; the thread has others to serve.
        let infer = || self.infer(&mut lease, &mut run);
        let outputs = catch_unwind(AssertUnwindSafe(infer)).ok()?;
        let (reply, answer) = self.answer(run, outputs, Instant::now());
        // The slot is free before the answer is out, so that a client that sends its next
        // request at once finds it.
        drop(active);
        let next = self.offered(lease);
        match reply {
            // A client that left is not an error.
            Some(reply) => drop(reply.send(answer)),
            // Its time was over, so that nobody else would see to what it has left.
            None => self.health.stuck.notify_one(),
        }
        next
    }

    /// Ends a run; returns the channel to its client, and the answer for that.
    fn answer(
        &self,
        mut run: Run,
        outputs: Result<Vec<Tensor>, SlotError>,
        ended: Instant,
    ) -> (Option<oneshot::Sender<Answer>>, Answer) {
        run.times.ended = ended;
        run.hold.ended(outputs.is_ok());
        let Run {
            work, times, reply, ..
        } = run;
        let outputs = self.health.validate(outputs, || work);
        if outputs.is_ok() {
            run.reporter.ran(&times);
        }
        (reply, (outputs, times))
    }

    /// Takes runs that wait for a slot, to run with another one.
    fn companions(&self, most: usize) -> Vec<Run> {
        let mut state = self.state.lock();
        let count = most.min(state.offers.len());
        state.taken += count;
        let taken = state.offers.drain(..count).map(|(_, run)| run);
        // Some clients may have left.
        let waits = |run: &Run| run.reply.as_ref().is_some_and(|reply| !reply.is_closed());
        taken.filter(waits).collect()
    }

    /// Runs steps of different sequences as one inference.
    fn run_together(
        &self,
        mut lease: Lease,
        active: Active,
        run: Run,
        others: Vec<Run>,
    ) -> Option<Job> {
        let started = Instant::now();
        let mut actives = vec![active];
        let mut runs = vec![run];
        for mut run in others {
            run.times.waited = started - run.asked;
            actives.push(run.reporter.active());
            runs.push(run);
        }
        for run in &mut runs {
            run.times.started = started;
        }
        let infer = || {
            let mut steps = Vec::with_capacity(runs.len());
            for Run { hold, work, .. } in &mut runs {
                steps.push(Step {
                    state: hold.state()?,
                    inputs: &work.inputs,
                    wanted: &work.wanted,
                });
            }
            lease.slot().infer_batch(&mut steps).ok()
        };
        let together = catch_unwind(AssertUnwindSafe(infer)).ok()?;
        let outputs: Vec<Result<_, SlotError>> = match together {
            Some(outputs) => outputs.into_iter().map(Ok).collect(),
            // One that fails is not to fail the others.
            None => {
                let alone = || {
                    let each = runs.iter_mut().map(|run| self.infer(&mut lease, run));
                    each.collect()
                };
                catch_unwind(AssertUnwindSafe(alone)).ok()?
            }
        };
        let ended = Instant::now();
        let mut replies = Vec::with_capacity(runs.len());
        for (run, outputs) in runs.into_iter().zip(outputs) {
            let (reply, answer) = self.answer(run, outputs, ended);
            replies.extend(reply.map(|reply| (reply, answer)));
        }
        drop(actives);
        let next = self.offered(lease);
        for (reply, answer) in replies {
            // A client that left is not an error.
            let _ = reply.send(answer);
        }
        next
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
            let others_wait = lease.waiting() > state.offers.len() + state.taken;
            if others_wait || !state.jobs.is_empty() {
                return None;
            }
            let offer = state.offers.pop_front();
            state.taken += usize::from(offer.is_some());
            offer
        };
        run.map(|(_, run)| run.with(lease))
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
