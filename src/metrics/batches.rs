//! Inferences by their rows: how many of each size, and how long they took.
//!
//! They are counted under a lock, of which there is one for each thread as far as with other counts. Requests of one row
//! that ran alone are not counted here: each is an execution.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;

use super::{
    cells::{SHARDS, shard},
    statistics::{Executions, Stage},
};

/// Maximum number of rows that have a count of their own; since clients choose the numbers, larger ones are counted
/// with the next power of two.
const MAX_EXACT_ROWS: usize = 1024;

/// A batch that has run, or a request of several rows alone.
#[derive(Debug, Clone, Copy)]
pub struct BatchRun {
    /// Number of rows.
    pub rows: usize,
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
    rows: u64,
    prepare_ns: u64,
    /// Time of the batches' runs; each of their requests counts it as its own.
    run_ns: u64,
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
        count.batches += 1;
        count.rows += run.rows as u64;
        count.prepare_ns += nanoseconds(run.prepared);
        count.run_ns += nanoseconds(run.took);
    }

    /// Counts the time from the end of a batch to the answer of one of its requests.
    pub(super) fn finished(&self, rows: usize, took: Duration) {
        let mut by_rows = self.by_rows[shard()].lock();
        by_rows.entry(size(rows)).or_default().finish_ns += nanoseconds(took);
    }

    /// Returns the executions by size, behind those of requests of one row alone.
    pub(super) fn executions(&self, alone: Executions) -> Vec<Executions> {
        let mut by_rows: BTreeMap<usize, BatchCount> = BTreeMap::new();
        for shard in &self.by_rows {
            for (size, count) in &*shard.lock() {
                by_rows.entry(*size).or_default().add(count);
            }
        }
        let batches = by_rows.iter().map(|(&rows, it)| {
            let count = it.batches;
            Executions {
                rows: rows as u64,
                all_rows: it.rows,
                prepare: Stage {
                    count,
                    ns: it.prepare_ns,
                },
                run: Stage {
                    count,
                    ns: it.run_ns,
                },
                finish: Stage {
                    count,
                    ns: it.finish_ns,
                },
            }
        });
        let alone = Some(alone).filter(|it| it.run.count > 0);
        alone.into_iter().chain(batches).collect()
    }

    /// Returns whether there may be any.
    pub(super) fn shown(&self) -> bool {
        self.shown.load(Relaxed)
    }
}

impl BatchCount {
    fn add(&mut self, other: &Self) {
        self.batches += other.batches;
        self.rows += other.rows;
        self.prepare_ns += other.prepare_ns;
        self.run_ns += other.run_ns;
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
    use crate::metrics::{Executions, Stage};

    #[test]
    fn executions_are_those_alone_and_those_of_each_size() {
        let counts = BatchCounts::default();
        let run = |rows| BatchRun {
            rows,
            prepared: Duration::from_nanos(30),
            took: Duration::from_nanos(100),
        };
        for rows in [3, 3, 8] {
            counts.ran(&run(rows));
            counts.finished(rows, Duration::from_nanos(20 * rows as u64));
        }
        let stage = |count, ns| Stage { count, ns };
        let of = |rows, count, [prepare, run, finish]: [u64; 3]| Executions {
            rows,
            all_rows: rows * count,
            prepare: stage(count, prepare),
            run: stage(count, run),
            finish: stage(count, finish),
        };
        let alone = of(1, 1, [10, 50, 720]);
        assert_eq!(
            counts.executions(alone),
            [alone, of(3, 2, [60, 200, 120]), of(8, 1, [30, 100, 160]),]
        );
        counts.ran(&run(3000));
        let last = *counts.executions(alone).last().unwrap();
        // What a client asks for is no bound of the counts.
        assert_eq!((last.rows, last.all_rows, last.run.count), (4096, 3000, 1));
        let none = BatchCounts::default().executions(Executions::default());
        assert!(none.is_empty());
    }
}
