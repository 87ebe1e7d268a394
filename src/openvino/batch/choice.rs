//! The choice of a size for each batch, by durations that are measured as long as a model is served.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use super::sizes::{BatchSizes, rate};

/// Time from one inference of a size to the next one that is made to measure it, as a multiple of its duration:
/// a size that is not chosen takes a half percent of the time.
const APART: u32 = 200;

/// Share of an inference in the duration of its size, as a power of two.
const USUAL: u32 = 3;

/// The same of one that comes long after the one before.
const LATE: u32 = 1;

/// Most that one inference may seem to take, of the duration so far: beyond it something else was measured.
const MAX_GROWTH: u64 = 4;

/// Sizes of a model that is served. What a batch gains depends on what else the machine does, so durations at load
/// are a beginning: each inference is measured, and a size that could be the better one is tried now and then.
pub(crate) struct SizeChoice {
    sizes: BatchSizes,
    begun: Instant,
    alone: RunningDuration,
    /// Durations of the sizes, in their order.
    together: Vec<RunningDuration>,
}

/// Duration of inferences of one size, as it is now.
struct RunningDuration {
    /// Duration in nanoseconds.
    took: AtomicU64,
    /// Time of the last one, in nanoseconds since the beginning.
    last: AtomicU64,
}

impl From<BatchSizes> for SizeChoice {
    fn from(sizes: BatchSizes) -> Self {
        let list = sizes.list.iter();
        Self {
            begun: Instant::now(),
            alone: RunningDuration::new(sizes.alone),
            together: list
                .map(|size| RunningDuration::new(size.took.unwrap_or_default()))
                .collect(),
            sizes,
        }
    }
}

impl SizeChoice {
    /// Returns the sizes as they were loaded.
    pub(crate) fn sizes(&self) -> &BatchSizes {
        &self.sizes
    }

    /// Chooses the size for a request of so many rows and all that wait, it included, by its place: the one
    /// that gives most rows in its time, or, of sizes that are not measured, the smallest with room for all.
    /// `None` if it runs alone.
    pub(crate) fn choose(&self, first: usize, waiting: usize, now: Instant) -> Option<usize> {
        if waiting <= first {
            return None;
        }
        let list = &self.sizes.list;
        let last = list.len().checked_sub(1)?;
        if !self.is_measured() {
            let fits = list.iter().position(|size| size.rows >= waiting);
            return Some(fits.unwrap_or(last)).filter(|&place| list[place].rows > first);
        }
        let now = self.since_the_beginning(now);
        if first == 1 && self.alone.is_due(now) {
            return None;
        }
        let mut best = (None, rate(1, self.alone.took()));
        for (place, (size, took)) in list.iter().zip(&self.together).enumerate() {
            if size.rows <= first {
                continue;
            }
            let rows = size.rows.min(waiting);
            // One that is half empty is not the better one, whatever it takes.
            if rows > size.rows / 2 && took.is_due(now) {
                return Some(place);
            }
            let rate = rate(rows, took.took());
            if rate > best.1 {
                best = (Some(place), rate);
            }
        }
        best.0
    }

    /// Chooses the size for a request of so many rows and those that were gathered with it, it included: one with room
    /// for all, since they wait nowhere else. (Where one is waited for, sizes are configured and not measured today.)
    pub(crate) fn gathered(&self, first: usize, all: usize, now: Instant) -> usize {
        let list = &self.sizes.list;
        let fits = |place: &usize| list[*place].rows >= all;
        let chosen = self.choose(first, all, now).filter(fits);
        chosen.unwrap_or_else(|| list.partition_point(|size| size.rows < all))
    }

    /// Returns the shortest time for so many requests of one row, in one batch or one after the other; `None` if it is not known, or
    /// no batch has room for them.
    pub(super) fn shortest(&self, rows: usize) -> Option<Duration> {
        if !self.is_measured() || rows > self.sizes.most() {
            return None;
        }
        let alone = self.alone.took() * u32::try_from(rows).ok()?;
        let sizes = self.sizes.list.iter().zip(&self.together);
        let together = sizes.filter(|(size, _)| size.rows >= rows);
        together.map(|(_, it)| it.took()).chain([alone]).min()
    }

    /// Takes in what an inference has taken: a batch of the size at this place, or one row.
    pub(crate) fn ran(&self, size: Option<usize>, took: Duration, now: Instant) {
        if !self.is_measured() {
            return;
        }
        let running = match size {
            None => Some(&self.alone),
            Some(place) => self.together.get(place),
        };
        if let Some(running) = running {
            running.ran(took, self.since_the_beginning(now));
        }
    }

    /// Returns whether sizes are used by their durations.
    fn is_measured(&self) -> bool {
        let last = self.sizes.list.last();
        last.is_some_and(|size| size.took.is_some())
    }

    fn since_the_beginning(&self, now: Instant) -> u64 {
        nanos(now.saturating_duration_since(self.begun))
    }
}

impl RunningDuration {
    fn new(took: Duration) -> Self {
        Self {
            took: nanos(took).into(),
            last: 0.into(),
        }
    }

    fn took(&self) -> Duration {
        Duration::from_nanos(self.took.load(Relaxed))
    }

    /// Returns whether the next inference should be of this size, to measure it.
    fn is_due(&self, now: u64) -> bool {
        let apart = self.took.load(Relaxed).saturating_mul(APART.into());
        now.saturating_sub(self.last.load(Relaxed)) > apart
    }

