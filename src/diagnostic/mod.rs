//! Findings of the checks of configuration files, pipelines and graphs, in one form: the position in the
//! file, the broken rule, and a suggested fix.

mod position;

use std::{fmt, sync::Arc};

use serde::{Serialize, Serializer, ser::SerializeMap};

pub use position::{FilePosition, LineIndex};

/// Error, warning, or part that was not checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Weight.
    pub severity: Severity,
    /// Broken rule; of a part that was not checked, the first rule that needs it.
    pub rule: Option<Rule>,
    /// Path of the file, if it is not the one that is being read.
    pub file: Option<Arc<str>>,
    /// Position in the file; `None` for the file as a whole.
    pub place: Option<FilePosition>,
    /// Node, if it is about one.
    pub node: Option<String>,
    /// Connection of a pipeline, if it is about one.
    pub connection: Option<ConnectionEnds>,
    /// Name that the log has, such as that of a stream or key; empty if there is none.
    pub subject: String,
    /// Text.
    pub message: FindingText,
    /// Traceback of a handler.
    pub traceback: Option<String>,
    /// Suggested fix.
    pub hint: Option<String>,
}

/// Weight of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The servable, or the whole file, cannot be served.
    Error,
    /// The servable, or the file, can be served, though perhaps not as meant.
    Warning,
    /// A part was not checked.
    Unchecked,
}

/// Rule of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Number; rules are checked in this order.
    pub number: u8,
    /// Status text of a servable that breaks it.
    pub status: &'static str,
    /// Beginning of its lines in the log, in place of the status: `{name}` stands for the servable, and
    /// `{subject}` for that of the finding.
    pub log: Option<&'static str>,
}

/// Text of a finding.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FindingText {
    /// A sentence.
    Text(String),
    /// A value, and the one expected in its place.
    Mismatch {
        /// Value in the file.
        found: String,
        /// Expected value.
        expected: String,
    },
}

/// Ends of a connection of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConnectionEnds {
    /// Node that gives.
    pub from: String,
    /// Alias of its output.
    pub data_item: String,
    /// Node that takes.
    pub to: String,
    /// Input of that node.
    pub input: String,
}

/// Findings by severity, each in the order of the rules and of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostics<T = Diagnostic> {
    /// Errors; the first decides on the status of the servable.
    #[serde(rename = "faults")]
    pub errors: Vec<T>,
    /// Warnings.
    pub warnings: Vec<T>,
    /// Parts that were not checked.
    pub unchecked: Vec<T>,
}

impl Rule {
    /// Creates a rule whose log lines name its status.
    pub const fn new(number: u8, status: &'static str) -> Self {
        Self {
            number,
            status,
            log: None,
        }
    }

    /// Sets the beginning of its lines in the log.
    #[must_use]
    pub const fn log(mut self, log: &'static str) -> Self {
        self.log = Some(log);
        self
    }
}

impl Diagnostic {
    /// Creates a finding about nothing in particular.
    pub fn new(severity: Severity, message: impl Into<FindingText>) -> Self {
        Self {
            severity,
            rule: None,
            file: None,
            place: None,
            node: None,
            connection: None,
            subject: String::new(),
            message: message.into(),
            traceback: None,
            hint: None,
        }
    }

    /// Creates an error of a rule.
    pub fn error(rule: Rule, message: impl Into<FindingText>) -> Self {
        Self {
            rule: Some(rule),
            ..Self::new(Severity::Error, message)
        }
    }

    /// Sets the file.
    #[must_use]
    pub fn file(mut self, file: &str) -> Self {
        self.file = Some(file.into());
        self
    }

    /// Sets the position.
    #[must_use]
    pub fn at(mut self, place: impl Into<FilePosition>) -> Self {
        self.place = Some(place.into());
        self
    }

    /// Sets the node.
    #[must_use]
    pub fn node(mut self, node: &str) -> Self {
        self.node = Some(node.to_owned());
        self
    }

    /// Sets the name for the log.
    #[must_use]
    pub fn about(mut self, subject: &str) -> Self {
        self.subject = subject.to_owned();
        self
    }

    /// Sets the suggested fix.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        self.may_hint(Some(hint.into()))
    }

    /// Sets the suggested fix, if there is one.
    #[must_use]
    pub fn may_hint(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }

    /// Returns its line of the log, for the servable of this name.
    pub fn log(&self, name: &str) -> String {
        let log = self.rule.and_then(|rule| rule.log).unwrap_or_default();
        let log = log.replace("{name}", name);
        let log = log.replace("{subject}", &self.subject);
        let between = if log.is_empty() { "" } else { ": " };
        format!("{log}{between}{self}")
    }

    /// Returns the key for the order of the file.
    pub(crate) fn order(&self) -> (usize, usize) {
        let place = self.place.as_ref();
        place.map_or((0, 0), |place| (place.line, place.column))
    }
}

