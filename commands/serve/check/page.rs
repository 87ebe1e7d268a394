//! Output of the results.

use std::ffi::OsString;

use serde::Serialize;

use super::{Kind, Report, Row};
use crate::{
    error::{Failure, FailureKind},
    ui::{self, Align, Look, NOTHING, Table},
};

/// JSON form of the results; the fields are in output order.
#[derive(Debug, Serialize)]
struct ReportJson<'a> {
    verdict: &'static str,
    models: &'a [Row],
    #[serde(rename = "faults")]
    errors: &'a [String],
    warnings: &'a [String],
    unchecked: &'a [String],
    hint: Option<String>,
}

/// Returns the document of an aborted check.
pub(crate) fn of_failure(failure: &Failure) -> String {
    let mut report = Report::default();
    report.add_failure(failure);
    report.json() + "\n"
}

/// Returns whether flags that could not be parsed ask for the document of a check.
pub(crate) fn is_asked(flags: &[OsString]) -> bool {
    let is = |flag: &OsString, text: &str| flag == text;
    let mut pairs = flags.iter().zip(flags.iter().skip(1));
    let checks = |flag: &OsString| {
        let flag = flag.to_string_lossy();
        flag == "--check" || flag.starts_with("--check=")
    };
    flags.iter().any(checks)
        && (flags.iter().any(|flag| is(flag, "--output=json"))
            || pairs.any(|(flag, value)| is(flag, "--output") && is(value, "json")))
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Pipeline => "pipeline",
            Self::Graph => "graph",
        }
    }
}

impl Report {
    /// Adds the reason of an aborted check, unless there are errors already.
    pub(super) fn add_failure(&mut self, failure: &Failure) {
        if self.findings.errors.is_empty() {
            // Without the usage that follows the errors of flags.
            let line = failure.line();
            let line = line.split("\n\n").next().unwrap_or_default().to_owned();
            self.findings.errors.push(line);
        }
        self.hints.extend(failure.hints().iter().cloned());
    }

    /// Writes the report as one JSON object.
    pub(super) fn json(&self) -> String {
        let found = &self.findings;
        let is_clean = found.warnings.is_empty() && found.unchecked.is_empty();
        let report = ReportJson {
            verdict: match (found.errors.is_empty(), is_clean) {
                (false, _) => "faults",
                (true, false) => "warnings",
                (true, true) => "ok",
            },
            models: &self.rows,
            errors: &found.errors,
            warnings: &found.warnings,
            unchecked: &found.unchecked,
            hint: (!self.hints.is_empty()).then(|| self.hints.join("; ")),
        };
        serde_json::to_string(&report).expect("texts and numbers have a JSON form")
    }

    /// Draws the servables as a table, with a column for the kind unless all are models.
    pub(super) fn table(&self, look: Look) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let has_kinds = self.rows.iter().any(|row| row.kind != Kind::Model);
        let (versions, state) = (("versions", Align::Left), ("state", Align::Left));
        let mut table = match has_kinds {
            true => Table::new(&[
                ("name", Align::Left),
                ("kind", Align::Left),
                versions,
                state,
            ]),
            false => Table::new(&[("model", Align::Left), versions, state]),
        };
        for row in &self.rows {
            let versions: Vec<String> = row.versions.iter().map(i64::to_string).collect();
            let versions = match versions.join(", ") {
                none if none.is_empty() => NOTHING.to_owned(),
                versions => versions,
            };
            let (name, state) = (row.name.clone(), row.state.to_owned());
            match has_kinds {
                true => table.row([name, row.kind.name().to_owned(), versions, state]),
                false => table.row([name, versions, state]),
            };
        }
        table.draw(look)
    }

    /// Returns a failure if there are errors, warnings, or unchecked parts.
    pub(super) fn end(self) -> Result<(), Failure> {
        let found = self.findings;
        let (errors, warnings) = (found.errors.len(), found.warnings.len());
        let unchecked = match found.unchecked.len() {
            0 => None,
            number => Some(ui::counted(number, "thing")),
        };
        let numbers = [(errors, "error"), (warnings, "warning")]
            .into_iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, what)| ui::counted(number, what))
            .collect::<Vec<_>>()
            .join(" and ");
        let text = match (numbers.is_empty(), unchecked) {
            (true, None) => return Ok(()),
            (true, Some(things)) => {
                format!("no error was found, but {things} could not be checked")
            }
            (false, None) => format!("the check found {numbers}"),
            (false, Some(things)) => {
                format!("the check found {numbers}; {things} could not be checked")
            }
        };
        let kind = match errors {
            0 => FailureKind::Warnings,
            _ => FailureKind::Failed,
        };
        let reported = [
            ("error", found.errors),
            ("warning", found.warnings),
            ("not checked", found.unchecked),
        ];
        let reported = reported.into_iter();
        let lines = reported.flat_map(|(what, lines)| {
            let lines = lines.into_iter();
            lines.map(move |line| format!("{what}: {line}"))
        });
        let failure = lines.fold(Failure::new(kind, text), Failure::detail);
        Err(self.hints.into_iter().fold(failure, Failure::hint))
    }
}
