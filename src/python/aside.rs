//! Threads for cleanup: closing generators, destroying states, finalizing handlers. That is Python
//! code that may take long, and nobody waits for it.

use std::{
    collections::{HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::life::Core;
use crate::task;

/// Maximum number of threads; further work waits.
const THREADS: usize = 32;

/// Maximum number of threads for one handler, so that slow cleanup of one leaves some for others.
const PER_HANDLER: usize = 8;

/// Interval of log messages about work that has waited for longer than this.
const PATIENCE: Duration = Duration::from_secs(10);

struct Work {
    handler: usize,
    node: String,
    asked: Instant,
    work: Box<dyn FnOnce() + Send>,
}

/// Work of one handler.
#[derive(Default)]
struct Lane {
    /// Number of items that are running or ready for the next threads.
    taken: usize,
    /// Items waiting for one of those to end.
    waiting: VecDeque<Work>,
}

#[derive(Default)]
struct Ends {
    /// Items for the next threads.
    ready: VecDeque<Work>,
    /// Lanes by handler, for handlers with work.
    lanes: HashMap<usize, Lane>,
    threads: usize,
    /// Time of the last log message about waiting work.
    reported: Option<Instant>,
}

static ENDS: Mutex<Option<Ends>> = Mutex::new(None);

fn ends<T>(with: impl FnOnce(&mut Ends) -> T) -> T {
    let mut now: MutexGuard<'_, Option<Ends>> = ENDS.lock().unwrap_or_else(PoisonError::into_inner);
    with(now.get_or_insert_default())
}

/// Queues work of a handler for a thread that may block.
pub(super) fn aside(core: &Core, work: impl FnOnce() + Send + 'static) {
    let work = Work {
        handler: std::ptr::from_ref(core).addr(),
        node: core.node_name().to_owned(),
        asked: Instant::now(),
        work: Box::new(work),
    };
    let start = ends(|ends| {
        ends.push(work);
        ends.warn();
        let start = ends.threads < THREADS && !ends.ready.is_empty();
        ends.threads += usize::from(start);
        start
    });
    if start && task::thread("python end", run).is_err() {
        // The next caller tries again; the waiting work is done then.
        ends(|ends| ends.threads -= 1);
    }
}

/// Runs queued work until there is none.
fn run() {
    while let Some(Work { handler, work, .. }) = ends(Ends::pop) {
        // The panic hook has logged it.
        let _ = catch_unwind(AssertUnwindSafe(work));
        ends(|ends| ends.done(handler));
    }
}

impl Ends {
    fn push(&mut self, work: Work) {
        let lane = self.lanes.entry(work.handler).or_default();
        if lane.taken < PER_HANDLER {
            lane.taken += 1;
            self.ready.push_back(work);
        } else {
            lane.waiting.push_back(work);
        }
    }

    /// Returns the next item; without one, the thread ends.
    fn pop(&mut self) -> Option<Work> {
        let work = self.ready.pop_front();
        if work.is_none() {
            self.threads -= 1;
        }
        work
    }

    /// Releases the next waiting item of a handler.
    fn done(&mut self, handler: usize) {
        let Some(lane) = self.lanes.get_mut(&handler) else {
            return;
        };
        if let Some(next) = lane.waiting.pop_front() {
            self.ready.push_back(next);
        } else {
            lane.taken -= 1;
            if lane.taken == 0 {
                self.lanes.remove(&handler);
            }
        }
    }

    /// Logs a warning if work has waited for long.
    fn warn(&mut self) {
        if self
            .reported
            .is_some_and(|reported| reported.elapsed() < PATIENCE)
        {
            return;
        }
        let waiting = self.lanes.values().filter_map(|lane| lane.waiting.front());
        let oldest = waiting
            .chain(self.ready.front())
            .min_by_key(|work| work.asked);
        let Some(oldest) = oldest.filter(|work| work.asked.elapsed() > PATIENCE) else {
            return;
        };
        tracing::warn!(
            node = oldest.node,
            "Generators and states of python node {} wait for {} seconds to be closed: finally blocks, \
             destroy_state or finalize take long, and {PER_HANDLER} of one node run at once",
            oldest.node,
            oldest.asked.elapsed().as_secs()
        );
        self.reported = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(handler: usize) -> Work {
        Work {
            handler,
            node: handler.to_string(),
            asked: Instant::now(),
            work: Box::new(|| ()),
        }
    }

    #[test]
    fn one_handler_leaves_threads_for_others() {
        let mut ends = Ends {
            threads: 1,
            ..Ends::default()
        };
        for _ in 0..PER_HANDLER + 2 {
            ends.push(work(1));
        }
        ends.push(work(2));
        for _ in 0..PER_HANDLER {
            assert_eq!(ends.pop().unwrap().handler, 1);
        }
        assert_eq!(ends.pop().unwrap().handler, 2);
        assert!(ends.pop().is_none());
        assert_eq!(ends.threads, 0);
        ends.threads = 1;
        ends.done(2);
        assert!(ends.ready.is_empty());
        for _ in 0..2 {
            ends.done(1);
            assert_eq!(ends.pop().unwrap().handler, 1);
        }
        for _ in 0..PER_HANDLER {
            assert_eq!(ends.lanes.len(), 1);
            ends.done(1);
        }
        assert!(ends.lanes.is_empty() && ends.ready.is_empty());
    }

    #[test]
    fn work_that_waits_for_long_is_reported_once_in_a_while() {
        let mut ends = Ends::default();
        ends.push(work(1));
        ends.warn();
        assert!(ends.reported.is_none());
        let Some(before) = Instant::now().checked_sub(PATIENCE * 2) else {
            return;
        };
        ends.ready[0].asked = before;
        ends.warn();
        let reported = ends.reported.expect("it waits for long");
        ends.warn();
        assert_eq!(ends.reported, Some(reported));
    }
}
