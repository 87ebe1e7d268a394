//! Batches of requests: how many of each size, and how long they took.
//!
//! Batches are counted under a lock, since each stands for several requests, and takes far longer than that.
//! Requests alone are not counted here: they are what is left of all.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;

use super::statistics::{Executions, Stage, Statistics};

/// A batch that has run.
#[derive(Debug, Clone, Copy)]
pub struct BatchRun {
    /// Number of rows.
    pub rows: usize,
    /// Number of requests.
    pub requests: usize,
    /// Time before it, of all its requests.
    pub prepared: Duration,
    /// Duration of the inference, with copying in and out.
    pub took: Duration,
}

/// Batches of a version.
#[derive(Debug, Default)]
pub(super) struct BatchCounts {
    /// Whether there may be any.
    shown: AtomicBool,
    by_rows: Mutex<BTreeMap<usize, BatchCount>>,
}

/// Batches of a size.
#[derive(Debug, Default, Clone, Copy)]
struct BatchCount {
    batches: u64,
    requests: u64,
    prepare_ns: u64,
    /// Of batches; each of their requests counts it as its own.
    run_ns: u64,
    /// Of their requests together.
    requests_ns: u64,
    /// From the end of the run to the answer, of their requests together.
    finish_ns: u64,
}

impl BatchCounts {
    pub(super) fn show(&self) {
        self.shown.store(true, Relaxed);
    }

    pub(super) fn ran(&self, run: &BatchRun) {
        let mut by_rows = self.by_rows.lock();
        let count = by_rows.entry(run.rows).or_default();
        let (took, requests) = (nanoseconds(run.took), run.requests as u64);
        count.batches += 1;
        count.requests += requests;
        count.prepare_ns += nanoseconds(run.prepared);
        count.run_ns += took;
        count.requests_ns += took * requests;
    }

    /// Counts the time from the end of a batch to the answer of one of its requests.
    pub(super) fn finished(&self, rows: usize, took: Duration) {
        self.by_rows.lock().entry(rows).or_default().finish_ns += nanoseconds(took);
    }

    /// Returns the executions by size, those of requests alone among them.
    pub(super) fn executions(&self, all: &Statistics) -> Vec<Executions> {
        let by_rows = self.by_rows.lock().clone();
        let of_batches = |of: fn(&BatchCount) -> u64| by_rows.values().map(of).sum::<u64>();
        // Counted one after the other, so that some may be missing for a moment.
        let alone = all.run.count.saturating_sub(of_batches(|it| it.requests));
        let stages = |count, [prepare, run, finish]: [u64; 3]| Executions {
            rows: 0,
            prepare: Stage { count, ns: prepare },
            run: Stage { count, ns: run },
            finish: Stage { count, ns: finish },
        };
        let rest = |all: u64, of: fn(&BatchCount) -> u64| all.saturating_sub(of_batches(of));
        let first = Executions {
            rows: 1,
            ..stages(
                alone,
                [
                    rest(all.prepare.ns, |it| it.prepare_ns),
                    rest(all.run.ns, |it| it.requests_ns),
                    rest(all.finish.ns, |it| it.finish_ns),
                ],
            )
        };
        let batches = by_rows.iter().map(|(&rows, it)| Executions {
            rows: rows as u64,
            ..stages(it.batches, [it.prepare_ns, it.run_ns, it.finish_ns])
        });
        let all = std::iter::once(first).filter(|it| it.run.count > 0);
        all.chain(batches).collect()
    }

    /// Returns whether there may be any.
    pub(super) fn shown(&self) -> bool {
        self.shown.load(Relaxed)
    }
}

fn nanoseconds(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BatchCounts, BatchRun};
    use crate::metrics::{Executions, Stage, Statistics};

    #[test]
    fn requests_alone_are_what_is_left_of_all() {
        let counts = BatchCounts::default();
        for rows in [3, 3, 8] {
            counts.ran(&BatchRun {
                rows,
                requests: 3,
                prepared: Duration::from_nanos(30),
                took: Duration::from_nanos(100),
            });
            counts.finished(rows, Duration::from_nanos(20 * rows as u64));
        }
        let stage = |count, ns| Stage { count, ns };
        let all = Statistics {
            prepare: stage(10, 100),
            run: stage(10, 950),
            finish: stage(10, 1000),
            ..Statistics::default()
        };
        let of = |rows, count, [prepare, run, finish]: [u64; 3]| Executions {
            rows,
            prepare: stage(count, prepare),
            run: stage(count, run),
            finish: stage(count, finish),
        };
        assert_eq!(
            counts.executions(&all),
            [
                of(1, 1, [10, 50, 720]),
                of(3, 2, [60, 200, 120]),
                of(8, 1, [30, 100, 160]),
            ]
        );
        let none = BatchCounts::default().executions(&Statistics::default());
        assert!(none.is_empty());
    }
}
