//! Results of a check of pipelines or graphs.

use std::{borrow::Cow, fmt, iter::Sum, path::Path};

use ovms::{
    config::FileError,
    diagnostic::{Diagnostic, Diagnostics, Severity},
};
use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{
    check,
    error::{Failure, FailureKind},
    ui::{quiet, visible, visible_below, visible_lines},
};

/// Kind of servable that is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub(crate) enum CheckedKind {
    Model,
    Pipeline,
    Graph,
}

/// Outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CheckVerdict {
    /// Valid.
    Ok,
    /// Valid, though perhaps not as meant.
    Warnings,
    /// No errors, but not everything was checked.
    Unchecked,
    /// Invalid.
    #[serde(rename = "faults")]
    Errors,
}

/// Results of one pipeline or graph.
#[derive(Debug, Serialize)]
pub(crate) struct CheckedServable {
    #[serde(skip)]
    kind: CheckedKind,
    name: String,
    /// Path of the file that defines it.
    file: String,
    verdict: CheckVerdict,
    /// Status text from a server, if it cannot be served.
    status: Option<&'static str>,
    #[serde(flatten)]
    found: Diagnostics,
    /// Facts that are worth knowing and count as no warnings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// Text of the file.
    #[serde(skip)]
    source: String,
}

/// Results of all pipelines or graphs of a file.
#[derive(Debug)]
pub(crate) struct CheckReport {
    kind: CheckedKind,
    file: String,
    /// Findings of the file as a whole; if there are errors, no servable was checked.
    found: Diagnostics,
    servables: Vec<CheckedServable>,
    /// Text of the file.
    source: String,
}

impl CheckedKind {
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }

    fn plural(self) -> String {
        format!("{}s", self.name())
    }
}

impl CheckVerdict {
    /// Returns the verdict: except on pipelines, something unchecked counts as a warning.
    pub(crate) fn of(kind: CheckedKind, counts: Counts) -> Self {
        match (counts.errors, counts.unchecked, counts.warnings, kind) {
            (0, 0, 0, _) => Self::Ok,
            (0, _, _, CheckedKind::Pipeline) if counts.unchecked > 0 => Self::Unchecked,
            (0, ..) => Self::Warnings,
            _ => Self::Errors,
        }
    }
}

impl CheckedServable {
    /// Creates the results of a servable that a file with this text defines.
    pub(crate) fn new(
        kind: CheckedKind,
        name: &str,
        file: &str,
        found: Diagnostics,
        source: &str,
    ) -> Self {
        Self {
            kind,
            name: name.to_owned(),
            file: file.to_owned(),
            verdict: CheckVerdict::of(kind, Counts::from(&found)),
            status: found.rule().map(|rule| rule.status),
            found,
            notes: Vec::new(),
            source: source.to_owned(),
        }
    }

    /// Adds facts that are worth knowing and count as no warnings.
    pub(crate) fn noted(mut self, notes: impl IntoIterator<Item = String>) -> Self {
        self.notes.extend(notes);
        self
    }

    /// Writes each finding as a line beside itself. Lines without a position begin with `origin`.
    pub(crate) fn lines(self, origin: &str) -> Diagnostics<(String, Diagnostic)> {
        let servable = format!("{} `{}`", self.kind.name(), self.name);
        self.found
            .map(|found| (line(&found, &servable, origin), found))
    }

    /// Writes the results for people, tracebacks of handlers first.
    fn text(&self) -> String {
        let all = &self.found;
        let (kind, name, counts) = (self.kind.name(), visible(&self.name), Counts::from(all));
        let found = all.errors.iter().chain(&all.warnings);
        let tracebacks = found.filter_map(|found| found.traceback.as_deref());
        let tracebacks = tracebacks.map(|traceback| format!("{}\n\n", visible_lines(traceback)));
        let mut text: String = tracebacks.collect();
        text.extend([&*format!("{kind} `{name}`: {counts}\n")]);
        for note in self.notes.iter().filter(|_| !quiet()) {
            text.extend(["  note: ", &visible(note), "\n"]);
        }
        for found in all.errors.iter().chain(&all.warnings) {
            let source = match found.file.as_deref() {
                // Such as a handler.
                Some(file) if file != self.file => {
                    Cow::Owned(std::fs::read_to_string(file).unwrap_or_default())
                }
                _ => Cow::Borrowed(&self.source),
            };
            text.extend(["\n", &check::show(found, &source)]);
        }
        if !all.unchecked.is_empty() {
            text.push('\n');
        }
        for found in &all.unchecked {
            let mut line = "not checked: ".to_owned();
            if let (Some(file), Some(place)) = (&found.file, &found.place) {
                line.insert_str(0, &format!("{file}:{}:{}: ", place.line, place.column));
            }
            if let Some(node) = &found.node {
                line.extend(["node `", node, "`: "]);
            }
            let message = visible_below(&found.message.to_string(), 4);
            text.extend(["  ", &visible(&line), &message, "\n"]);
        }
        if self.verdict != CheckVerdict::Ok {
            text.push('\n');
        }
        text
    }
}

