//! Results of a check.

use std::path::Path;

use ovms::graph::{FileWarning, GraphFileError, GraphRule};
use serde::Serialize;

use crate::counts::Counts;

/// Results of all graphs.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    file: String,
    verdict: Verdict,
    pub(super) graphs: Vec<GraphReport>,
}

/// Outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Ok,
    Warnings,
    #[serde(rename = "faults")]
    Errors,
}

/// Results of one graph.
#[derive(Debug, Serialize)]
pub(super) struct GraphReport {
    pub(super) name: String,
    pub(super) file: String,
    pub(super) verdict: Verdict,
    #[serde(rename = "faults")]
    pub(super) errors: Vec<Entry>,
    pub(super) warnings: Vec<Entry>,
    /// Parts that could not be checked, with the reasons.
    pub(super) unchecked: Vec<String>,
    /// Lines of the graph file.
    #[serde(skip)]
    pub(super) lines: Vec<String>,
}

/// Error or warning.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Entry {
    /// Number of the rule, for errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rule: Option<u8>,
    /// Status text of the rule, for errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<&'static str>,
    /// File, if it differs from that of the graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<String>,
    pub(super) line: Option<usize>,
    pub(super) column: Option<usize>,
    pub(super) node: Option<String>,
    pub(super) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) traceback: Option<String>,
    pub(super) hint: Option<String>,
}

impl Entry {
    /// Creates an entry of a node.
    pub(super) fn of_node(
        node: &str,
        (line, column): (usize, usize),
        message: impl Into<String>,
    ) -> Self {
        Self {
            rule: None,
            status: None,
            file: None,
            line: Some(line),
            column: Some(column),
            node: Some(node.to_owned()),
            message: message.into(),
            traceback: None,
            hint: None,
        }
    }

    /// Marks it as an error of a rule.
    pub(super) fn breaking(self, rule: GraphRule) -> Self {
        Self {
            rule: Some(rule.number()),
            status: Some(rule.status()),
            ..self
        }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }
}

impl From<GraphFileError> for Entry {
    fn from(error: GraphFileError) -> Self {
        Self {
            rule: Some(error.rule.number()),
            status: Some(error.rule.status()),
            file: None,
            line: error.place.map(|(line, _)| line),
            column: error.place.map(|(_, column)| column),
            node: error.node,
            message: error.message,
            traceback: None,
            hint: error.hint,
        }
    }
}

impl From<FileWarning> for Entry {
    fn from(warning: FileWarning) -> Self {
        Self {
            rule: None,
            status: None,
            file: None,
            line: Some(warning.place.0),
            column: Some(warning.place.1),
            node: warning.node,
            message: warning.message,
            traceback: None,
            hint: None,
        }
    }
}

impl GraphReport {
    pub(super) fn counts(&self) -> Counts {
        Counts {
            errors: self.errors.len(),
            warnings: self.warnings.len(),
            unchecked: self.unchecked.len(),
        }
    }

    /// Sets the verdict from the entries.
    pub(super) fn validated(mut self) -> Self {
        self.verdict = match self.counts() {
            Counts { errors: 1.., .. } => Verdict::Errors,
            counts if counts == Counts::default() => Verdict::Ok,
            _ => Verdict::Warnings,
        };
        self
    }
}

impl Report {
    pub(super) fn new(path: &Path, graphs: Vec<GraphReport>) -> Self {
        Self {
            file: path.display().to_string(),
            verdict: graphs
                .iter()
                .map(|graph| graph.verdict)
                .max()
                .unwrap_or(Verdict::Ok),
            graphs,
        }
    }

    pub(super) fn verdict(&self) -> Verdict {
        self.verdict
    }

    pub(super) fn counts(&self) -> Counts {
        self.graphs.iter().map(GraphReport::counts).sum()
    }

    /// Writes the report as one JSON object.
    pub(super) fn json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("texts and numbers are JSON");
        text + "\n"
    }
}
