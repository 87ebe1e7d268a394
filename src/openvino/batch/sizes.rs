//! Sizes of batches: which are worth compiling.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Sizes that are measured. Each is another compiled model, as those for other shapes are, so that memory may bound them.
pub(super) const CANDIDATES: [usize; 5] = [2, 4, 8, 16, 32];

/// Maximum number of sizes of a configured maximum, which nothing says to be worth their memory.
const MAX_FRACTIONS: usize = 3;

/// Least throughput of a batch, of that of requests alone. What a request costs beside its inference makes
/// less of a gain, and measurements vary.
const GAIN: f64 = 1.1;

/// Least throughput of a size, of that of smaller ones.
const MORE: f64 = 1.05;

/// Most throughput of a row in a batch, of that of one alone: beyond it something else was measured.
const MAX_GAIN: f64 = 4.0;

/// Time that measurements may take, compilation included. A size that is being compiled is not broken off.
pub(super) const MAX_TIME: Duration = Duration::from_secs(10);

/// A size that a model is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BatchSize {
    /// Maximum number of rows.
    pub(crate) rows: usize,
    /// Duration of its inference; `None` if it is used whatever that is.
    pub(crate) took: Option<Duration>,
}

/// Sizes of a model, smallest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BatchSizes {
    /// Duration of an inference of one row.
    pub(crate) alone: Duration,
    pub(crate) list: Vec<BatchSize>,
}

impl BatchSizes {
    /// Makes the sizes of a configured maximum: that, and fractions of it, so that few rows do not run in a
    /// large batch.
    pub(crate) fn up_to(most: usize) -> Self {
        let fractions = (0..MAX_FRACTIONS).map(|step| most >> (2 * step));
        let mut list: Vec<BatchSize> = fractions
            .filter(|rows| *rows > 1)
            .map(|rows| BatchSize { rows, took: None })
            .collect();
        list.reverse();
        Self {
            alone: Duration::ZERO,
            list,
        }
    }

    /// Makes the one size of steps.
    pub(crate) fn only(rows: usize) -> Self {
        Self {
            alone: Duration::ZERO,
            list: vec![BatchSize { rows, took: None }],
        }
    }

    /// Returns whether a search can have found these among so many candidates.
    pub(super) fn are_found(&self, tried: usize) -> bool {
        let Some(tried) = CANDIDATES.get(..tried) else {
            return false;
        };
        let mut rows = self.list.iter().map(|size| size.rows);
        rows.clone().is_sorted_by(|one, other| one < other)
            && rows.all(|rows| tried.contains(&rows))
            && self.gains().count() == self.list.len()
            && self
                .gains()
                .all(|(rows, gain)| gain >= GAIN && gain <= rows as f64 * MAX_GAIN)
    }

    /// Returns the most rows of a batch; 1 if there are none.
    pub(crate) fn most(&self) -> usize {
        self.list.last().map_or(1, |size| size.rows)
    }

    /// Returns the throughput of each size, of that of single requests.
    pub(crate) fn gains(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        let alone = rate(1, self.alone);
        self.list.iter().filter_map(move |size| {
            let took = size.took?;
            Some((size.rows, rate(size.rows, took) / alone))
        })
    }
}

/// Returns rows in a second.
#[expect(clippy::cast_precision_loss, reason = "rows are few")]
pub(super) fn rate(rows: usize, took: Duration) -> f64 {
    rows as f64 / took.as_secs_f64().max(1e-9)
}

/// Search for the sizes that raise the throughput: one candidate after the other is measured.
pub(super) struct SizeSearch {
    found: BatchSizes,
    next: usize,
    /// Candidates in a row that gave no more.
    worse: usize,
    /// Time that the next candidate is expected to take.
    expected: Duration,
}

/// Step of a search.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SearchStep {
    /// This many rows are measured next.
    Measure(usize),
    /// The time does not suffice for the next candidate.
    Late,
    /// No larger candidate is expected to give more.
    Over,
}

/// Verdict on a candidate.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The candidate gives more than smaller ones.
    Kept,
    /// The candidate gives no more than smaller ones.
    Dropped,
}

impl SizeSearch {
    /// Begins with the duration of an inference of one row.
    pub(super) fn new(alone: Duration) -> Self {
        let list = Vec::new();
        Self::after(BatchSizes { alone, list }, 0)
    }

    /// Continues a search that has found these sizes among so many candidates.
    pub(super) fn after(found: BatchSizes, tried: usize) -> Self {
        let tried_last = CANDIDATES.get(..tried).and_then(<[usize]>::last);
        let is_last = |size: &BatchSize| Some(&size.rows) == tried_last;
        Self {
            worse: usize::from(tried > 0 && !found.list.last().is_some_and(is_last)),
            found,
            next: tried,
            expected: Duration::ZERO,
        }
    }

