//! Durations of requests: counts by size, and quantiles.

use std::time::Duration;

use serde::{Serialize, Serializer};

use super::cells::{BOUNDS, BUCKETS};

/// Counts of durations by size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencyHistogram(pub(super) [u64; BUCKETS]);

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

/// Pairs of the place of a size and its count.
impl Serialize for LatencyHistogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.sizes())
    }
}

impl LatencyHistogram {
    /// The upper bounds of the sizes in microseconds; one more size has no bound.
    pub const BOUNDS: &[u64] = &BOUNDS;

    /// Adds other counts.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count += more;
        }
    }

    /// Returns the counts that have been added since earlier ones.
    pub fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|size| {
            self.0[size].saturating_sub(earlier.0[size])
        }))
    }

    /// Returns how many durations there are.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Iterates over the sizes that have occurred, with their counts.
    pub fn sizes(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let sizes = self.0.iter().copied().enumerate();
        sizes.filter(|(_, count)| *count > 0)
    }

    /// Returns the duration that this share of all is not above, as far as sizes show: within a size,
    /// durations are taken as spread evenly. `None` if there are none.
    #[expect(
        clippy::cast_precision_loss,
        reason = "what is lost is far below what sizes tell"
    )]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let count = self.count();
        let wanted = share.clamp(0.0, 1.0) * count as f64;
        let mut below = 0.0;
        for (size, of_size) in self.sizes() {
            let of_size = of_size as f64;
            if below + of_size >= wanted {
                let low = size.checked_sub(1).map_or(0, |size| BOUNDS[size]);
                // The last size has no bound; what is known is that it is above its lower one.
                let high = BOUNDS.get(size).copied().unwrap_or(low);
                let within = ((wanted - below) / of_size).max(0.0);
                let micros = low as f64 + (high - low) as f64 * within;
                return Some(Duration::from_secs_f64(micros / 1e6));
            }
            below += of_size;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BUCKETS, LatencyHistogram};

    fn of(sizes: &[(usize, u64)]) -> LatencyHistogram {
        let mut counts = [0; BUCKETS];
        for &(size, count) in sizes {
            counts[size] = count;
        }
        LatencyHistogram(counts)
    }

    #[test]
    fn a_quantile_lies_in_its_size() {
        assert_eq!(LatencyHistogram::default().quantile(0.5), None);
        // 10 to 18 and 18 to 32 microseconds.
        let latency = of(&[(1, 50), (2, 50)]);
        let micros = |share| latency.quantile(share).map(|it| it.as_micros());
        assert_eq!(micros(0.0), Some(10));
        assert_eq!(micros(0.25), Some(14));
        assert_eq!(micros(0.5), Some(18));
        assert_eq!(micros(0.99), Some(31));
        assert_eq!(micros(1.0), Some(32));
    }

    #[test]
    fn what_is_beyond_all_bounds_is_as_long_as_the_last_of_them() {
        let beyond = of(&[(BUCKETS - 1, 1)]);
        let last = LatencyHistogram::BOUNDS
            .last()
            .copied()
            .map(Duration::from_micros);
        assert_eq!(beyond.quantile(0.5), last);
    }

    #[test]
    fn counts_add_up() {
        let mut latency = of(&[(0, 1), (3, 2)]);
        latency.add(&of(&[(3, 5)]));
        assert_eq!(latency.count(), 8);
        assert_eq!(latency.sizes().collect::<Vec<_>>(), [(0, 1), (3, 7)]);
        let added = latency.since(&of(&[(0, 1), (3, 2), (5, 1)]));
        assert_eq!(added, of(&[(3, 5)]), "none is fewer than none");
    }
}
