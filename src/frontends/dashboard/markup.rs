//! Texts and numbers as pages have them.

use std::{fmt, time::Duration};

/// Writes a count with its thousands apart.
pub(super) fn count(count: impl fmt::Display) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            // Narrow, and no line breaks there.
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Writes how long something took, with three digits; a dash if that is not known.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(super) fn took(took: Option<Duration>) -> String {
    let Some(took) = took else {
        return "–".to_owned();
    };
    let micros = took.as_nanos() as f64 / 1e3;
    let (value, unit) = if micros < 1e3 {
        (micros, "µs")
    } else if micros < 1e6 {
        (micros / 1e3, "ms")
    } else {
        (micros / 1e6, "s")
    };
    let digits = 2 - usize::from(value >= 10.0) - usize::from(value >= 100.0);
    format!("{value:.digits$} {unit}")
}

/// Writes how long something has been there.
pub(super) fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    let (days, hours) = (seconds / 86_400, seconds / 3600 % 24);
    let (minutes, rest) = (seconds / 60 % 60, seconds % 60);
    if days > 0 {
        format!("{days} d {hours} h")
    } else if hours > 0 {
        format!("{hours} h {minutes} min")
    } else if minutes > 0 {
        format!("{minutes} min {rest} s")
    } else {
        format!("{rest} s")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{age, count, took};

    #[test]
    fn numbers_are_readable() {
        let counts = [0, 999, 1000, 1_234_567].map(count);
        assert_eq!(
            counts,
            ["0", "999", "1\u{202f}000", "1\u{202f}234\u{202f}567"]
        );
        let times = [1, 12, 123, 1234, 123_456, 12_345_678];
        let times = times.map(|micros| took(Some(Duration::from_micros(micros))));
        assert_eq!(
            times,
            [
                "1.00 µs", "12.0 µs", "123 µs", "1.23 ms", "123 ms", "12.3 s"
            ]
        );
        assert_eq!(took(None), "–");
        let ages = [7, 61, 3600 * 5 + 60, 86_400 * 3 + 7200];
        let ages = ages.map(|seconds| age(Duration::from_secs(seconds)));
        assert_eq!(ages, ["7 s", "1 min 1 s", "5 h 1 min", "3 d 2 h"]);
    }
}