impl fmt::Display for Diagnostic {
    /// Writes position, status, node, text, and suggested fix.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, &self.place) {
            (Some(file), Some(place)) => write!(f, "{file}:{place}: ")?,
            (Some(file), None) => write!(f, "{file}: ")?,
            (None, Some(place)) => write!(f, "{place}: ")?,
            (None, None) => {}
        }
        let is_error = self.severity == Severity::Error;
        if let Some(rule) = self.rule.filter(|rule| is_error && rule.log.is_none()) {
            write!(f, "{} - ", rule.status)?;
        }
        if let Some(node) = &self.node {
            write!(f, "node `{node}`: ")?;
        }
        write!(f, "{}", self.message)?;
        match &self.hint {
            // Clients of a reload know those of the file itself in this form.
            Some(hint) if self.rule.is_none() => write!(f, " ({hint})"),
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl Serialize for Diagnostic {
    /// Writes all keys, in one order. `found`, `expected` and `next` are there for mismatches, `text` for
    /// warnings and `reason` for parts not checked: scripts know pipelines by them. A part not checked that
    /// has no position is a text.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.severity == Severity::Unchecked && self.place.is_none() {
            return serializer.serialize_str(&self.message.to_string());
        }
        let copy = match self.severity {
            Severity::Error => None,
            Severity::Warning => Some("text"),
            Severity::Unchecked => Some("reason"),
        };
        let mut object = serializer.serialize_map(None)?;
        self.entries(copy, &mut object)?;
        object.end()
    }
}

/// A finding of any severity as an object, which has the severity as well.
#[derive(Debug, Clone, Copy)]
pub struct FullDiagnostic<'a>(pub &'a Diagnostic);

impl Serialize for FullDiagnostic<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("severity", &self.0.severity)?;
        self.0.entries(None, &mut object)?;
        object.end()
    }
}

impl Diagnostic {
    /// Writes the keys of its object, with the message once more under another key if there is one.
    fn entries<M: SerializeMap>(&self, copy: Option<&str>, object: &mut M) -> Result<(), M::Error> {
        let place = self.place.as_ref();
        let rule = self.rule.filter(|_| self.severity == Severity::Error);
        let message = self.message.to_string();
        object.serialize_entry("file", &self.file.as_deref())?;
        object.serialize_entry("line", &place.map(|place| place.line))?;
        object.serialize_entry("column", &place.map(|place| place.column))?;
        object.serialize_entry("path", &place.map(|place| &place.path))?;
        object.serialize_entry("rule", &rule.map(|rule| rule.number))?;
        object.serialize_entry("status", &rule.map(|rule| rule.status))?;
        object.serialize_entry("node", &self.node)?;
        object.serialize_entry("connection", &self.connection)?;
        object.serialize_entry("message", &message)?;
        if let FindingText::Mismatch { found, expected } = &self.message {
            object.serialize_entry("found", found)?;
            object.serialize_entry("expected", expected)?;
            object.serialize_entry("next", &self.hint)?;
        }
        if let Some(copy) = copy {
            object.serialize_entry(copy, &message)?;
        }
        if let Some(traceback) = &self.traceback {
            object.serialize_entry("traceback", traceback)?;
        }
        object.serialize_entry("hint", &self.hint)
    }
}

impl fmt::Display for FindingText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Mismatch { found, expected } => write!(f, "found {found}; expected {expected}"),
        }
    }
}

impl From<String> for FindingText {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for FindingText {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl<F: Into<String>, E: Into<String>> From<(F, E)> for FindingText {
    /// Converts what was found and what was expected.
    fn from((found, expected): (F, E)) -> Self {
        Self::Mismatch {
            found: found.into(),
            expected: expected.into(),
        }
    }
}

impl<T> Default for Diagnostics<T> {
    fn default() -> Self {
        Self {
            errors: Vec::new(),
            warnings: Vec::new(),
            unchecked: Vec::new(),
        }
    }
}

impl<T> Diagnostics<T> {
    /// Adds a finding.
    pub fn add(&mut self, severity: Severity, found: T) {
        match severity {
            Severity::Error => self.errors.push(found),
            Severity::Warning => self.warnings.push(found),
            Severity::Unchecked => self.unchecked.push(found),
        }
    }

    /// Adds findings behind these.
    pub fn append(&mut self, mut more: Self) {
        self.errors.append(&mut more.errors);
        self.warnings.append(&mut more.warnings);
        self.unchecked.append(&mut more.unchecked);
    }

    /// Converts each finding.
    pub fn map<U>(self, convert: impl FnMut(T) -> U + Copy) -> Diagnostics<U> {
        Diagnostics {
            errors: self.errors.into_iter().map(convert).collect(),
            warnings: self.warnings.into_iter().map(convert).collect(),
            unchecked: self.unchecked.into_iter().map(convert).collect(),
        }
    }
}

impl Diagnostics {
    /// Creates a list of warnings alone.
    pub fn of_warnings(warnings: Vec<Diagnostic>) -> Self {
        Self {
            warnings,
            ..Self::default()
        }
    }

    /// Returns the first broken rule.
    pub fn rule(&self) -> Option<Rule> {
        self.errors.first()?.rule
    }

    /// Returns the status text of the servable; empty if there is no error.
    pub fn status(&self) -> &'static str {
        self.rule().map_or("", |rule| rule.status)
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(error: Diagnostic) -> Self {
        Self {
            errors: vec![error],
            ..Self::default()
        }
    }
}

impl fmt::Display for Diagnostics {
    /// Writes the errors, parted by semicolons.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            let between = if index > 0 { "; " } else { "" };
            write!(f, "{between}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}
