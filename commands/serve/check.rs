//! `ovms serve --check`: flags, configuration file and model folders, without serving and without
//! a runtime.

use std::path::Path;

use ovms::{
    config::{
        self, Config, EntryFault, GraphConfig, ModelConfig, ModelEntry, Source, VersionPolicy,
    },
    error::chain,
    graph::{self, GraphSource},
    metrics::Metrics,
    model::{Ignored, mapping, repository, storage, wanted},
};

use serde::Serialize;

use super::files;
use crate::{
    error::{Failure, FailureKind},
    ui::{self, Align, Look, NOTHING, Output, Table},
};

/// What has been found.
#[derive(Debug, Default)]
struct Report {
    /// Name, versions and state of each model.
    rows: Vec<Row>,
    faults: Vec<String>,
    warnings: Vec<String>,
    /// What is not looked at here, and where it is.
    hint: Option<String>,
}

/// One model.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    versions: Vec<i64>,
    state: &'static str,
}

/// What has been found, as programs read it; the fields stand in this order.
#[derive(Debug, Serialize)]
struct ReportJson<'a> {
    verdict: &'static str,
    models: &'a [Row],
    faults: &'a [String],
    warnings: &'a [String],
    hint: Option<&'a str>,
}

/// What a model that can be served is called in the table.
const GOOD: &str = "ok";

/// Checks what accepted flags lead to, prints a table of the models, and what is wrong.
pub(super) fn run(mut config: Config, output: Output) -> Result<(), Failure> {
    let mut report = Report::default();
    report.warnings.append(&mut config.warnings);
    match config.source.clone() {
        Source::Model(model) => report.model(&model, ""),
        Source::Graph { graph, .. } => report.graph(&graph, ""),
        Source::File { path, defaults } => {
            let file = config::read(&path, &defaults)
                .map_err(|error| files::explain(&error, "--config_path"))?;
            report.file(&path, &file);
            let ports = config.settings.port.or(config.settings.rest_port).is_some();
            match config.add_monitoring(&file) {
                Err(config::FlagError::FileMetricsWithoutPort) if !ports => {}
                Err(error) => report.faults.push(error.to_string()),
                Ok(()) => {}
            }
        }
    }
    let metrics = &config.settings.metrics;
    if let Err(error) = Metrics::new(metrics.enable, metrics.families.as_deref()) {
        report.faults.push(error.to_string());
    }
    report.print(output)
}

impl Report {
    fn file(&mut self, path: &Path, file: &config::FileConfig) {
        let path = path.display();
        let named = &file.refused;
        let clash = |refused: &config::Refused| refused.reason == EntryFault::PipelineName;
        if !file.pipelines.is_empty() || named.iter().any(clash) {
            self.hint = Some(format!("`ovms pipeline check {path}` checks its pipelines"));
        }
        for entry in &file.models {
            match entry {
                ModelEntry::Model(model) => self.model(model, &format!("{path}: ")),
                ModelEntry::Refused {
                    name,
                    reason,
                    place,
                } => {
                    self.row(name, Vec::new(), "refused");
                    self.faults.push(format!("{path}:{place}: {reason}"));
                }
            }
        }
        for graph in &file.graphs {
            self.graph(graph, &format!("{path}: "));
        }
        for entry in &file.refused {
            self.row(&entry.name, Vec::new(), "refused");
            let fault = format!("{path}:{}: {}", entry.place, entry.reason);
            self.faults.push(fault);
        }
        for warning in &file.warnings {
            self.warnings.push(format!("{path}:{warning}"));
        }
    }

