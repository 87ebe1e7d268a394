//! Findings of a check of everything: a line for people, and the parts of it for programs.

use ovms::{
    diagnostic::{Diagnostic, FilePosition, FullDiagnostic, Severity},
    error::chain,
};
use serde::{Serialize, Serializer};

use crate::check::report::CheckedKind;

/// A finding.
#[derive(Debug, Clone)]
pub(super) struct ServeFinding {
    /// Text for people, with the file and the servable.
    pub(super) line: String,
    /// Kind and name of the servable, if it is about one.
    servable: Option<(CheckedKind, String)>,
    found: Diagnostic,
}

impl ServeFinding {
    /// Creates a finding whose line differs from its message.
    pub(super) fn new(found: Diagnostic, line: String) -> Self {
        Self {
            line,
            servable: None,
            found,
        }
    }

    /// Creates a finding without a position.
    pub(super) fn text(severity: Severity, text: impl Into<String>) -> Self {
        let text = text.into();
        Self::new(Diagnostic::new(severity, text.clone()), text)
    }

    /// Creates an error with its causes.
    pub(super) fn error(error: &dyn std::error::Error) -> Self {
        Self::text(Severity::Error, chain(error))
    }

    /// Creates a finding in the configuration file.
    pub(super) fn in_file(file: &str, found: Diagnostic) -> Self {
        let line = format!("{file}:{found}");
        Self::new(found.file(file), line)
    }

    /// Creates a finding in a file that it names, such as that of `--auth`.
    pub(super) fn located(found: &Diagnostic) -> Self {
        Self::new(found.clone(), found.to_string())
    }

    /// Creates a finding about a model, whose line begins with `of`.
    pub(super) fn of_model(
        severity: Severity,
        (name, file): (&str, &str),
        of: &str,
        text: &str,
    ) -> Self {
        let line = format!("{of}{text}");
        let message = text.trim_start_matches([':', ',', ' ']);
        let found = Diagnostic::new(severity, message);
        Self::new(found, line)
            .file(file)
            .about(CheckedKind::Model, name)
    }

    /// Sets the position in the file with which the line begins.
    pub(super) fn at(mut self, file: &str, place: &FilePosition) -> Self {
        let rest = self.line.strip_prefix(file).unwrap_or(&self.line);
        self.line = format!("{file}:{place}{rest}");
        self.found = self.found.at(place.clone());
        self
    }

    /// Sets the servable.
    pub(super) fn about(self, kind: CheckedKind, name: &str) -> Self {
        Self {
            servable: Some((kind, name.to_owned())),
            ..self
        }
    }

    /// Sets the file, unless it is known or empty.
    pub(super) fn file(mut self, file: &str) -> Self {
        if self.found.file.is_none() && !file.is_empty() {
            self.found = self.found.file(file);
        }
        self
    }

    /// Sets the fix, which the line leaves to the hints of the check.
    pub(super) fn hint(mut self, hint: Option<String>) -> Self {
        self.found = self.found.may_hint(hint);
        self
    }

    pub(super) fn severity(&self) -> Severity {
        self.found.severity
    }
}

impl Serialize for ServeFinding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shown<'a> {
            kind: Option<CheckedKind>,
            name: Option<&'a str>,
            #[serde(flatten)]
            found: FullDiagnostic<'a>,
        }
        let servable = self.servable.as_ref();
        let shown = Shown {
            kind: servable.map(|(kind, _)| *kind),
            name: servable.map(|(_, name)| &**name),
            found: FullDiagnostic(&self.found),
        };
        shown.serialize(serializer)
    }
}
