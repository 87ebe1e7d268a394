//! Rule for a measurement that has settled.

/// Rate and mean latency of a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct WindowMeans {
    pub(super) rate: f64,
    /// `None` if nothing was answered.
    pub(super) latency: Option<f64>,
}

/// Returns whether the last windows agree: none is further from their mean, in rate or in latency, than the
/// tolerance. The rule is that of Triton's perf_analyzer.
pub(super) fn is_stable(all: &[WindowMeans], windows: usize, tolerance: f64) -> bool {
    let Some(first) = all.len().checked_sub(windows.max(1)) else {
        return false;
    };
    let last = &all[first..];
    let rates: Vec<f64> = last.iter().map(|it| it.rate).collect();
    let latencies: Vec<f64> = last.iter().filter_map(|it| it.latency).collect();
    latencies.len() == last.len() && agree(&rates, tolerance) && agree(&latencies, tolerance)
}

#[expect(clippy::cast_precision_loss, reason = "a few windows")]
fn agree(values: &[f64], tolerance: f64) -> bool {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    // With room for what rounding adds.
    let is_near = |value: &f64| (value - mean).abs() <= tolerance * mean * (1.0 + 1e-9);
    values.iter().all(is_near)
}

#[cfg(test)]
mod tests {
    use super::{WindowMeans, is_stable};

    #[test]
    fn the_last_windows_have_to_agree_in_rate_and_latency() {
        let windows = |rates: &[f64], latencies: &[f64]| -> Vec<_> {
            let pairs = rates.iter().zip(latencies);
            pairs
                .map(|(rate, latency)| WindowMeans {
                    rate: *rate,
                    latency: (*latency > 0.0).then_some(*latency),
                })
                .collect()
        };
        for (rates, latencies, expected) in [
            (&[100.0, 100.0][..], &[1.0, 1.0][..], false),
            (&[100.0, 100.0, 100.0], &[1.0, 1.0, 1.0], true),
            // A tenth from the mean is near enough, on both sides.
            (&[90.0, 100.0, 110.0], &[1.1, 1.0, 0.9], true),
            (&[88.0, 100.0, 112.0], &[1.0, 1.0, 1.0], false),
            (&[100.0, 100.0, 100.0], &[1.0, 1.0, 1.3], false),
            // What came before does not count.
            (&[5.0, 100.0, 101.0, 102.0], &[9.0, 1.0, 1.0, 1.0], true),
            (&[100.0, 101.0, 102.0, 5.0], &[1.0, 1.0, 1.0, 9.0], false),
            // A window without an answer has no latency.
            (&[0.0, 0.0, 0.0], &[0.0, 0.0, 0.0], false),
        ] {
            let all = windows(rates, latencies);
            assert_eq!(is_stable(&all, 3, 0.1), expected, "{rates:?} {latencies:?}");
        }
        assert!(is_stable(&windows(&[5.0], &[1.0]), 1, 0.1));
    }
}
