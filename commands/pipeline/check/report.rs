//! Results of a check, for scripts.

use std::{fmt, path::Path};

use ovms::{
    config::{FileError, FilePosition, PipelineConfig, Warning},
    pipeline::{PipelineError, PipelineRule, PipelineSurvey, Unchecked},
};
use serde::Serialize;

use crate::counts::Counts;

/// All results.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Configuration file.
    file: String,
    /// Worst of the verdicts below.
    verdict: Verdict,
    /// Errors of the file as a whole; if there are any, no pipeline was checked.
    #[serde(rename = "faults")]
    errors: Vec<FileErrorReport>,
    /// Pipelines, in the order of the file.
    pub(super) pipelines: Vec<PipelineReport>,
    /// Warnings about no particular pipeline.
    pub(super) warnings: Vec<Note>,
}

/// Outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
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

/// Results of one pipeline.
#[derive(Debug, Serialize)]
pub(super) struct PipelineReport {
    pub(super) name: String,
    pub(super) verdict: Verdict,
    /// Status text from a server, if it cannot be served.
    status: Option<&'static str>,
    #[serde(rename = "faults")]
    pub(super) errors: Vec<ErrorReport>,
    pub(super) warnings: Vec<Note>,
    pub(super) unchecked: Vec<NotChecked>,
}

/// Position in a file.
#[derive(Debug, Serialize)]
pub(super) struct At {
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) column: usize,
    path: String,
}

/// Error of a pipeline.
#[derive(Debug, Serialize)]
pub(super) struct ErrorReport {
    #[serde(flatten)]
    pub(super) at: At,
    /// Number of the rule.
    pub(super) rule: u8,
    /// Status text of the rule.
    pub(super) status: &'static str,
    pub(super) node: Option<String>,
    pub(super) connection: Option<Connection>,
    pub(super) found: String,
    pub(super) expected: String,
    pub(super) next: String,
}

/// Connection with an error.
#[derive(Debug, Serialize)]
pub(super) struct Connection {
    pub(super) from: String,
    pub(super) data_item: String,
    pub(super) to: String,
    pub(super) input: String,
}

/// Error of the file as a whole.
#[derive(Debug, Serialize)]
struct FileErrorReport {
    file: String,
    /// Line number; absent if the file cannot be read.
    line: Option<usize>,
    column: Option<usize>,
    path: Option<String>,
    found: String,
    expected: String,
    next: Option<String>,
}

/// Warning, with its position if known.
#[derive(Debug, Serialize)]
pub(super) struct Note {
    #[serde(flatten)]
    pub(super) at: Option<At>,
    pub(super) text: String,
}

/// Part of a pipeline that was not checked.
#[derive(Debug, Serialize)]
pub(super) struct NotChecked {
    #[serde(flatten)]
    pub(super) at: At,
    /// Name of the node.
    pub(super) node: String,
    pub(super) reason: String,
}

impl At {
    fn new(file: &Path, place: &FilePosition) -> Self {
        Self {
            file: file.display().to_string(),
            line: place.line,
            column: place.column,
            path: place.path.clone(),
        }
    }
}

impl fmt::Display for At {
    /// Writes the position in the form that editors and terminals turn into links.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl Note {
    fn new(file: &Path, warning: &Warning) -> Self {
        Self {
            at: Some(At::new(file, &warning.place)),
            text: warning.text.clone(),
        }
    }
}

impl Verdict {
    fn of(errors: usize, unchecked: usize, warnings: usize) -> Self {
        match (errors, unchecked, warnings) {
            (0, 0, 0) => Self::Ok,
            (0, 0, _) => Self::Warnings,
            (0, _, _) => Self::Unchecked,
            _ => Self::Errors,
        }
    }
}

