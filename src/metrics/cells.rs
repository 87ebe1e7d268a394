//! Counters in shards: each thread counts in one of its own as far as there are enough, so that threads
//! do not wait for each other's cache lines.

use std::{
    array,
    cell::Cell,
    sync::{
        LazyLock,
        atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::request::{ApiFamily, Interface, RequestOrigin};

/// The upper bounds of the buckets in microseconds, `floor(10 × 1.8^i)`; one more has no bound.
pub(super) const BOUNDS: [u64; 33] = {
    let mut bounds = [0; 33];
    let (mut size, mut nines, mut fives) = (0, 10_u128, 1_u128);
    while size < bounds.len() {
        bounds[size] = (nines / fives) as u64;
        (size, nines, fives) = (size + 1, nines * 9, fives * 5);
    }
    bounds
};

/// The number of kinds of [`RequestOrigin`].
pub(super) const ORIGINS: usize = 4;

/// Every kind of origin, by its place.
pub(super) const ALL_ORIGINS: [RequestOrigin; ORIGINS] = [
    origin(ApiFamily::TensorFlowServing, Interface::Grpc),
    origin(ApiFamily::TensorFlowServing, Interface::Rest),
    origin(ApiFamily::KServe, Interface::Grpc),
    origin(ApiFamily::KServe, Interface::Rest),
];

const fn origin(api: ApiFamily, interface: Interface) -> RequestOrigin {
    RequestOrigin { api, interface }
}

/// Returns the place of an origin in [`ALL_ORIGINS`].
pub(super) const fn place(origin: RequestOrigin) -> usize {
    origin.api as usize * 2 + origin.interface as usize
}

/// Maximum number of shards; each has about 2 KB for each version of a model.
const MAX_SHARDS: usize = 16;

/// Number of shards, one for each core: more threads than that do not run at once.
pub(super) static SHARDS: LazyLock<usize> = LazyLock::new(|| {
    std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(MAX_SHARDS)
});

/// Returns the shard of this thread.
pub(super) fn shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    const NONE: usize = usize::MAX;
    thread_local! {
        static OWN: Cell<usize> = const { Cell::new(NONE) };
    }
    OWN.with(|own| {
        if own.get() == NONE {
            own.set(NEXT.fetch_add(1, Relaxed) % *SHARDS);
        }
        own.get()
    })
}

/// The sharded counts of one version of a model.
#[derive(Debug)]
pub(super) struct Cells(Box<[Shard]>);

/// Two cache lines apart, since processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Shard {
    /// Inference requests by origin.
    pub(super) success: [AtomicU64; ORIGINS],
    pub(super) fail: [AtomicU64; ORIGINS],
    /// Rows of those that succeeded, beside one for each.
    pub(super) more_rows: AtomicU64,
    /// Nanoseconds of those that succeeded.
    pub(super) success_ns: [AtomicU64; ORIGINS],
    /// Nanoseconds of runs for nodes of pipelines.
    pub(super) nodes_ns: AtomicU64,
    pub(super) fail_ns: AtomicU64,
    /// Runs in the runtime of requests of one row alone, and of all others: of several rows, or in a batch.
    pub(super) stages: [Stages; 2],
    pub(super) wait_ns: AtomicU64,
    /// The end of the last inference in milliseconds since 1970.
    pub(super) last_ms: AtomicU64,
    /// Rises on one thread and falls on another: only the sum of all shards means anything.
    pub(super) current: AtomicI64,
    pub(super) active: AtomicI64,
    /// Durations of requests by interface.
    pub(super) request: [Buckets; 2],
    pub(super) run: Buckets,
    pub(super) wait: Buckets,
}

/// Runs, and the nanoseconds of their stages.
#[derive(Debug, Default)]
pub(super) struct Stages {
    pub(super) runs: AtomicU64,
    pub(super) prepare_ns: AtomicU64,
    pub(super) run_ns: AtomicU64,
    pub(super) finish_ns: AtomicU64,
}

impl Shard {
    /// Returns the stages of a run of so many rows, in a batch of so many; 0 for none.
    pub(super) fn stages(&self, rows: usize, batch: usize) -> &Stages {
        &self.stages[usize::from(rows > 1 || batch > 0)]
    }

