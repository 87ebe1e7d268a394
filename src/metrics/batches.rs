//! Inferences by their rows: how many of each size, and how long they took.
//!
//! They are counted under a lock, of which there is one for each thread as far as with other counts. Requests of one row
//! that ran alone are not counted here: they are what is left of all.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;

use super::{
    cells::{SHARDS, shard},
    statistics::{Executions, Stage, Statistics},
};

/// Maximum number of rows that have a count of their own; since clients choose the numbers, larger ones are counted
/// with the next power of two.
const MAX_EXACT_ROWS: usize = 1024;

/// A batch that has run, or a request of several rows alone.
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
#[derive(Debug)]
pub(super) struct BatchCounts {
    /// Indicates that there may be batches of several requests.
    shown: AtomicBool,
    by_rows: Box<[Mutex<BTreeMap<usize, BatchCount>>]>,
}

impl Default for BatchCounts {
    fn default() -> Self {
        Self {
            shown: AtomicBool::default(),
            by_rows: (0..*SHARDS).map(|_| Mutex::default()).collect(),
        }
    }
}

/// Batches of a size.
#[derive(Debug, Default, Clone, Copy)]
struct BatchCount {
    batches: u64,
    requests: u64,
    rows: u64,
    prepare_ns: u64,
    /// Time of the batches' runs; each of their requests counts it as its own.
    run_ns: u64,
    /// Time of their requests together.
    requests_ns: u64,
    /// Time from the end of the run to the answer, of their requests together.
    finish_ns: u64,
}

impl BatchCounts {
    pub(super) fn show(&self) {
        self.shown.store(true, Relaxed);
    }

    pub(super) fn ran(&self, run: &BatchRun) {
        let mut by_rows = self.by_rows[shard()].lock();
        let count = by_rows.entry(size(run.rows)).or_default();
        let (took, requests) = (nanoseconds(run.took), run.requests as u64);
        count.batches += 1;
        count.requests += requests;
        count.rows += run.rows as u64;
        count.prepare_ns += nanoseconds(run.prepared);
        count.run_ns += took;
        count.requests_ns += took * requests;
    }

    /// Counts the time from the end of a batch to the answer of one of its requests.
    pub(super) fn finished(&self, rows: usize, took: Duration) {
        let mut by_rows = self.by_rows[shard()].lock();
        by_rows.entry(size(rows)).or_default().finish_ns += nanoseconds(took);
    }

    /// Returns the executions by size, those of requests alone among them.
    pub(super) fn executions(&self, all: &Statistics) -> Vec<Executions> {
        let mut by_rows: BTreeMap<usize, BatchCount> = BTreeMap::new();
        for shard in &self.by_rows {
            for (size, count) in &*shard.lock() {
                by_rows.entry(*size).or_default().add(count);
            }
        }
        let of_batches = |of: fn(&BatchCount) -> u64| by_rows.values().map(of).sum::<u64>();
        // Counted one after the other, so that some may be missing for a moment.
        let alone = all.run.count.saturating_sub(of_batches(|it| it.requests));
        let stages = |count, [prepare, run, finish]: [u64; 3]| Executions {
            rows: 0,
            all_rows: 0,
            prepare: Stage { count, ns: prepare },
            run: Stage { count, ns: run },
            finish: Stage { count, ns: finish },
        };
        let rest = |all: u64, of: fn(&BatchCount) -> u64| all.saturating_sub(of_batches(of));
        let first = Executions {
            rows: 1,
            all_rows: alone,
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
            all_rows: it.rows,
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

impl BatchCount {
    fn add(&mut self, other: &Self) {
        self.batches += other.batches;
        self.requests += other.requests;
        self.rows += other.rows;
        self.prepare_ns += other.prepare_ns;
        self.run_ns += other.run_ns;
        self.requests_ns += other.requests_ns;
        self.finish_ns += other.finish_ns;
    }
}

/// Returns the size that a number of rows is counted with.
fn size(rows: usize) -> usize {
    match rows {
        0..=MAX_EXACT_ROWS => rows,
        _ => rows.checked_next_power_of_two().unwrap_or(usize::MAX),
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
            all_rows: rows * count,
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
        counts.ran(&BatchRun {
            rows: 3000,
            requests: 1,
            prepared: Duration::ZERO,
            took: Duration::ZERO,
        });
        let last = *counts.executions(&all).last().unwrap();
        // What a client asks for is no bound of the counts.
        assert_eq!((last.rows, last.all_rows, last.run.count), (4096, 3000, 1));
        let none = BatchCounts::default().executions(&Statistics::default());
        assert!(none.is_empty());
    }
}
