//! A single finding about a file: its position, the broken rule, and a suggested fix.

use std::{fmt, path::Path};

use ovms::{
    config::{ConfigurationError, FilePosition, Warning},
    graph::{FileWarning, GraphFileError, GraphRule},
    pipeline::{PipelineError, Unchecked},
};
use serde::{Serialize, Serializer, ser::SerializeMap};

/// Error, warning, or part that was not checked.
#[derive(Debug, Clone)]
pub(crate) struct Diagnostic {
    pub(crate) severity: Severity,
    pub(crate) rule: Option<BrokenRule>,
    /// Path of the file; `None` if the finding is about none.
    pub(crate) file: Option<String>,
    /// Position in the file; `None` for the file as a whole.
    pub(crate) place: Option<FilePosition>,
    /// Name of the node.
    pub(crate) node: Option<String>,
    pub(crate) connection: Option<ConnectionEnds>,
    pub(crate) message: FindingText,
    /// Traceback of a handler.
    pub(crate) traceback: Option<String>,
    /// Suggested fix.
    pub(crate) hint: Option<String>,
}

/// Weight of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    Error,
    Warning,
    Unchecked,
}

/// Rule that is broken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BrokenRule {
    pub(crate) number: u8,
    /// Status text of a servable that breaks it.
    pub(crate) status: &'static str,
}

/// Text of a finding.
#[derive(Debug, Clone)]
pub(crate) enum FindingText {
    Text(String),
    Mismatch { found: String, expected: String },
}

/// ConnectionEnds of a pipeline with an error.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ConnectionEnds {
    pub(crate) from: String,
    pub(crate) data_item: String,
    pub(crate) to: String,
    pub(crate) input: String,
}

impl fmt::Display for FindingText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Mismatch { found, expected } => write!(f, "found {found}; expected {expected}"),
        }
    }
}

impl Diagnostic {
    pub(crate) fn new(severity: Severity, file: &str, message: impl Into<String>) -> Self {
        Self {
            severity,
            rule: None,
            file: Some(file.to_owned()),
            place: None,
            node: None,
            connection: None,
            message: FindingText::Text(message.into()),
            traceback: None,
            hint: None,
        }
    }

    /// Sets the line and column.
    pub(crate) fn at(self, (line, column): (usize, usize)) -> Self {
        let place = FilePosition {
            line,
            column,
            path: String::new(),
        };
        Self {
            place: Some(place),
            ..self
        }
    }

    pub(crate) fn node(self, node: &str) -> Self {
        Self {
            node: Some(node.to_owned()),
            ..self
        }
    }

