//! What a check has found, as scripts get it.

use std::{fmt, path::Path};

use ovms::{
    config::{FileError, PipelineConfig, FilePosition, Warning},
    pipeline::{PipelineError, PipelineRule, PipelineSurvey, Unchecked},
};
use serde::Serialize;

use crate::counts::Counts;

/// Everything that was found.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The configuration file.
    file: String,
    /// The worst of the verdicts below.
    verdict: Verdict,
    /// Faults of the file as a whole; if there are any, no pipeline was looked at.
    faults: Vec<FileFault>,
    /// The pipelines, in the order of the file.
    pub(super) pipelines: Vec<PipelineReport>,
    /// Warnings of no one pipeline.
    pub(super) warnings: Vec<Note>,
}

/// How it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// It can be served.
    Ok,
    /// It can be served, though perhaps not as meant.
    Warnings,
    /// No fault was found, and not everything was looked at.
    Unchecked,
    /// It cannot be served.
    Faults,
}

/// What was found of one pipeline.
#[derive(Debug, Serialize)]
pub(super) struct PipelineReport {
    pub(super) name: String,
    pub(super) verdict: Verdict,
    /// What a server says of it, if it cannot be served.
    status: Option<&'static str>,
    pub(super) faults: Vec<PipelineFault>,
    pub(super) warnings: Vec<Note>,
    pub(super) unchecked: Vec<NotChecked>,
}

/// A place in a file.
#[derive(Debug, Serialize)]
pub(super) struct At {
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) column: usize,
    path: String,
}

/// A fault of a pipeline.
#[derive(Debug, Serialize)]
pub(super) struct PipelineFault {
    #[serde(flatten)]
    pub(super) at: At,
    /// The number of the rule.
    pub(super) rule: u8,
    /// The rule's text.
    pub(super) status: &'static str,
    pub(super) node: Option<String>,
    pub(super) connection: Option<Connection>,
    pub(super) found: String,
    pub(super) expected: String,
    pub(super) next: String,
}

/// The connection that a fault is about.
#[derive(Debug, Serialize)]
pub(super) struct Connection {
    pub(super) from: String,
    pub(super) data_item: String,
    pub(super) to: String,
    pub(super) input: String,
}

/// A fault of the file as a whole.
#[derive(Debug, Serialize)]
struct FileFault {
    file: String,
    /// Not there if the file cannot be read.
    line: Option<usize>,
    column: Option<usize>,
    path: Option<String>,
    found: String,
    expected: String,
    next: Option<String>,
}

/// A warning.
#[derive(Debug, Serialize)]
pub(super) struct Note {
    #[serde(flatten)]
    pub(super) at: Option<At>,
    pub(super) text: String,
}

/// What was not looked at.
#[derive(Debug, Serialize)]
pub(super) struct NotChecked {
    #[serde(flatten)]
    pub(super) at: At,
    /// The node.
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
    /// Writes what editors and terminals make a link of.
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
    fn of(faults: usize, unchecked: usize, warnings: usize) -> Self {
        match (faults, unchecked, warnings) {
            (0, 0, 0) => Self::Ok,
            (0, 0, _) => Self::Warnings,
            (0, _, _) => Self::Unchecked,
            _ => Self::Faults,
        }
    }
}

impl Report {
    /// Puts the pipelines together, with what is said of none in particular.
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
            faults: Vec::new(),
            warnings: warnings
                .map(|warning| Note::new(file, warning))
                .chain(notes)
                .collect(),
            pipelines,
        };
        let counts = report.counts();
        report.verdict = Verdict::of(counts.faults, counts.unchecked, counts.warnings);
        report
    }

    /// Makes the report of a file that is refused as a whole.
    pub(super) fn refused(file: &Path, error: &FileError) -> Self {
        let name = file.display().to_string();
        let faults = error.faults().iter().map(|fault| FileFault {
            file: name.clone(),
            line: Some(fault.place.line),
            column: Some(fault.place.column),
            path: Some(fault.place.path.clone()),
            found: fault.found.clone(),
            expected: fault.expected.clone(),
            next: fault.hint.clone(),
        });
        let mut faults: Vec<FileFault> = faults.collect();
        if let FileError::Read { source, .. } = error {
            faults.push(FileFault {
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
            verdict: Verdict::Faults,
            faults,
            pipelines: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Returns the worst verdict.
    pub(super) fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Counts.
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
    /// Makes the report of a pipeline that was looked at.
    pub(super) fn of(file: &Path, config: &PipelineConfig, survey: PipelineSurvey) -> Self {
        let fault = |fault: PipelineError| PipelineFault {
            at: At::new(file, &fault.place),
            rule: fault.rule.number(),
            status: fault.rule.status(),
            connection: connection(config, &fault.place),
            node: fault.node,
            found: fault.found,
            expected: fault.expected,
            next: fault.next,
        };
        let unchecked = |unchecked: Unchecked| NotChecked {
            at: At::new(file, &unchecked.place),
            node: unchecked.node,
            reason: unchecked.reason,
        };
        Self::new(
            config.name.clone(),
            survey.faults.into_iter().map(fault).collect(),
            survey
                .warnings
                .iter()
                .map(|warning| Note::new(file, warning))
                .collect(),
            survey.unchecked.into_iter().map(unchecked).collect(),
        )
    }

    /// Makes the report of a pipeline with the name of a model, which is not looked at.
    pub(super) fn clashing(file: &Path, name: &str, place: &FilePosition) -> Self {
        let rule = PipelineRule::NameTaken;
        let fault = PipelineFault {
            at: At::new(file, place),
            rule: rule.number(),
            status: rule.status(),
            node: None,
            connection: None,
            found: format!("the name `{name}`, which a model has"),
            expected: "a name of its own".to_owned(),
            next: "rename the pipeline; the rest of it is looked at then".to_owned(),
        };
        Self::new(name.to_owned(), vec![fault], Vec::new(), Vec::new())
    }

    fn new(
        name: String,
        faults: Vec<PipelineFault>,
        warnings: Vec<Note>,
        unchecked: Vec<NotChecked>,
    ) -> Self {
        Self {
            name,
            verdict: Verdict::of(faults.len(), unchecked.len(), warnings.len()),
            status: faults.first().map(|fault| fault.status),
            faults,
            warnings,
            unchecked,
        }
    }

    /// Counts.
    pub(super) fn counts(&self) -> Counts {
        Counts {
            faults: self.faults.len(),
            warnings: self.warnings.len(),
            unchecked: self.unchecked.len(),
        }
    }
}

/// Finds the connection of a place.
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
