//! `ovms serve --check`: flags, configuration file, model folders, pipelines and graphs, without
//! serving.
//!
//! Of pipelines and graphs it finds what `ovms pipeline check` and `ovms graph check` find: models of
//! pipelines are read if there is a runtime, custom nodes of libraries are made and asked for their
//! inputs and outputs, and handlers are imported. No object of a handler is made. What takes longer than a
//! server would wait for it ends the check.

mod limit;
mod model;
mod page;
mod servables;

use std::path::{Path, PathBuf};

use ovms::{
    config::{self, Config, Defaults, EntryFault, ModelEntry, Source},
    metrics::Metrics,
    python,
};

use serde::Serialize;

use self::limit::Limit;
use super::files;
use crate::{
    counts::Findings,
    error::Failure,
    graph,
    pipeline::aside::Aside,
    ui::{Look, Output},
};

/// What has been found.
#[derive(Debug, Default)]
struct Report {
    /// Name, versions and state of whatever can be served.
    rows: Vec<Row>,
    findings: Findings,
    limit: Limit,
    /// What to do next.
    hints: Vec<String>,
}

/// One model, pipeline or graph.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    kind: Kind,
    versions: Vec<i64>,
    state: &'static str,
}

/// What can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Model,
    Pipeline,
    Graph,
}

/// What something that can be served is called in the table.
const GOOD: &str = "ok";

/// What it is called if anything is wrong with it.
const FAULT: &str = "fault";

/// What it is called if its entry is refused.
const REFUSED: &str = "refused";

/// Checks what accepted flags lead to, prints a table of what they serve, and what is wrong.
pub(super) fn run(mut config: Config, output: Output) -> Result<(), Failure> {
    let look = Look::of_stdout();
    // Libraries and handlers may print.
    let mut stdout = Aside::take()?;
    let mut report = Report::default();
    report.findings.warnings.append(&mut config.warnings);
    let environment = config.settings.python.environment.clone();
    match config.source.clone() {
        Source::Model(model) => report.model(&model, ""),
        Source::Graph { graph, defaults } => {
            let origin = graph.graph_path.display().to_string();
            let file = config::FileConfig {
                graphs: vec![*graph],
                ..config::FileConfig::default()
            };
            report.limit.set(&defaults);
            let file = report.subconfigs(&file, &defaults);
            report.servables(&file, environment, |_| origin.clone());
        }
        Source::File { path, defaults } => {
            let file = config::read(&path, &defaults)
                .map_err(|error| files::explain(&error, "--config_path"))?;
            report.file(&path, &file, &defaults, environment);
            let ports = config.settings.port.or(config.settings.rest_port).is_some();
            match config.add_monitoring(&file) {
                Err(config::FlagError::FileMetricsWithoutPort) if !ports => {}
                Err(error) => report.findings.faults.push(error.to_string()),
                Ok(()) => {}
            }
        }
    }
    let metrics = &config.settings.metrics;
    if let Err(error) = Metrics::new(metrics.enable, metrics.families.as_deref()) {
        report.findings.faults.push(error.to_string());
    }
    match output {
        Output::Json => stdout.print(&(report.json() + "\n"))?,
        Output::Table => stdout.print(&report.table(look))?,
    }
    python::stop(graph::LIMIT);
    report.end()
}

impl Report {
    fn file(
        &mut self,
        path: &Path,
        file: &config::FileConfig,
        defaults: &Defaults,
        environment: Option<PathBuf>,
    ) {
        let path = path.display();
        for entry in &file.models {
            self.entry(entry, &path.to_string());
        }
        self.limit.set(defaults);
        let with_more = self.subconfigs(file, defaults);
        self.servables(&with_more, environment, |place| format!("{path}:{place}"));
        for entry in &file.refused {
            let kind = match entry.reason {
                EntryFault::PipelineName => Kind::Pipeline,
                _ => Kind::Graph,
            };
            self.row(kind, &entry.name, Vec::new(), REFUSED);
            let fault = format!("{path}:{}: {}", entry.place, entry.reason);
            self.findings.faults.push(fault);
        }
        for warning in &file.warnings {
            self.findings.warnings.push(format!("{path}:{warning}"));
        }
        let shows = |kind: Kind| {
            let mut rows = self.rows.iter();
            rows.any(|row| row.kind == kind && row.state == FAULT)
        };
        let commands = [(Kind::Pipeline, "pipeline"), (Kind::Graph, "graph")];
        let commands = commands.into_iter().filter(|(kind, _)| shows(*kind));
        let commands = commands.map(|(_, name)| format!("`ovms {name} check {path}`"));
        let commands: Vec<String> = commands.collect();
        if !commands.is_empty() {
            let verb = if commands.len() == 1 { "shows" } else { "show" };
            let commands = commands.join(" and ");
            let hint = format!("{commands} {verb} the lines that are meant");
            self.hints.push(hint);
        }
    }

    /// Looks at an entry of a list of models, in a file.
    fn entry(&mut self, entry: &ModelEntry, file: &str) {
        match entry {
            ModelEntry::Model(model) => self.model(model, &format!("{file}: ")),
            ModelEntry::Refused {
                name,
                reason,
                place,
            } => {
                self.row(Kind::Model, name, Vec::new(), REFUSED);
                let fault = format!("{file}:{place}: {reason}");
                self.findings.faults.push(fault);
            }
        }
    }

    fn row(&mut self, kind: Kind, name: &str, versions: Vec<i64>, state: &'static str) {
        self.rows.push(Row {
            name: name.to_owned(),
            kind,
            versions,
            state,
        });
    }
}
