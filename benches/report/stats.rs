//! Statistics over the values of all pairs.

/// Median and interquartile range of some values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    /// First and third quartile.
    pub(crate) quartiles: [f64; 2],
    pub(crate) count: usize,
}

impl Summary {
    /// Summarises values; `None` if there are none.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            median: quantile(&sorted, 0.5),
            quartiles: [quantile(&sorted, 0.25), quantile(&sorted, 0.75)],
            count: sorted.len(),
        })
    }
}

/// Returns the median of some values; NaN if there are none.
pub(crate) fn median(values: &[f64]) -> f64 {
    Summary::of(values).map_or(f64::NAN, |summary| summary.median)
}

/// Returns a quantile of sorted values, at least one; interpolates linearly between two values.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}
