//! `ovms serve --check`: flags, configuration file, models, pipelines and graphs, without serving.
//!
//! A check opens everything that a server would load: it reads models and queries their devices for
//! the properties, opens libraries, creates custom nodes and queries their inputs and outputs, and
//! imports handlers. It compiles nothing, and creates no object of a handler. Code that takes longer
//! than a server would wait for it ends the check. `--check=syntax` opens nothing: it reads the flags,
//! the configuration file, and the graph files.

mod limit;
mod model;
mod page;
mod servables;

pub(crate) use page::{is_asked, of_failure};

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use ovms::{
    config::{
        self, CheckDepth, Config, ConfigSource, Defaults, EntryError, FileConfig, Flags,
        ModelEntry, RefusedEntry,
    },
    diagnostic::{Diagnostics, FilePosition},
    metrics::Metrics,
    python,
};

use serde::Serialize;

use self::limit::Limit;
use super::{environment, files, hints};
use crate::{
    check::report::CheckedKind,
    error::Failure,
    graph,
    pipeline::{
        aside::Aside,
        facts::{ConfigurationFacts, Reported},
    },
    places,
    ui::{Look, OutputFormat},
};

/// Results of a check.
#[derive(Debug, Default)]
struct Report {
    /// Name, versions and state of each servable.
    rows: Vec<Row>,
    findings: Diagnostics<String>,
    limit: Limit,
    /// Whether only the files themselves are checked, and nothing that they name.
    is_syntax: bool,
    /// Reasons for unread models, with their names.
    unread: BTreeMap<String, Vec<String>>,
    /// Next steps.
    hints: Vec<String>,
}

/// Model, pipeline or graph.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    kind: CheckedKind,
    versions: Vec<i64>,
    #[serde(serialize_with = "published")]
    state: &'static str,
}

/// State of a servable without errors in the table.
const GOOD: &str = "ok";

/// State of a servable with an error.
const ERROR: &str = "error";

/// Writes a state under its published name, which differs for [`ERROR`].
fn published<S: serde::Serializer>(state: &&'static str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(if *state == ERROR { "fault" } else { state })
}

/// State of a servable that was not fully checked.
const NOT_CHECKED: &str = "not checked";

/// State of a servable with a rejected entry.
const REFUSED: &str = "refused";

/// Checks the flags and everything they refer to, and prints a table of servables and all errors.
pub(super) fn run(flags: Flags, output: OutputFormat) -> Result<(), Failure> {
    let look = Look::of_stdout();
    // Libraries and handlers may print.
    let mut stdout = Aside::take()?;
    let mut report = Report {
        is_syntax: flags.check == CheckDepth::Syntax,
        ..Report::default()
    };
    let is_json = output == OutputFormat::Json;
    if is_json {
        report.limit.stdout = stdout.try_clone().ok();
    }
    if let Err(failure) = report.look(flags) {
        if is_json {
            report.add_failure(&failure);
            stdout.print(&report.json())?;
        }
        return Err(failure);
    }
    stdout.print(&match is_json {
        true => report.json(),
        false => report.table(look),
    })?;
    python::stop(graph::LIMIT);
    report.end()
}

impl Report {
    /// Checks everything that the flags name.
    fn look(&mut self, flags: Flags) -> Result<(), Failure> {
        let mut config =
            Config::from_flags(flags, &environment()).map_err(|error| hints::of_flags(&error))?;
        places::check_python(&config.settings.flags)?;
        self.findings.warnings.append(&mut config.warnings);
        let environment = config.settings.flags.python_environment.clone();
        match config.source.clone() {
            ConfigSource::Model(model) => {
                let mut file = FileConfig::default();
                file.models.push(ModelEntry::Model(model));
                self.servables(&file, &[], environment, "", |_| String::new());
            }
            ConfigSource::Graph { graph, defaults } => {
                let origin = graph.graph_path.display().to_string();
                let mut file = FileConfig::default();
                file.graphs.push(*graph);
                self.limit.flags = Arc::clone(&defaults.flags);
                let (file, origins) = self.subconfigs(&file, &defaults);
                self.servables(&file, &origins, environment, "", |_| origin.clone());
            }
            ConfigSource::File { path, defaults } => {
                let file = config::read(&path, &defaults).map_err(|error| {
                    self.unread(&path.display().to_string(), &error);
                    files::explain(&error, "--config_path")
                })?;
                self.file(&path, &file, &defaults, environment);
                let ports = config.settings.port.or(config.settings.rest_port).is_some();
                match config.add_monitoring(&file) {
                    Err(config::FlagError::FileMetricsWithoutPort) if !ports => {}
                    Err(error) => self.findings.errors.push(error.to_string()),
                    Ok(()) => {}
                }
            }
        }
        let metrics = &config.settings.metrics;
        if let Err(error) = Metrics::new(metrics.enable, metrics.families.as_deref()) {
            self.findings.errors.push(error.to_string());
        }
        Ok(())
    }

    fn file(
        &mut self,
        path: &Path,
        file: &FileConfig,
        defaults: &Defaults,
        environment: Option<PathBuf>,
    ) {
        let path = path.display().to_string();
        self.limit.flags = Arc::clone(&defaults.flags);
        let (with_more, origins) = self.subconfigs(file, defaults);
        let at = |place: &FilePosition| format!("{path}:{place}");
        self.servables(&with_more, &origins, environment, &path, at);
        for entry in &file.refused {
            let kind = match entry.reason {
                EntryError::PipelineName => CheckedKind::Pipeline,
                _ => CheckedKind::Graph,
            };
            self.row(kind, &entry.name, Vec::new(), REFUSED);
            let error = format!("{path}:{}: {}", entry.place, entry.reason);
            self.findings.errors.push(error);
        }
        let warnings = file.warnings.iter();
        self.findings
            .warnings
            .extend(warnings.map(|warning| format!("{path}:{warning}")));
        let has_errors = |kind: &CheckedKind| {
            let mut rows = self.rows.iter();
            rows.any(|row| row.kind == *kind && row.state == ERROR)
        };
        let kinds = [CheckedKind::Pipeline, CheckedKind::Graph].into_iter();
        let commands = kinds.filter(has_errors);
        let commands = commands.map(|kind| format!("`ovms {} check {path}`", kind.name()));
        let commands: Vec<String> = commands.collect();
        if !commands.is_empty() {
            let verb = if commands.len() == 1 { "shows" } else { "show" };
            let commands = commands.join(" and ");
            self.hints
                .push(format!("{commands} {verb} the lines that are meant"));
        }
    }

    /// Checks an entry of a list of models. Results begin with the file of the entry, if it is in one.
    fn entry(&mut self, entry: &ModelEntry, file: &str, facts: &ConfigurationFacts<'_>) {
        match entry {
            ModelEntry::Model(model) => {
                let origin = match file {
                    "" => String::new(),
                    file => format!("{file}: "),
                };
                let errors = self.findings.errors.len();
                self.model(model, &origin, facts);
                if self.findings.errors.len() > errors {
                    facts.report(Reported::Model(model.name.clone()));
                }
            }
            ModelEntry::Refused(RefusedEntry {
                name,
                reason,
                place,
            }) => {
                self.row(CheckedKind::Model, name, Vec::new(), REFUSED);
                self.findings
                    .errors
                    .push(format!("{file}:{place}: {reason}"));
                facts.report(Reported::Model(name.clone()));
            }
        }
    }

    fn row(&mut self, kind: CheckedKind, name: &str, versions: Vec<i64>, state: &'static str) {
        self.rows.push(Row {
            name: name.to_owned(),
            kind,
            versions,
            state,
        });
    }
}
