//! Results of a check of pipelines or graphs.

use std::path::Path;

use ovms::config::FileError;
use serde::{Serialize, Serializer, ser::SerializeMap};

use super::{
    counts::{Counts, Findings},
    diagnostic::{Diagnostic, FindingText, Severity},
    text,
};
use crate::error::{Failure, FailureKind};

/// Kind of servable that is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckedKind {
    Pipeline,
    Graph,
}

/// Outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CheckVerdict {
    /// It can be served.
    Ok,
    /// It can be served, though perhaps not as meant.
    Warnings,
    /// No errors, but not everything was checked.
    Unchecked,
    /// It cannot be served.
    #[serde(rename = "faults")]
    Errors,
}

/// Results of one pipeline or graph.
#[derive(Debug, Serialize)]
pub(crate) struct CheckedServable {
    #[serde(skip)]
    pub(crate) kind: CheckedKind,
    pub(crate) name: String,
    /// Path of the file that defines it.
    pub(crate) file: String,
    pub(crate) verdict: CheckVerdict,
    /// Status text from a server, if it cannot be served.
    status: Option<&'static str>,
    #[serde(rename = "faults")]
    pub(crate) errors: Vec<Diagnostic>,
    pub(crate) warnings: Vec<Diagnostic>,
    #[serde(serialize_with = "unchecked")]
    pub(crate) unchecked: Vec<Diagnostic>,
    /// Text of the file.
    #[serde(skip)]
    pub(crate) source: String,
}

/// Results of all pipelines or graphs of a file.
#[derive(Debug)]
pub(crate) struct CheckReport {
    kind: CheckedKind,
    file: String,
    /// Errors of the file as a whole; if there are any, no servable was checked.
    errors: Vec<Diagnostic>,
    pub(super) servables: Vec<CheckedServable>,
    /// Warnings about no particular servable.
    pub(super) warnings: Vec<Diagnostic>,
    /// Text of the file.
    pub(super) source: String,
}

impl CheckedKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pipeline => "pipeline",
            Self::Graph => "graph",
        }
    }

    pub(super) const fn plural(self) -> &'static str {
        match self {
            Self::Pipeline => "pipelines",
            Self::Graph => "graphs",
        }
    }
}

impl CheckVerdict {
    /// Returns the verdict on a servable: on graphs, something unchecked counts as a warning.
    fn of(kind: CheckedKind, counts: Counts) -> Self {
        match (counts.errors, counts.unchecked, counts.warnings, kind) {
            (0, 0, 0, _) => Self::Ok,
            (0, 0, _, _) | (0, _, _, CheckedKind::Graph) => Self::Warnings,
            (0, _, _, CheckedKind::Pipeline) => Self::Unchecked,
            _ => Self::Errors,
        }
    }
}

/// Writes parts that were not checked: those without a position as texts.
fn unchecked<S: Serializer>(found: &[Diagnostic], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(
        found
            .iter()
            .map(|found| match (&found.place, &found.message) {
                (None, FindingText::Text(text)) => Unplaced::Text(text),
                _ => Unplaced::Placed(found),
            }),
    )
}

/// Part that was not checked, in JSON.
#[derive(Serialize)]
#[serde(untagged)]
enum Unplaced<'a> {
    Text(&'a str),
    Placed(&'a Diagnostic),
}

impl CheckedServable {
    /// Begins without results.
    pub(crate) fn new(kind: CheckedKind, name: &str, file: &str) -> Self {
        Self {
            kind,
            name: name.to_owned(),
            file: file.to_owned(),
            verdict: CheckVerdict::Ok,
            status: None,
            errors: Vec::new(),
            warnings: Vec::new(),
            unchecked: Vec::new(),
            source: String::new(),
        }
    }

    /// Adds a result.
    pub(crate) fn add(&mut self, found: Diagnostic) {
        match found.severity {
            Severity::Error => self.errors.push(found),
            Severity::Warning => self.warnings.push(found),
            Severity::Unchecked => self.unchecked.push(found),
        }
        self.verdict = CheckVerdict::of(self.kind, self.counts());
        self.status = self
            .errors
            .first()
            .and_then(|error| Some(error.rule?.status));
    }

    /// Counts the results.
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            errors: self.errors.len(),
            warnings: self.warnings.len(),
            unchecked: self.unchecked.len(),
        }
    }

    /// Writes each result as a line. Those without a position begin with `origin`.
    pub(crate) fn findings(&self, origin: &str) -> Findings {
        let servable = format!("{} `{}`", self.kind.name(), self.name);
        let lines = |found: &[Diagnostic]| {
            let lines = found.iter().map(|found| found.line(&servable, origin));
            lines.collect()
        };
        Findings {
            errors: lines(&self.errors),
            warnings: lines(&self.warnings),
            unchecked: lines(&self.unchecked),
        }
    }
}

