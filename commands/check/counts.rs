//! Numbers of findings.

use std::{fmt, iter::Sum};

use ovms::diagnostic::Diagnostics;

use crate::error::{Failure, FailureKind};

/// Number of findings by severity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) errors: usize,
    pub(crate) warnings: usize,
    pub(crate) unchecked: usize,
}

impl<T> From<&Diagnostics<T>> for Counts {
    fn from(found: &Diagnostics<T>) -> Self {
        Self {
            errors: found.errors.len(),
            warnings: found.warnings.len(),
            unchecked: found.unchecked.len(),
        }
    }
}

impl Counts {
    /// Returns the failure of a check without errors.
    pub(crate) fn without_errors(self) -> Failure {
        Failure::new(FailureKind::Warnings, format!("no errors, but {self}"))
    }
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
        let reported = reported
            .map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }));
        f.write_str(&match reported.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => "no errors".to_owned(),
            reported => reported,
        })
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
