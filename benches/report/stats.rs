//! The statistics that stand for the values of all pairs.

/// The middle of some values, and the range of the middle half of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    /// The first and the third quartile.
    pub(crate) quartiles: [f64; 2],
    pub(crate) count: usize,
}

impl Summary {
    /// Sums up; `None` without values.
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

/// Returns the middle of some values; not a number without any.
pub(crate) fn median(values: &[f64]) -> f64 {
    Summary::of(values).map_or(f64::NAN, |summary| summary.median)
}

/// Returns a quantile of sorted values, of which there are some; between two it is where the line
/// from one to the other is.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}
