//! Output of the results.

use std::ffi::OsString;

use ovms::diagnostic::Diagnostics;
use serde::Serialize;

use super::{Report, Row};
use crate::{
    check::{
        counts::Counts,
        report::{CheckVerdict, CheckedKind},
    },
    error::Failure,
    ui::{Look, NOTHING, Table},
};

/// JSON form of the results; the fields are in output order.
#[derive(Debug, Serialize)]
struct ReportJson<'a> {
    verdict: CheckVerdict,
    models: &'a [Row],
    #[serde(flatten)]
    findings: &'a Diagnostics<String>,
    hint: Option<String>,
}

/// Returns the document of an aborted check.
pub(crate) fn of_failure(failure: &Failure) -> String {
    let mut report = Report::default();
    report.add_failure(failure);
    report.json()
}

/// Returns whether flags that could not be parsed ask for the document of a check.
pub(crate) fn is_asked(flags: &[OsString]) -> bool {
    let checks = |flag: &OsString| {
        let flag = flag.to_string_lossy();
        flag == "--check" || flag.starts_with("--check=")
    };
    let is_json = |pair: &[OsString]| pair[0] == "--output" && pair[1] == "json";
    let is_json = flags.iter().any(|flag| flag == "--output=json") || flags.windows(2).any(is_json);
    is_json && flags.iter().any(checks)
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
        let counts = Counts::from(&self.findings);
        let report = ReportJson {
            verdict: CheckVerdict::of(CheckedKind::Model, counts),
            models: &self.rows,
            findings: &self.findings,
            hint: (!self.hints.is_empty()).then(|| self.hints.join("; ")),
        };
        serde_json::to_string(&report).expect("texts and numbers have a JSON form") + "\n"
    }

    /// Draws the servables as a table, with a column for the kind unless all are models.
    pub(super) fn table(&self, look: Look) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let has_kinds = self.rows.iter().any(|row| row.kind != CheckedKind::Model);
        let mut table = match has_kinds {
            true => Table::new().left(["name", "kind", "versions", "state"]),
            false => Table::new().left(["model", "versions", "state"]),
        };
        for row in &self.rows {
            let versions: Vec<String> = row.versions.iter().map(i64::to_string).collect();
            let versions = match versions.join(", ") {
                none if none.is_empty() => NOTHING.to_owned(),
                versions => versions,
            };
            let kind = has_kinds.then(|| row.kind.name().to_owned());
            let rest = [versions, row.state.to_owned()];
            table.row([row.name.clone()].into_iter().chain(kind).chain(rest));
        }
        table.draw(look)
    }

    /// Returns a failure if there are errors, warnings, or unchecked parts.
    pub(super) fn end(self) -> Result<(), Failure> {
        let found = self.findings;
        let counts = Counts::from(&found);
        let failure = match CheckVerdict::of(CheckedKind::Model, counts) {
            CheckVerdict::Ok => return Ok(()),
            CheckVerdict::Errors => Failure::failed(format!("the check found {counts}")),
            _ => counts.without_errors(),
        };
        let reported = [
            ("error", found.errors),
            ("warning", found.warnings),
            ("not checked", found.unchecked),
        ];
        let lines = reported.into_iter().flat_map(|(what, lines)| {
            let lines = lines.into_iter();
            lines.map(move |line| format!("{what}: {line}"))
        });
        let failure = lines.fold(failure, Failure::detail);
        Err(self.hints.into_iter().fold(failure, Failure::hint))
    }
}
