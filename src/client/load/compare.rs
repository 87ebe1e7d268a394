//! Two reports of the same level, and whether they differ by more than chance.

use serde::Serialize;

use super::report::{LevelReport, WindowReport};

/// Quantiles of Student's t-distribution for a confidence of 95 %, by degrees of freedom from 1 on.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// Half the width of an interval, as a share of the value before, from which on it says nothing: something half as slow
/// again would not be seen.
const WIDE: f64 = 0.5;

/// Figure that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, Serialize)]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Good answers a second.
    Rate,
    /// Median latency.
    P50,
    /// 90th percentile.
    P90,
    /// 95th percentile.
    P95,
    /// 99th percentile.
    P99,
}

/// Verdict over a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// Better by more than chance.
    Better,
    /// Worse by more than chance.
    Worse,
    /// The interval has no change in it.
    None,
    /// Too few windows for an interval.
    Unknown,
}

/// Metric before and after.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MetricDifference {
    /// Metric.
    pub metric: Metric,
    /// Mean of the windows before; requests a second, or microseconds.
    pub before: f64,
    /// Mean of the windows after.
    pub after: f64,
    /// Change, as a share of the value before.
    pub change: f64,
    /// 95 % confidence interval of the change; `None` with fewer than two windows on a side.
    pub interval: Option<(f64, f64)>,
    /// Verdict.
    pub difference: Difference,
    /// Marks an inconclusive comparison: the interval is too wide, or the windows do not agree.
    pub uncertain: bool,
}

/// Comparison of a level with an earlier report of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Requests in flight in a closed loop.
    pub concurrency: Option<usize>,
    /// Requests a second in an open loop.
    pub target_rate: Option<f64>,
    /// Marks a comparison in which windows of a report do not agree, so that their spread is no measure of chance.
    pub unstable: bool,
    /// Metrics that both have.
    pub metrics: Vec<MetricDifference>,
}

impl Comparison {
    /// Compares two reports. The windows that the figures are of are the samples of Welch's t-interval, so the
    /// interval covers what varies within a run, not from one run to the next. Windows that do not agree drift, and
    /// give no verdict.
    pub fn of(before: &LevelReport, after: &LevelReport) -> Self {
        let metrics = [
            Metric::Rate,
            Metric::P50,
            Metric::P90,
            Metric::P95,
            Metric::P99,
        ];
        let samples = |report: &LevelReport, metric: Metric| -> Vec<f64> {
            let windows = report.reported_windows().iter();
            windows.filter_map(|window| metric.of(window)).collect()
        };
        let unstable = [before, after].iter().any(|it| it.stable == Some(false));
        let metrics = metrics.into_iter().filter_map(|metric| {
            let of =
                MetricDifference::of(metric, &samples(before, metric), &samples(after, metric));
            of.map(|it| if unstable { it.without_verdict() } else { it })
        });
        Self {
            concurrency: after.concurrency,
            target_rate: after.target_rate,
            unstable,
            metrics: metrics.collect(),
        }
    }

    /// Returns whether a metric has enough windows for a verdict.
    pub fn is_known(&self) -> bool {
        let mut metrics = self.metrics.iter();
        metrics.any(|it| it.difference != Difference::Unknown)
    }

    /// Returns the metrics of which nothing can be said.
    pub fn uncertain(&self) -> impl Iterator<Item = &MetricDifference> {
        self.metrics.iter().filter(|it| it.uncertain)
    }

    /// Returns the metrics that are worse by more than chance, and by more than a share of their value before.
    pub fn worse_by(&self, margin: f64) -> impl Iterator<Item = &MetricDifference> {
        let metrics = self.metrics.iter();
        metrics.filter(move |it| it.difference == Difference::Worse && it.change.abs() > margin)
    }
}

impl Metric {
    fn of(self, window: &WindowReport) -> Option<f64> {
        let latency = window.latency_us?;
        Some(match self {
            Self::Rate => window.rate,
            Self::P50 => latency.p50,
            Self::P90 => latency.p90,
            Self::P95 => latency.p95,
            Self::P99 => latency.p99,
        })
    }
}

impl MetricDifference {
    fn of(metric: Metric, before: &[f64], after: &[f64]) -> Option<Self> {
        if before.is_empty() || after.is_empty() {
            return None;
        }
        let (old, new) = (mean(before), mean(after));
        if old <= 0.0 {
            return None;
        }
        let change = (new - old) / old;
        let half = welch(before, after).map(|half| half / old);
        // What is above zero loses no more than all of it.
        let interval = half.map(|half| ((change - half).max(-1.0), change + half));
        let difference = match interval {
            None => Difference::Unknown,
            Some((low, high)) if low <= 0.0 && high >= 0.0 => Difference::None,
            Some((low, _)) if (low > 0.0) == (metric == Metric::Rate) => Difference::Better,
            Some(_) => Difference::Worse,
        };
        Some(Self {
            metric,
            before: old,
            after: new,
            change,
            interval,
            difference,
            uncertain: difference == Difference::None && half.is_some_and(|half| half > WIDE),
        })
    }