    /// Counts the rows of a request that succeeded.
    pub(super) fn count_rows(&self, rows: usize) {
        if rows > 1 {
            self.more_rows.fetch_add(rows as u64 - 1, Relaxed);
        }
    }
}

impl Default for Cells {
    fn default() -> Self {
        Self((0..*SHARDS).map(|_| Shard::default()).collect())
    }
}

impl Cells {
    /// Returns the shard to count in.
    pub(super) fn own(&self) -> &Shard {
        &self.0[shard()]
    }

    /// Adds up a count.
    pub(super) fn sum(&self, count: impl Fn(&Shard) -> &AtomicU64) -> u64 {
        let counts = self.0.iter().map(|shard| count(shard).load(Relaxed));
        counts.fold(0, u64::wrapping_add)
    }

    /// Adds up a count of runs: of requests of one row alone, and of all others.
    pub(super) fn sums(&self, count: impl Fn(&Stages) -> &AtomicU64) -> [u64; 2] {
        [0, 1].map(|side| self.sum(|shard| count(&shard.stages[side])))
    }

    /// Finds the largest.
    pub(super) fn max(&self, count: impl Fn(&Shard) -> &AtomicU64) -> u64 {
        let counts = self.0.iter().map(|shard| count(shard).load(Relaxed));
        counts.max().unwrap_or(0)
    }

    /// Adds up a gauge. A change on two threads may be seen by half; no level is below zero.
    pub(super) fn level(&self, count: impl Fn(&Shard) -> &AtomicI64) -> u64 {
        let counts = self.0.iter().map(|shard| count(shard).load(Relaxed));
        u64::try_from(counts.sum::<i64>()).unwrap_or(0)
    }

    /// Adds up buckets.
    pub(super) fn buckets(&self, buckets: impl Fn(&Shard) -> &Buckets) -> [u64; BUCKETS] {
        array::from_fn(|index| self.sum(|shard| &buckets(shard).0[index]))
    }
}

/// The number of buckets.
pub(super) const BUCKETS: usize = BOUNDS.len() + 1;

/// Counts by size.
#[derive(Debug)]
pub(super) struct Buckets([AtomicU64; BUCKETS]);

impl Default for Buckets {
    fn default() -> Self {
        Self(array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Buckets {
    /// Counts one.
    pub(super) fn observe(&self, took: Duration) {
        self.0[bucket(took)].fetch_add(1, Relaxed);
    }

    /// Returns the counts.
    pub(super) fn counts(&self) -> [u64; BUCKETS] {
        array::from_fn(|index| self.0[index].load(Relaxed))
    }
}

/// Finds the bucket of a duration: the first whose bound is not below it.
pub(super) fn bucket(took: Duration) -> usize {
    let nanoseconds = nanoseconds(took);
    BOUNDS.partition_point(|&bound| bound * 1000 < nanoseconds)
}

/// Adds a duration.
pub(super) fn add(cell: &AtomicU64, took: Duration) {
    cell.fetch_add(nanoseconds(took), Relaxed);
}

/// Durations here are far below the 500 years that fit.
fn nanoseconds(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ALL_ORIGINS, BOUNDS, bucket, place};

    #[test]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the bounds fit"
    )]
    fn bounds_are_those_of_the_formula() {
        for (power, bound) in (0..).zip(BOUNDS) {
            assert_eq!(bound, (10.0 * 1.8_f64.powi(power)).floor() as u64);
        }
    }

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        for (nanoseconds, expected) in [
            (0, 0),
            (10_000, 0),
            (10_001, 1),
            (18_000, 1),
            (1_474_755_971_000, 32),
            (1_474_755_971_001, 33),
            (u64::MAX, 33),
        ] {
            assert_eq!(bucket(Duration::from_nanos(nanoseconds)), expected);
        }
    }

    #[test]
    fn every_origin_has_its_place() {
        for (index, origin) in ALL_ORIGINS.into_iter().enumerate() {
            assert_eq!(place(origin), index);
        }
    }
}
