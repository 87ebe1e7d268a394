//! Due moments of an open loop.

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::plan::ArrivalProcess;

/// Due moments, from the start on, without an end. They do not depend on any answer.
#[derive(Debug)]
pub(super) struct Schedule {
    per_second: f64,
    /// Source of random intervals.
    random: Option<StdRng>,
    /// Number of moments so far.
    count: u64,
    /// Sum of the random intervals so far, in seconds.
    elapsed: f64,
}

impl Schedule {
    pub(super) fn new(per_second: f64, arrivals: ArrivalProcess) -> Self {
        let random = match arrivals {
            ArrivalProcess::Constant => None,
            ArrivalProcess::Poisson { seed } => Some(StdRng::seed_from_u64(seed)),
        };
        Self {
            per_second,
            random,
            count: 0,
            elapsed: 0.0,
        }
    }

    /// Returns the next due moment, as its time since the start.
    #[expect(clippy::cast_precision_loss, reason = "a count below 2^53")]
    pub(super) fn next(&mut self) -> Duration {
        let due = match &mut self.random {
            // Multiplied, so that no error of rounding adds up.
            None => self.count as f64 / self.per_second,
            Some(random) => {
                let uniform: f64 = random.random();
                self.elapsed -= (1.0 - uniform).ln() / self.per_second;
                self.elapsed
            }
        };
        self.count += 1;
        Duration::try_from_secs_f64(due).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ArrivalProcess, Schedule};

    #[test]
    fn a_constant_rate_has_equal_intervals_that_do_not_drift() {
        let mut schedule = Schedule::new(3.0, ArrivalProcess::Constant);
        let due: Vec<_> = (0..7).map(|_| schedule.next()).collect();
        assert_eq!((due[0], due[3]), (Duration::ZERO, Duration::from_secs(1)));
        assert_eq!(due[6], Duration::from_secs(2));
        for _ in 7..3_000_000 {
            schedule.next();
        }
        assert_eq!(schedule.next(), Duration::from_secs(1_000_000));
    }

    #[test]
    fn poisson_intervals_have_the_mean_and_the_spread_of_an_exponential_distribution() {
        let mut schedule = Schedule::new(200.0, ArrivalProcess::Poisson { seed: 7 });
        let due: Vec<f64> = (0..40_000).map(|_| schedule.next().as_secs_f64()).collect();
        assert!(due.is_sorted());
        let gaps: Vec<f64> = due.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let count = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / count;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count;
        assert!((mean * 200.0 - 1.0).abs() < 0.02, "{mean}");
        // The deviation of an exponential distribution is its mean.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.03, "{variance}");
        let longer = gaps.iter().filter(|gap| **gap > mean).count() as f64 / count;
        assert!((longer - (-1.0_f64).exp()).abs() < 0.01, "{longer}");
    }

    #[test]
    fn the_same_seed_gives_the_same_moments() {
        let moments = |seed| {
            let mut schedule = Schedule::new(10.0, ArrivalProcess::Poisson { seed });
            (0..5).map(|_| schedule.next()).collect::<Vec<_>>()
        };
        assert_eq!(moments(1), moments(1));
        assert_ne!(moments(1), moments(2));
    }
}
