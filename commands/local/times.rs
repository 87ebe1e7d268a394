//! Times of requests and nodes, in numbers and as text.

use std::time::Duration;

use crate::ui::NOTHING;

/// Converts to microseconds; nanoseconds are the resolution of the clock.
pub(crate) fn microseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e9).round() / 1e3
}

/// Returns the median of some times, which must not be empty.
pub(crate) fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

/// Returns the time that some percent of times do not exceed, which must not be empty.
pub(crate) fn percentile(times: &[Duration], percent: usize) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() - 1) * percent / 100]
}

/// Returns the ratio of two times with four decimals; `None` if the second is none.
pub(crate) fn ratio(part: Duration, whole: Duration) -> Option<f64> {
    let ratio = part.as_secs_f64() / whole.as_secs_f64();
    ratio.is_finite().then_some((ratio * 1e4).round() / 1e4)
}

/// Writes a time with three digits.
pub(crate) fn time(time: Duration) -> String {
    let (value, unit) = match time.as_secs_f64() * 1e6 {
        microseconds if microseconds < 1e3 => (microseconds, "µs"),
        microseconds if microseconds < 1e6 => (microseconds / 1e3, "ms"),
        microseconds => (microseconds / 1e6, "s"),
    };
    let decimals = match value {
        value if value < 10.0 => 2,
        value if value < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// Writes a share of a time in percent.
pub(crate) fn share(part: Duration, whole: Duration) -> String {
    if whole.is_zero() {
        return NOTHING.to_owned();
    }
    format!("{:.0} %", 100.0 * part.as_secs_f64() / whole.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{share, time};

    #[test]
    fn times_have_three_digits() {
        let reported = [0, 1_234, 12_345, 123_456, 1_234_567, 12_345_678_901]
            .map(|nanoseconds| time(Duration::from_nanos(nanoseconds)));
        assert_eq!(
            reported,
            [
                "0.00 µs", "1.23 µs", "12.3 µs", "123 µs", "1.23 ms", "12.3 s"
            ]
        );
        assert_eq!(
            share(Duration::from_secs(1), Duration::from_secs(3)),
            "33 %"
        );
        assert_eq!(share(Duration::ZERO, Duration::ZERO), "-");
    }
}
