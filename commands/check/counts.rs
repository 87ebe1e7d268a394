//! Results of a check and their number.

use std::{fmt, iter::Sum};

/// Number of results by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) errors: usize,
    pub(crate) warnings: usize,
    pub(crate) unchecked: usize,
}

/// Results of a check of one item, one per line.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) errors: Vec<String>,
    pub(crate) warnings: Vec<String>,
    /// Unchecked parts, with the reasons.
    pub(crate) unchecked: Vec<String>,
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |all, one| Self {
            errors: all.errors + one.errors,
            warnings: all.warnings + one.warnings,
            unchecked: all.unchecked + one.unchecked,
        })
    }
}

impl fmt::Display for Counts {
    /// Writes the counts: `2 errors, 1 warning`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reported = [
            (self.errors, "error", "errors"),
            (self.warnings, "warning", "warnings"),
            (
                self.unchecked,
                "thing that could not be checked",
                "things that could not be checked",
            ),
        ];
        let reported = reported.into_iter().filter(|(count, ..)| *count > 0);
        let reported: Vec<String> = reported
            .map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }))
            .collect();
        match reported.is_empty() {
            true => f.write_str("no errors"),
            false => f.write_str(&reported.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Counts;

    #[test]
    fn what_there_is_is_reported() {
        let one = Counts {
            warnings: 1,
            unchecked: 1,
            ..Counts::default()
        };
        assert_eq!(Counts::default().to_string(), "no errors");
        assert_eq!(
            one.to_string(),
            "1 warning, 1 thing that could not be checked"
        );
        let all: Counts = [one, one, Counts { errors: 1, ..one }].into_iter().sum();
        assert_eq!(
            all.to_string(),
            "1 error, 3 warnings, 3 things that could not be checked"
        );
    }
}
