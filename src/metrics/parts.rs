//! The figures of what a servable is made of: nodes, sequences, and Python workers.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use super::{
    cells::{self, Buckets},
    latency::LatencyHistogram,
};

/// Counts the runs of one node of a pipeline or graph.
#[derive(Debug, Default)]
pub struct NodeTimes {
    counts: bool,
    pub(super) run: Buckets,
    pub(super) run_ns: AtomicU64,
}

impl NodeTimes {
    pub(super) fn new(counts: bool) -> Self {
        Self {
            counts,
            ..Self::default()
        }
    }

    /// Returns how long its runs took, by size and all together.
    pub fn so_far(&self) -> (LatencyHistogram, Duration) {
        let all = Duration::from_nanos(self.run_ns.load(Relaxed));
        (LatencyHistogram(self.run.counts()), all)
    }

    /// Returns whether anybody wants to know.
    pub fn counts(&self) -> bool {
        self.counts
    }

    /// Counts a run, and how long it took: the run alone, without the wait for what it runs on.
    pub fn ran(&self, took: Duration) {
        if self.counts {
            self.run.observe(took);
            cells::add(&self.run_ns, took);
        }
    }
}

/// Counts the sequences of a version.
#[derive(Debug, Default)]
pub struct SequenceCounts {
    /// Indicates that there can be sequences.
    kept: AtomicBool,
    pub(super) active: AtomicU64,
    pub(super) started: AtomicU64,
    pub(super) ended: AtomicU64,
    pub(super) evicted: AtomicU64,
    pub(super) refused: AtomicU64,
    /// Indicates that there is a store, so that its figures are shown.
    are_stored: AtomicBool,
    pub(super) moved: AtomicU64,
    pub(super) stored: AtomicU64,
}

impl SequenceCounts {
    /// Records that the version has sequences at all, so that its figures are shown.
    pub fn keep(&self) {
        self.kept.store(true, Relaxed);
    }

    pub(super) fn are_kept(&self) -> bool {
        self.kept.load(Relaxed)
    }

    /// Counts a sequence that has begun; whether its first request succeeds is not known yet.
    pub fn begun(&self) {
        self.active.fetch_add(1, Relaxed);
    }

    /// Counts a sequence whose first request has succeeded.
    pub fn started(&self) {
        self.started.fetch_add(1, Relaxed);
    }

    /// Counts sequences that are gone, for any reason.
    pub fn gone(&self, count: usize) {
        self.active.fetch_sub(count as u64, Relaxed);
    }

    /// Counts one of the sequences that are gone as ended by its client.
    pub fn ended(&self) {
        self.ended.fetch_add(1, Relaxed);
    }

    /// Counts sequences that were removed for being idle, here or in the store.
    pub fn evicted(&self, count: usize) {
        self.evicted.fetch_add(count as u64, Relaxed);
    }

    /// Counts those of the sequences that are gone which are in the store alone.
    pub fn moved(&self, count: usize) {
        self.moved.fetch_add(count as u64, Relaxed);
    }

    /// The store has so many of the model, whichever server has their states.
    pub fn stored(&self, count: u64) {
        self.stored.store(count, Relaxed);
        self.are_stored.store(true, Relaxed);
    }

    pub(super) fn are_stored(&self) -> bool {
        self.are_stored.load(Relaxed)
    }

    /// One was not begun, since there were too many.
    pub fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }
}

/// Counts what becomes of the Python workers of a graph or a pipeline.
#[derive(Debug, Default)]
pub struct WorkerCounts {
    pub(super) deaths: AtomicU64,
    pub(super) restarts: AtomicU64,
}

impl WorkerCounts {
    /// One has died.
    pub fn died(&self) {
        self.deaths.fetch_add(1, Relaxed);
    }

    /// One has started in the place of one that has died.
    pub fn restarted(&self) {
        self.restarts.fetch_add(1, Relaxed);
    }
}