    /// Makes it an error of a rule of graphs.
    pub(crate) fn breaking(self, rule: GraphRule) -> Self {
        Self {
            severity: Severity::Error,
            rule: Some(rule.into()),
            ..self
        }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// Returns the file, line and column in the form that editors and terminals turn into links.
    pub(crate) fn position(&self) -> Option<String> {
        let file = self.file.as_ref()?;
        Some(match &self.place {
            Some(place) => format!("{file}:{}:{}", place.line, place.column),
            None => file.clone(),
        })
    }

    /// Writes it as one line about a servable, such as ``pipeline `p` ``. Without a position it begins with
    /// `origin`.
    pub(crate) fn line(&self, servable: &str, origin: &str) -> String {
        let mut text = match (&self.file, &self.place) {
            (Some(file), Some(place)) => format!("{file}:{place}"),
            (Some(file), None) if self.severity == Severity::Unchecked => file.clone(),
            _ => origin.to_owned(),
        };
        text.extend([": ", servable]);
        if let Some(node) = &self.node {
            text.extend([", node `", node, "`"]);
        }
        text.push_str(": ");
        if let Some(rule) = self.rule {
            text.extend([rule.status, " - "]);
        }
        text.push_str(&self.message.to_string());
        if let Some(hint) = &self.hint {
            text.extend(["; ", hint]);
        }
        text
    }

    /// Converts an error of a pipeline in `file`.
    pub(crate) fn of_pipeline(
        file: &Path,
        error: PipelineError,
        connection: Option<ConnectionEnds>,
    ) -> Self {
        let PipelineError {
            rule,
            node,
            place,
            found,
            expected,
            next,
        } = error;
        Self {
            severity: Severity::Error,
            rule: Some(BrokenRule {
                number: rule.number(),
                status: rule.status(),
            }),
            file: Some(file.display().to_string()),
            place: Some(place),
            node,
            connection,
            message: FindingText::Mismatch { found, expected },
            traceback: None,
            hint: Some(next),
        }
    }

    /// Converts a node of a pipeline in `file` that was not checked.
    pub(crate) fn of_unchecked(file: &Path, unchecked: Unchecked) -> Self {
        let file = file.display().to_string();
        Self {
            place: Some(unchecked.place),
            node: Some(unchecked.node),
            ..Self::new(Severity::Unchecked, &file, unchecked.reason)
        }
    }

    /// Converts a warning about a configuration file.
    pub(crate) fn of_warning(file: &Path, warning: &Warning) -> Self {
        let file = file.display().to_string();
        Self {
            place: Some(warning.place.clone()),
            ..Self::new(Severity::Warning, &file, &*warning.text)
        }
    }

    /// Converts an error of a configuration file.
    pub(crate) fn of_configuration(file: &Path, error: &ConfigurationError) -> Self {
        let file = file.display().to_string();
        Self {
            place: Some(error.place.clone()),
            message: FindingText::Mismatch {
                found: error.found.clone(),
                expected: error.expected.clone(),
            },
            hint: error.hint.clone(),
            ..Self::new(Severity::Error, &file, "")
        }
    }
}

impl From<GraphRule> for BrokenRule {
    fn from(rule: GraphRule) -> Self {
        Self {
            number: rule.number(),
            status: rule.status(),
        }
    }
}

impl From<GraphFileError> for Diagnostic {
    fn from(error: GraphFileError) -> Self {
        let found = Self {
            node: error.node,
            hint: error.hint,
            ..Self::new(Severity::Error, &error.file, error.message).breaking(error.rule)
        };
        match error.place {
            Some(place) => found.at(place),
            None => found,
        }
    }
}

impl From<FileWarning> for Diagnostic {
    fn from(warning: FileWarning) -> Self {
        Self {
            node: warning.node,
            ..Self::new(Severity::Warning, &warning.file, warning.message).at(warning.place)
        }
    }
}

impl Serialize for Diagnostic {
    /// Writes all keys, in one order. `found`, `expected` and `next` are there for mismatches, `text` for
    /// warnings and `reason` for parts not checked: scripts know pipelines by them.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("file", &self.file)?;
        object.serialize_entry("line", &self.place.as_ref().map(|place| place.line))?;
        object.serialize_entry("column", &self.place.as_ref().map(|place| place.column))?;
        let path = self.place.as_ref().map(|place| &place.path);
        object.serialize_entry("path", &path)?;
        object.serialize_entry("rule", &self.rule.map(|rule| rule.number))?;
        object.serialize_entry("status", &self.rule.map(|rule| rule.status))?;
        object.serialize_entry("node", &self.node)?;
        object.serialize_entry("connection", &self.connection)?;
        let message = self.message.to_string();
        object.serialize_entry("message", &message)?;
        if let FindingText::Mismatch { found, expected } = &self.message {
            object.serialize_entry("found", found)?;
            object.serialize_entry("expected", expected)?;
            object.serialize_entry("next", &self.hint)?;
        }
        match self.severity {
            Severity::Error => {}
            Severity::Warning => object.serialize_entry("text", &message)?,
            Severity::Unchecked => object.serialize_entry("reason", &message)?,
        }
        if let Some(traceback) = &self.traceback {
            object.serialize_entry("traceback", traceback)?;
        }
        object.serialize_entry("hint", &self.hint)?;
        object.end()
    }
}