    /// Looks at the folders of a model. What is said of it begins with `origin`.
    fn model(&mut self, model: &ModelConfig, origin: &str) {
        let name = &model.name;
        if storage::is_remote(&model.base_path) {
            // It is for the server to fetch.
            self.row(name, Vec::new(), "not looked at");
            return;
        }
        let survey = match repository::survey(Path::new(&model.base_path)) {
            Ok(survey) => survey,
            Err(error) => {
                self.row(name, Vec::new(), "fault");
                self.faults.push(format!("{origin}model `{name}`: {error}"));
                return;
            }
        };
        // Other names say nothing of versions, such as that of `lost+found`.
        let numbered = |folder: &&Ignored| folder.number().is_some();
        for folder in survey.ignored.iter().filter(numbered) {
            let place = Path::new(&model.base_path).join(&folder.name);
            self.warnings.push(format!(
                "{origin}model `{name}`: {}: {folder}",
                place.display()
            ));
        }
        let existing = survey.versions;
        let numbers: Vec<i64> = existing.iter().map(|(number, _)| *number).collect();
        if let VersionPolicy::Specific(named) = &model.policy {
            for version in named.iter().filter(|number| !numbers.contains(number)) {
                self.warnings.push(format!(
                    "{origin}model `{name}`: there is no version {version}, which \
                     model_version_policy names"
                ));
            }
        }
        let chosen = wanted::choose(&model.policy, &numbers);
        if chosen.is_empty() {
            self.row(name, Vec::new(), "empty");
            self.warnings.push(format!(
                "{origin}model `{name}`: there is no version to serve in {}{}",
                model.base_path,
                if repository::files(Path::new(&model.base_path)).is_ok() {
                    "; its files belong into a folder 1 there"
                } else {
                    ""
                }
            ));
            return;
        }
        let mut state: &'static str = GOOD;
        let chosen = |(number, _): &&(i64, _)| chosen.contains(number);
        for (number, folder) in existing.iter().filter(chosen) {
            let mut fault = |fault: String| {
                state = "fault";
                self.faults
                    .push(format!("{origin}model `{name}`, version {number}: {fault}"));
            };
            if let Err(error) = repository::files(folder) {
                fault(chain(&error));
            }
            if let Err(error) = mapping::read(folder) {
                let path = mapping::path(folder);
                fault(format!("{}: {}", path.display(), chain(&error)));
            }
        }
        let numbers = existing.iter().filter(chosen).map(|(number, _)| *number);
        let numbers = numbers.collect();
        self.row(name, numbers, state);
    }

    /// Looks at the file of a graph. What is said of it begins with `origin`.
    fn graph(&mut self, graph: &GraphConfig, origin: &str) {
        let name = &graph.name;
        let source = GraphSource {
            name: name.clone(),
            base_path: graph.base_path.clone(),
            graph_path: graph.graph_path.clone(),
        };
        if let Err(fault) = graph::examine(&source) {
            self.row(name, Vec::new(), "fault");
            let told = if fault.log.is_empty() {
                fault.status
            } else {
                fault.log.join("; ")
            };
            self.faults.push(format!("{origin}graph `{name}`: {told}"));
            return;
        }
        self.row(name, vec![1], GOOD);
    }

    fn row(&mut self, name: &str, versions: Vec<i64>, state: &'static str) {
        self.rows.push(Row {
            name: name.to_owned(),
            versions,
            state,
        });
    }

    fn json(&self) -> String {
        let report = ReportJson {
            verdict: match (self.faults.is_empty(), self.warnings.is_empty()) {
                (false, _) => "faults",
                (true, false) => "warnings",
                (true, true) => "ok",
            },
            models: &self.rows,
            faults: &self.faults,
            warnings: &self.warnings,
            hint: self.hint.as_deref(),
        };
        serde_json::to_string(&report).expect("texts and numbers have a JSON form")
    }

    /// Prints the table to stdout; faults and warnings become the end of the command.
    fn print(self, output: Output) -> Result<(), Failure> {
        if output == Output::Json {
            ui::print(self.json() + "\n")?;
        } else if !self.rows.is_empty() {
            let mut table = Table::new(&[
                ("model", Align::Left),
                ("versions", Align::Left),
                ("state", Align::Left),
            ]);
            for row in &self.rows {
                let versions: Vec<String> = row.versions.iter().map(i64::to_string).collect();
                let versions = match versions.join(", ") {
                    none if none.is_empty() => NOTHING.to_owned(),
                    versions => versions,
                };
                table.row([row.name.clone(), versions, row.state.to_owned()]);
            }
            ui::print(table.draw(Look::of_stdout()))?;
        }
        let (faults, warnings) = (self.faults.len(), self.warnings.len());
        let numbers = [(faults, "fault"), (warnings, "warning")]
            .into_iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, what)| ui::counted(number, what))
            .collect::<Vec<_>>()
            .join(" and ");
        let mut failure = match (faults, warnings) {
            (0, 0) => {
                if let Some(hint) = self.hint {
                    ui::warn(&format!("hint: {hint}"));
                }
                return Ok(());
            }
            (0, _) => Failure::new(FailureKind::Warnings, format!("the check found {numbers}")),
            _ => Failure::new(FailureKind::Failed, format!("the check found {numbers}")),
        };
        for fault in self.faults {
            failure = failure.detail(format!("fault: {fault}"));
        }
        for warning in self.warnings {
            failure = failure.detail(format!("warning: {warning}"));
        }
        if let Some(hint) = self.hint {
            failure = failure.hint(hint);
        }
        Err(failure)
    }
}