/// Writes a finding as one line about a servable, such as ``pipeline `p` ``. Without a position it begins
/// with `origin`.
fn line(found: &Diagnostic, servable: &str, origin: &str) -> String {
    let mut text = match (&found.file, &found.place) {
        (Some(file), Some(place)) => format!("{file}:{place}"),
        (Some(file), None) if found.severity == Severity::Unchecked => file.to_string(),
        _ => origin.to_owned(),
    };
    text.extend([": ", servable]);
    if let Some(node) = &found.node {
        text.extend([", node `", node, "`"]);
    }
    text.push_str(": ");
    if let Some(rule) = found.rule.filter(|_| found.severity == Severity::Error) {
        text.extend([rule.status, " - "]);
    }
    text.push_str(&found.message.to_string());
    if let Some(hint) = &found.hint {
        text.extend(["; ", hint]);
    }
    text
}

impl CheckReport {
    /// Combines the servables of a file with warnings about none in particular.
    pub(crate) fn new(
        kind: CheckedKind,
        file: &Path,
        servables: Vec<CheckedServable>,
        warnings: Vec<Diagnostic>,
    ) -> Self {
        Self {
            kind,
            file: file.display().to_string(),
            found: Diagnostics::of_warnings(warnings),
            servables,
            source: String::new(),
        }
    }

    /// Sets the text of the file, for the warnings about none in particular.
    pub(crate) fn with_source(self, source: &str) -> Self {
        Self {
            source: source.to_owned(),
            ..self
        }
    }

    /// Creates the report of a file that is rejected as a whole.
    pub(crate) fn refused(kind: CheckedKind, file: &Path, error: &FileError) -> Self {
        let mut report = Self::new(kind, file, Vec::new(), Vec::new());
        let errors = &mut report.found.errors;
        errors.extend(error.errors().iter().cloned());
        if let FileError::Read { source, .. } = error {
            let message = (source.to_string(), "a file that can be read");
            errors.push(Diagnostic::new(Severity::Error, message));
        }
        for error in errors {
            error.file = Some(report.file.as_str().into());
        }
        report
    }

    /// Creates the report of what is not there, with the failure's text.
    pub(crate) fn absent(kind: CheckedKind, file: &Path, failure: &Failure) -> Self {
        let mut report = Self::new(kind, file, Vec::new(), Vec::new());
        report.add(failure);
        report
    }

    /// Adds a failure as an error of the file as a whole.
    pub(crate) fn add(&mut self, failure: &Failure) {
        let mut error = Diagnostic::new(Severity::Error, failure.line());
        error.hint = failure.hints().first().cloned();
        error.file = Some(self.file.as_str().into());
        self.found.errors.push(error);
    }

    /// Returns whether nothing was checked.
    pub(crate) fn is_empty(&self) -> bool {
        self.servables.is_empty()
    }

    /// Returns the worst verdict.
    fn verdict(&self) -> CheckVerdict {
        let own = CheckVerdict::of(self.kind, Counts::from(&self.found));
        let verdicts = self.servables.iter().map(|servable| servable.verdict);
        verdicts.fold(own, CheckVerdict::max)
    }

    fn counts(&self) -> Counts {
        let found = self.servables.iter().map(|servable| &servable.found);
        found.chain([&self.found]).map(Counts::from).sum()
    }

    /// Writes the report as one JSON object.
    pub(crate) fn json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("texts and numbers are JSON");
        text + "\n"
    }

    /// Writes the report for people.
    pub(crate) fn text(&self) -> String {
        let mut text: String = self.servables.iter().map(CheckedServable::text).collect();
        if !self.found.warnings.is_empty() {
            text.push_str("the file:\n");
            for warning in &self.found.warnings {
                text.extend(["\n", &check::show(warning, &self.source)]);
            }
            text.push('\n');
        }
        let count = self.servables.len();
        if count > 1 && self.verdict() == CheckVerdict::Ok {
            let count = count.to_string();
            text.extend([&count, " ", &self.kind.plural(), ": no errors\n"]);
        }
        text
    }

    /// Returns the result as an exit code, with a summary in one sentence.
    pub(crate) fn end(&self) -> Result<(), Failure> {
        let counts = self.counts();
        match self.verdict() {
            CheckVerdict::Ok => Ok(()),
            CheckVerdict::Errors => {
                let failed = |it: &&CheckedServable| it.verdict == CheckVerdict::Errors;
                let (all, number) = (
                    &self.servables,
                    self.servables.iter().filter(failed).count(),
                );
                let which = match &all[..] {
                    [only] => format!("the {} `{}`", self.kind.name(), only.name),
                    all => format!("{number} of {} {}", all.len(), self.kind.plural()),
                };
                Err(Failure::failed(format!(
                    "{which} cannot be served: {counts}"
                )))
            }
            CheckVerdict::Warnings | CheckVerdict::Unchecked => Err(counts.without_errors()),
        }
    }
}

impl Serialize for CheckReport {
    /// Writes the servables under the plural of their kind.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(Some(5))?;
        object.serialize_entry("file", &self.file)?;
        object.serialize_entry("verdict", &self.verdict())?;
        object.serialize_entry("faults", &self.found.errors)?;
        object.serialize_entry(&self.kind.plural(), &self.servables)?;
        object.serialize_entry("warnings", &self.found.warnings)?;
        object.end()
    }
}

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