    /// Takes in how long an inference of one row takes now.
    pub(super) fn begin(&mut self, alone: Duration) {
        self.alone_again(alone);
        // The first one takes at least its rows in a batch and alone, to compare them, and in two more batches.
        let rows = self.candidate().unwrap_or_default();
        self.expected = alone * 4 * u32::try_from(rows).unwrap_or(u32::MAX);
    }

    /// Returns the next step when measurements have taken so long.
    pub(super) fn step(&self, elapsed: Duration) -> SearchStep {
        match self.candidate() {
            None => SearchStep::Over,
            Some(_) if elapsed + self.expected > MAX_TIME => SearchStep::Late,
            Some(rows) => SearchStep::Measure(rows),
        }
    }

    /// Takes in how long the last candidate took to compile, and to measure.
    pub(super) fn took(&mut self, compiled: Duration, measured: Duration) {
        // The next one is compiled in about the same time, and runs for twice as long.
        self.expected = compiled + measured * 2;
    }

    /// Returns the number of candidates that were tried.
    pub(super) fn tried(&self) -> usize {
        self.next
    }

    /// Returns the next candidate; `None` once larger ones are not expected to give more.
    fn candidate(&self) -> Option<usize> {
        // Small ones may gain nothing where a larger one does, and other work may have disturbed one of them.
        let most = if self.found.list.is_empty() { 3 } else { 2 };
        let next = CANDIDATES.get(self.next).copied();
        next.filter(|_| self.worse < most)
    }

    /// Takes in how long an inference of one row takes when it is measured again: other work only adds to it.
    pub(super) fn alone_again(&mut self, took: Duration) {
        self.found.alone = self.found.alone.min(took);
    }

    /// Returns whether the candidate gives more than smaller ones if it takes so long.
    pub(super) fn gains(&self, took: Duration) -> bool {
        let least = match self.found.list.last() {
            Some(size) => rate(size.rows, size.took.unwrap_or_default()) * MORE,
            None => rate(1, self.found.alone) * GAIN,
        };
        rate(CANDIDATES[self.next], took) >= least
    }

    /// Takes in how long the candidate takes.
    pub(super) fn measured(&mut self, took: Duration) -> Verdict {
        // Other work may have disturbed all measurements of one row: what is kept has to be what can be measured.
        let most = took.mul_f64(MAX_GAIN) - took / 1000;
        self.alone_again(most);
        let gains = self.gains(took);
        let rows = CANDIDATES[self.next];
        self.next += 1;
        if !gains {
            self.worse += 1;
            return Verdict::Dropped;
        }
        self.worse = 0;
        self.found.list.push(BatchSize {
            rows,
            took: Some(took),
        });
        Verdict::Kept
    }