    /// Takes the verdict back, where there is one.
    fn without_verdict(self) -> Self {
        match self.difference {
            Difference::Unknown => self,
            Difference::Better | Difference::Worse | Difference::None => Self {
                difference: Difference::None,
                uncertain: true,
                ..self
            },
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few windows")]
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the variance of the mean of samples, and its degrees of freedom.
#[expect(clippy::cast_precision_loss, reason = "a few windows")]
fn variance_of_mean(values: &[f64]) -> Option<(f64, f64)> {
    let freedom = values.len().checked_sub(1).filter(|it| *it > 0)? as f64;
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / freedom / values.len() as f64, freedom))
}

/// Returns half the width of Welch's confidence interval of the difference of two means.
fn welch(a: &[f64], b: &[f64]) -> Option<f64> {
    let ((a, a_freedom), (b, b_freedom)) = (variance_of_mean(a)?, variance_of_mean(b)?);
    let sum = a + b;
    if sum <= 0.0 {
        return Some(0.0);
    }
    let freedom = sum.powi(2) / (a.powi(2) / a_freedom + b.powi(2) / b_freedom);
    Some(quantile(freedom) * sum.sqrt())
}

/// Returns the quantile for degrees of freedom, rounded down.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "degrees of freedom are at least one"
)]
fn quantile(freedom: f64) -> f64 {
    match T.get((freedom as usize).max(1) - 1) {
        Some(quantile) => *quantile,
        None => 1.96 + 2.5 / freedom,
    }
}

#[cfg(test)]
mod tests {
    use super::{Difference, Metric, MetricDifference, quantile, welch};

    fn difference(metric: Metric, before: &[f64], after: &[f64]) -> Difference {
        MetricDifference::of(metric, before, after)
            .unwrap()
            .difference
    }

    #[test]
    fn a_change_beyond_the_interval_is_better_or_worse() {
        let (slow, fast) = ([100.0, 101.0, 99.0], [120.0, 121.0, 119.0]);
        for (metric, before, after, expected) in [
            (Metric::Rate, slow, fast, Difference::Better),
            (Metric::Rate, fast, slow, Difference::Worse),
            (Metric::P99, slow, fast, Difference::Worse),
            (Metric::P50, fast, slow, Difference::Better),
            (Metric::P50, slow, [100.5, 99.5, 101.0], Difference::None),
            // The same difference, but lost in the noise.
            (
                Metric::Rate,
                [80.0, 130.0, 90.0],
                [160.0, 90.0, 110.0],
                Difference::None,
            ),
            (Metric::Rate, [5.0; 3], [5.0; 3], Difference::None),
        ] {
            assert_eq!(difference(metric, &before, &after), expected, "{after:?}");
        }
        assert_eq!(
            difference(Metric::Rate, &[100.0], &[200.0, 201.0]),
            Difference::Unknown
        );
        assert_eq!(MetricDifference::of(Metric::Rate, &[], &[1.0]), None);
    }

    /// Interval of a few windows, one of them an outlier: the quantile alone is 4.3 times the deviation.
    #[test]
    fn an_interval_without_a_verdict_is_uncertain_if_it_is_wide() {
        let of = |before: [f64; 3], after: [f64; 3]| {
            MetricDifference::of(Metric::P99, &before, &after).unwrap()
        };
        let wide = of([1.0, 1.1, 0.9], [2.0, 20.0, 2.15]);
        assert!((wide.change - 7.05).abs() < 0.01, "{wide:?}");
        let (low, high) = wide.interval.unwrap();
        assert!((low - -1.0).abs() < 1e-9 && high > 10.0, "{wide:?}");
        assert_eq!((wide.difference, wide.uncertain), (Difference::None, true));
        let narrow = of([1.0, 1.1, 0.9], [1.0, 1.05, 0.95]);
        let found = (narrow.difference, narrow.uncertain);
        assert_eq!(found, (Difference::None, false), "{narrow:?}");
        let worse = of([1.0, 1.1, 0.9], [9.0, 9.5, 8.5]);
        let found = (worse.difference, worse.uncertain);
        assert_eq!(found, (Difference::Worse, false), "{worse:?}");
    }

    /// Checked against scipy: `ttest_ind(a, b, equal_var=False).confidence_interval()`, but for the degrees of
    /// freedom, 3.98 there and rounded down here.
    #[test]
    fn the_interval_is_that_of_welch() {
        let half = welch(&[100.0, 101.0, 99.0], &[120.0, 121.2, 118.9]).unwrap();
        assert!((half - 3.182 * (1.0_f64 / 3.0 + 1.323_333 / 3.0).sqrt()).abs() < 1e-3);
        assert_eq!((quantile(0.7), quantile(30.2)), (12.706, 2.042));
        assert!((quantile(120.0) - 1.980).abs() < 0.002);
    }
}
