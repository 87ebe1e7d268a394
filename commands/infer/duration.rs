//! Durations as typed: a number and its unit.

use std::time::Duration;

/// Units and their seconds. `ms` is tried before `s` and `m`.
const UNITS: [(&str, f64); 4] = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// Reads a duration above zero, such as `500ms`, `10s`, `1.5m` or `1h`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let expected =
        || format!("found `{text}`, expected a number with a unit, such as 500ms or 10s");
    let (number, unit) = UNITS
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)))
        .ok_or_else(expected)?;
    // A sign or an exponent is a number, but no duration that anybody means.
    if !number
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        return Err(expected());
    }
    let number: f64 = number.parse().map_err(|_| expected())?;
    match Duration::try_from_secs_f64(number * unit) {
        Ok(duration) if duration > Duration::ZERO => Ok(duration),
        _ => Err(expected()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::duration;

    #[test]
    fn durations_have_a_unit() {
        for (text, milliseconds) in [
            ("500ms", 500),
            ("10s", 10_000),
            ("1.5s", 1500),
            ("2m", 120_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(
                duration(text),
                Ok(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
        for text in ["", "10", "s", "-1s", "0s", "1e3s", "10 s", "1d", "infs"] {
            assert_eq!(
                duration(text).unwrap_err(),
                format!("found `{text}`, expected a number with a unit, such as 500ms or 10s")
            );
        }
    }
}