impl CheckReport {
    /// Combines the servables of a file.
    pub(crate) fn new(kind: CheckedKind, file: &Path, servables: Vec<CheckedServable>) -> Self {
        Self {
            kind,
            file: file.display().to_string(),
            errors: Vec::new(),
            servables,
            warnings: Vec::new(),
            source: String::new(),
        }
    }

    /// Adds warnings about no particular servable, and the text of the file.
    pub(crate) fn about_file(self, warnings: Vec<Diagnostic>, source: String) -> Self {
        Self {
            warnings,
            source,
            ..self
        }
    }

    /// Creates the report of a file that is rejected as a whole.
    pub(crate) fn refused(kind: CheckedKind, file: &Path, error: &FileError) -> Self {
        let errors = error.errors().iter();
        let errors = errors.map(|failure| Diagnostic::of_configuration(file, failure));
        let mut report = Self::new(kind, file, Vec::new());
        report.errors.extend(errors);
        if let FileError::Read { source, .. } = error {
            report.errors.push(Diagnostic {
                message: FindingText::Mismatch {
                    found: source.to_string(),
                    expected: "a file that can be read".to_owned(),
                },
                ..Diagnostic::new(Severity::Error, &report.file, "")
            });
        }
        report
    }

    /// Returns the worst verdict.
    pub(super) fn verdict(&self) -> CheckVerdict {
        if !self.errors.is_empty() {
            return CheckVerdict::Errors;
        }
        let own = match self.warnings.is_empty() {
            true => CheckVerdict::Ok,
            false => CheckVerdict::Warnings,
        };
        let verdicts = self.servables.iter().map(|servable| servable.verdict);
        verdicts.fold(own, CheckVerdict::max)
    }

    fn counts(&self) -> Counts {
        let own = Counts {
            warnings: self.warnings.len(),
            ..Counts::default()
        };
        let counts = self.servables.iter().map(CheckedServable::counts);
        counts.chain([own]).sum()
    }

    /// Writes the report as one JSON object.
    pub(crate) fn json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("texts and numbers are JSON");
        text + "\n"
    }

    /// Writes the report for people.
    pub(crate) fn text(&self) -> String {
        text::write(self)
    }

    /// Returns the kind of the servables.
    pub(super) fn kind(&self) -> CheckedKind {
        self.kind
    }

    /// Returns the result as an exit code, with a summary in one sentence.
    pub(crate) fn end(&self) -> Result<(), Failure> {
        let counts = self.counts();
        match self.verdict() {
            CheckVerdict::Ok => Ok(()),
            CheckVerdict::Errors => {
                let which = match &self.servables[..] {
                    [only] => format!("the {} `{}`", self.kind.name(), only.name),
                    all => {
                        let failed = all.iter().filter(|it| it.verdict == CheckVerdict::Errors);
                        let number = failed.count();
                        format!("{number} of {} {}", all.len(), self.kind.plural())
                    }
                };
                let text = format!("{which} cannot be served: {counts}");
                Err(Failure::new(FailureKind::Failed, text))
            }
            CheckVerdict::Warnings | CheckVerdict::Unchecked => Err(Failure::new(
                FailureKind::Warnings,
                format!("no errors were found, but {counts}"),
            )),
        }
    }
}

impl Serialize for CheckReport {
    /// Writes the servables under the plural of their kind.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(Some(5))?;
        object.serialize_entry("file", &self.file)?;
        object.serialize_entry("verdict", &self.verdict())?;
        object.serialize_entry("faults", &self.errors)?;
        object.serialize_entry(self.kind.plural(), &self.servables)?;
        object.serialize_entry("warnings", &self.warnings)?;
        object.end()
    }
}