    /// Returns the sizes that are kept, and drops what was made for those that no longer gain enough, since one row
    /// alone was faster when it was measured again.
    pub(super) fn found<T>(self, made: &mut Vec<T>) -> BatchSizes {
        let mut found = self.found;
        let worth: Vec<bool> = found.gains().map(|(_, gain)| gain >= GAIN).collect();
        let (mut of_sizes, mut of_made) = (worth.iter(), worth.iter());
        found.list.retain(|_| of_sizes.next().is_none_or(|it| *it));
        made.retain(|_| of_made.next().is_none_or(|it| *it));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    /// Returns the sizes found for durations of one row and of each candidate.
    fn found(alone: u64, took: &[u64]) -> (Vec<usize>, usize) {
        let mut search = SizeSearch::new(micros(alone));
        let mut tried = 0;
        while search.candidate().is_some() {
            search.measured(micros(took[tried]));
            tried += 1;
        }
        let found = search.found(&mut vec![(); CANDIDATES.len()]);
        (found.list.iter().map(|size| size.rows).collect(), tried)
    }

    #[test]
    fn sizes_that_lose_are_not_kept_and_larger_ones_not_tried() {
        // A convolution: 1.36 times at 4, less at 8 and 16.
        let sizes = found(1000, &[1700, 2940, 8000, 30_000]);
        assert_eq!(sizes, (vec![2, 4], 4));
        let sizes = found(1000, &[2000, 2940, 8000, 30_000]);
        assert_eq!(sizes, (vec![4], 4));
        // Small ones take other paths of the runtime.
        assert_eq!(found(1000, &[2300, 3800, 3400, 8000, 30_000]), (vec![8], 5));
        assert_eq!(found(1000, &[2000, 3900, 7900]), (vec![], 3), "none gains");
    }

    #[test]
    fn a_size_that_was_disturbed_does_not_end_the_search() {
        let sizes = found(1000, &[1100, 4000, 2400, 4200, 8200]);
        assert_eq!(sizes, (vec![2, 8, 16], 5));
    }

    #[test]
    fn sizes_are_those_of_a_search_however_one_row_was_disturbed() {
        for took in [1, 3, 1_000, 2_345, 79_999, 80_001] {
            let mut search = SizeSearch::new(micros(80_000));
            search.measured(micros(took));
            let tried = search.tried();
            let found = search.found(&mut vec![(); 1]);
            assert!(found.are_found(tried), "{took}: {found:?}");
        }
    }

    #[test]
    fn a_search_goes_on_where_its_time_was_over() {
        let mut search = SizeSearch::new(micros(1000));
        search.measured(micros(1100));
        search.measured(micros(4000));
        assert_eq!(search.tried(), 2);
        let found = search.found(&mut vec![(); 2]);
        let mut search = SizeSearch::after(found, 2);
        assert_eq!(search.candidate(), Some(8));
        assert_eq!(search.measured(micros(9000)), Verdict::Dropped);
        assert_eq!(search.candidate(), None, "two in a row gave no more");
        let all = SizeSearch::after(BatchSizes::default(), CANDIDATES.len());
        assert_eq!(all.candidate(), None);
    }

    #[test]
    fn a_search_ends_before_a_candidate_that_there_is_no_time_for() {
        let seconds = Duration::from_secs;
        let mut search = SizeSearch::new(seconds(1));
        search.begin(seconds(1));
        assert_eq!(search.step(seconds(2)), SearchStep::Measure(2));
        assert_eq!(
            search.step(seconds(3)),
            SearchStep::Late,
            "two rows take 8 s"
        );
        search.measured(seconds(1));
        search.took(seconds(3), seconds(1));
        assert_eq!(search.step(seconds(5)), SearchStep::Measure(4));
        assert_eq!(
            search.step(seconds(6)),
            SearchStep::Late,
            "four rows take 5 s"
        );
        search.took(Duration::ZERO, Duration::ZERO);
        assert_eq!(search.step(MAX_TIME), SearchStep::Measure(4));
        assert_eq!(search.step(MAX_TIME + micros(1)), SearchStep::Late);
        let all = SizeSearch::after(BatchSizes::default(), CANDIDATES.len());
        assert_eq!(all.step(MAX_TIME * 2), SearchStep::Over);
    }

    #[test]
    fn a_disturbed_measurement_of_one_row_is_made_good() {
        let mut search = SizeSearch::new(micros(9000));
        search.alone_again(micros(1000));
        search.alone_again(micros(4000));
        assert_eq!(search.measured(micros(2000)), Verdict::Dropped);
        assert_eq!(search.measured(micros(2000)), Verdict::Kept);
    }

    #[test]
    fn sizes_that_gain_nothing_after_all_are_dropped_with_what_was_made_for_them() {
        let mut search = SizeSearch::new(micros(2000));
        assert_eq!(search.measured(micros(2000)), Verdict::Kept);
        search.alone_again(micros(1000));
        assert_eq!(search.measured(micros(2000)), Verdict::Kept);
        let mut made = vec!["two", "four"];
        let found = search.found(&mut made);
        assert_eq!((found.list[0].rows, &made[..]), (4, &["four"][..]));
        assert!(found.are_found(2) && !found.are_found(1) && !found.are_found(6));
    }

    #[test]
    fn sizes_that_no_search_finds_are_known() {
        let of = |list: &[(usize, u64)]| BatchSizes {
            alone: micros(1000),
            list: list
                .iter()
                .map(|&(rows, took)| BatchSize {
                    rows,
                    took: Some(micros(took)),
                })
                .collect(),
        };
        assert!(of(&[(2, 1500), (8, 3000)]).are_found(3) && of(&[]).are_found(5));
        for wrong in [
            &[(3, 1500)][..],
            &[(8, 3000), (2, 1500)],
            &[(64, 5000)],
            &[(2, 0)],
            &[(2, 1999)],
            &[(2, 1500), (4, 2500), (8, 4000), (8, 4000)],
        ] {
            assert!(!of(wrong).are_found(CANDIDATES.len()), "{wrong:?}");
        }
    }

    #[test]
    fn each_size_that_gains_is_kept() {
        let sizes = found(1000, &[1010, 1020, 1040, 1080, 1160]);
        assert_eq!(sizes, (vec![2, 4, 8, 16, 32], 5));
    }

    #[test]
    fn configured_sizes_are_fractions_of_the_maximum() {
        let sizes = BatchSizes::up_to(16);
        let rows: Vec<_> = sizes.list.iter().map(|size| size.rows).collect();
        assert_eq!(rows, [4, 16]);
        let rows = |most| {
            let sizes = BatchSizes::up_to(most).list.into_iter();
            sizes.map(|size| size.rows).collect::<Vec<_>>()
        };
        assert_eq!(rows(100), [6, 25, 100]);
        assert_eq!(rows(2), [2]);
        assert_eq!(BatchSizes::only(8).most(), 8);
    }
}