impl Report {
    /// Combines the pipelines, and the results about none in particular.
    pub(super) fn new<'a>(
        file: &Path,
        pipelines: Vec<PipelineReport>,
        warnings: impl Iterator<Item = &'a Warning>,
        notes: Vec<String>,
    ) -> Self {
        let notes = notes.into_iter().map(|text| Note { at: None, text });
        let mut report = Self {
            file: file.display().to_string(),
            verdict: Verdict::Ok,
            errors: Vec::new(),
            warnings: warnings
                .map(|warning| Note::new(file, warning))
                .chain(notes)
                .collect(),
            pipelines,
        };
        let counts = report.counts();
        report.verdict = Verdict::of(counts.errors, counts.unchecked, counts.warnings);
        report
    }

    /// Creates the report of a file that is rejected as a whole.
    pub(super) fn refused(file: &Path, error: &FileError) -> Self {
        let name = file.display().to_string();
        let errors = error.errors().iter().map(|failure| FileErrorReport {
            file: name.clone(),
            line: Some(failure.place.line),
            column: Some(failure.place.column),
            path: Some(failure.place.path.clone()),
            found: failure.found.clone(),
            expected: failure.expected.clone(),
            next: failure.hint.clone(),
        });
        let mut errors: Vec<FileErrorReport> = errors.collect();
        if let FileError::Read { source, .. } = error {
            errors.push(FileErrorReport {
                file: name.clone(),
                line: None,
                column: None,
                path: None,
                found: source.to_string(),
                expected: "a file that can be read".to_owned(),
                next: None,
            });
        }
        Self {
            file: name,
            verdict: Verdict::Errors,
            errors,
            pipelines: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Returns the worst verdict.
    pub(super) fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Counts the results.
    pub(super) fn counts(&self) -> Counts {
        let of_none = Counts {
            warnings: self.warnings.len(),
            ..Counts::default()
        };
        let counts = self.pipelines.iter().map(PipelineReport::counts);
        counts.chain([of_none]).sum()
    }

    /// Writes everything as JSON.
    pub(super) fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("texts and numbers are JSON");
        text.push('\n');
        text
    }
}

impl PipelineReport {
    /// Creates the report of a checked pipeline.
    pub(super) fn of(file: &Path, config: &PipelineConfig, survey: PipelineSurvey) -> Self {
        let error = |error: PipelineError| ErrorReport {
            at: At::new(file, &error.place),
            rule: error.rule.number(),
            status: error.rule.status(),
            connection: connection(config, &error.place),
            node: error.node,
            found: error.found,
            expected: error.expected,
            next: error.next,
        };
        let unchecked = |unchecked: Unchecked| NotChecked {
            at: At::new(file, &unchecked.place),
            node: unchecked.node,
            reason: unchecked.reason,
        };
        Self::new(
            config.name.clone(),
            survey.errors.into_iter().map(error).collect(),
            survey
                .warnings
                .iter()
                .map(|warning| Note::new(file, warning))
                .collect(),
            survey.unchecked.into_iter().map(unchecked).collect(),
        )
    }

    /// Creates the report of a pipeline with the name of a model, which is not checked.
    pub(super) fn clashing(file: &Path, name: &str, place: &FilePosition) -> Self {
        let rule = PipelineRule::NameTaken;
        let error = ErrorReport {
            at: At::new(file, place),
            rule: rule.number(),
            status: rule.status(),
            node: None,
            connection: None,
            found: format!("the name `{name}`, which a model has"),
            expected: "a name of its own".to_owned(),
            next: "rename the pipeline; the rest of it is looked at then".to_owned(),
        };
        Self::new(name.to_owned(), vec![error], Vec::new(), Vec::new())
    }

    fn new(
        name: String,
        errors: Vec<ErrorReport>,
        warnings: Vec<Note>,
        unchecked: Vec<NotChecked>,
    ) -> Self {
        Self {
            name,
            verdict: Verdict::of(errors.len(), unchecked.len(), warnings.len()),
            status: errors.first().map(|error| error.status),
            errors,
            warnings,
            unchecked,
        }
    }

    /// Counts the results.
    pub(super) fn counts(&self) -> Counts {
        Counts {
            errors: self.errors.len(),
            warnings: self.warnings.len(),
            unchecked: self.unchecked.len(),
        }
    }
}

/// Finds the connection at a position.
fn connection(config: &PipelineConfig, place: &FilePosition) -> Option<Connection> {
    let of_nodes = config.nodes.iter().map(|node| (&*node.name, &node.inputs));
    let mut ends = of_nodes.chain([("response", &config.outputs)]);
    ends.find_map(|(to, connections)| {
        let found = connections.iter().find(|found| found.place == *place)?;
        Some(Connection {
            from: found.node_name.clone(),
            data_item: found.data_item.clone(),
            to: to.to_owned(),
            input: found.name.clone(),
        })
    })
}