    fn ran(&self, took: Duration, now: u64) {
        let share = if self.is_due(now) { LATE } else { USUAL };
        let before = self.took.load(Relaxed);
        let most = before.saturating_mul(MAX_GROWTH);
        let took = nanos(took).min(most);
        // Two that end at once may leave one of them out.
        self.took
            .store(before - (before >> share) + (took >> share), Relaxed);
        self.last.store(now, Relaxed);
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{super::sizes::BatchSize, *};

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    fn of(alone: u64, list: &[(usize, u64)]) -> SizeChoice {
        let list = list.iter().map(|&(rows, took)| BatchSize {
            rows,
            took: Some(micros(took)),
        });
        BatchSizes {
            alone: micros(alone),
            list: list.collect(),
        }
        .into()
    }

    /// Chooses at the beginning, when nothing is due.
    fn chosen(choice: &SizeChoice, first: usize, waiting: usize) -> Option<usize> {
        choice.choose(first, waiting, choice.begun)
    }

    #[test]
    fn a_size_is_chosen_by_what_it_gives_for_what_waits() {
        let sizes = of(1000, &[(2, 1400), (8, 2500)]);
        let all: Vec<_> = (0..=9).map(|waiting| chosen(&sizes, 1, waiting)).collect();
        // 3 of 8 rows give 1200/s, 2 of 2 rows 1429/s, and 4 of 8 1600/s.
        let expected = [None, None, Some(0), Some(0)].into_iter();
        let expected: Vec<_> = expected.chain([Some(1); 6]).collect();
        assert_eq!(all, expected);
        let costly = of(1000, &[(8, 4000)]);
        assert_eq!(chosen(&costly, 1, 4), None, "they are no faster together");
        assert_eq!(chosen(&costly, 1, 5), Some(0));
        let text = "there is no room for another one";
        assert_eq!(chosen(&costly, 8, 16), None, "{text}");
        assert_eq!(chosen(&BatchSizes::default().into(), 1, 9), None);
    }

    #[test]
    fn gathered_requests_have_a_size_with_room_for_all() {
        let gathered = |choice: &SizeChoice, all| choice.gathered(1, all, choice.begun);
        let sizes = of(1000, &[(2, 1400), (8, 2500)]);
        assert_eq!(chosen(&sizes, 1, 3), Some(0), "two of them are faster");
        let all = [1, 2, 3, 4, 8].map(|all| gathered(&sizes, all));
        assert_eq!(all, [0, 0, 1, 1, 1]);
        let costly = of(1000, &[(8, 4000)]);
        assert_eq!(chosen(&costly, 1, 2), None, "alone they are faster");
        assert_eq!(gathered(&costly, 2), 0);
    }

    #[test]
    fn configured_sizes_are_used_whatever_they_take() {
        let sizes: SizeChoice = BatchSizes::up_to(16).into();
        let later = sizes.begun + Duration::from_secs(60);
        sizes.ran(Some(1), Duration::from_secs(1), later);
        for now in [sizes.begun, later] {
            let all = [1, 2, 4, 5, 40].map(|waiting| sizes.choose(1, waiting, now));
            assert_eq!(all, [None, Some(0), Some(0), Some(1), Some(1)]);
        }
        assert_eq!(chosen(&BatchSizes::only(8).into(), 1, 2), Some(0));
    }

    /// Serves a load that has so many requests waiting at each choice, with inferences of these durations;
    /// returns how often one row, and each size, was chosen.
    fn serve(choice: &SizeChoice, waiting: usize, count: usize, took: &[u64]) -> Vec<usize> {
        let mut now = choice.begun;
        let mut chosen = vec![0; took.len()];
        for _ in 0..count {
            let size = choice.choose(1, waiting, now);
            let place = size.map_or(0, |place| place + 1);
            chosen[place] += 1;
            now += micros(took[place]);
            choice.ran(size, micros(took[place]), now);
        }
        chosen
    }

    #[test]
    fn sizes_that_lose_under_load_are_left_for_those_that_gain() {
        // At load a batch of two seemed to gain, and one of eight to gain most.
        let sizes = of(1000, &[(2, 1200), (8, 2000)]);
        let all = serve(&sizes, 2, 2000, &[1000, 2300, 9000]);
        assert!(all[0] > 1950 && all[2] == 0, "{all:?}");
        let all = serve(&sizes, 8, 2000, &[1000, 2300, 9000]);
        assert!(all[0] > 1900, "{all:?}");
    }

    #[test]
    fn sizes_that_gain_again_are_taken_again() {
        let sizes = of(1000, &[(8, 2000)]);
        serve(&sizes, 8, 1000, &[1000, 9000]);
        assert_eq!(sizes.choose(1, 8, sizes.begun), None);
        let all = serve(&of(1000, &[(8, 9000)]), 8, 20_000, &[1000, 2000]);
        assert!(all[1] > 16_000, "{all:?}");
    }

    #[test]
    fn what_is_measured_takes_little_of_the_time() {
        let took = [1000, 2000];
        let all = serve(&of(1000, &[(8, 2000)]), 8, 20_000, &took);
        let share = all[0] as f64 * 1000.0 / (all[1] as f64 * 2000.0);
        assert!(all[0] > 0 && share < 0.006, "{all:?}");
    }

    #[test]
    fn one_that_was_disturbed_changes_little() {
        let sizes = of(1000, &[(8, 2000)]);
        sizes.ran(Some(0), Duration::from_secs(5), sizes.begun);
        assert_eq!(chosen(&sizes, 1, 8), Some(0));
        sizes.ran(None, Duration::ZERO, sizes.begun);
        assert_eq!(chosen(&sizes, 1, 8), Some(0));
    }
}
