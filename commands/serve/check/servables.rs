//! Pipelines and graphs, and the models that graphs bring along.

use std::{collections::BTreeSet, path::PathBuf};

use ovms::{
    config::{self, Defaults, FileConfig, FileError, ModelEntry, PipelineConfig, Place},
    error::chain,
    pipeline::survey,
};

use super::{FAULT, GOOD, Kind, Report};
use crate::{
    counts::Findings,
    graph,
    pipeline::facts::{Facts, Options},
};

/// What a pipeline or graph is called in the table of which not everything could be looked at.
const NOT_CHECKED: &str = "not checked";

impl Report {
    /// Looks at the models that graphs bring along in files of their own. Returns the configuration with
    /// those of them whose names are free.
    pub(super) fn subconfigs(&mut self, file: &FileConfig, defaults: &Defaults) -> FileConfig {
        let mut with_more = file.clone();
        let mut seen = BTreeSet::new();
        let graphs = file.graphs.iter().map(|graph| &graph.subconfig);
        for path in graphs.filter(|path| seen.insert(*path)) {
            let shown = path.display().to_string();
            let own = match config::read_subconfig(path, defaults) {
                Ok(own) => own.unwrap_or_default(),
                Err(error) => {
                    self.unread(&shown, &error);
                    continue;
                }
            };
            for warning in &own.warnings {
                self.findings.warnings.push(format!("{shown}:{warning}"));
            }
            for entry in own.models {
                let name = name_of(&entry);
                let mut models = with_more.models.iter().map(name_of);
                let mut pipelines = file.pipelines.iter().map(|pipeline| &*pipeline.name);
                let mut graphs = file.graphs.iter().map(|graph| &*graph.name);
                let is_name = |other: &str| other == name;
                if models.any(is_name) || pipelines.any(is_name) || graphs.any(is_name) {
                    self.findings.warnings.push(format!(
                        "{shown}: the model `{name}` is left out, since its name is taken; the \
                         first counts"
                    ));
                    continue;
                }
                self.entry(&entry, &shown);
                with_more.models.push(entry);
            }
        }
        with_more
    }

    /// Tells why a file with models of a graph cannot be read.
    fn unread(&mut self, path: &str, error: &FileError) {
        let faults = error.faults().iter();
        let told = faults.map(|fault| format!("{path}:{fault}"));
        self.findings.faults.extend(told);
        match error {
            FileError::Read { source, .. } => {
                let fault = format!("{path}: {source}");
                self.findings.faults.push(fault);
            }
            FileError::Schema { more, .. } if *more > 0 => {
                self.findings
                    .faults
                    .push(format!("{path}: and {more} more"));
            }
            FileError::Schema { .. } | FileError::Syntax { .. } => {}
        }
    }

    /// Looks at the pipelines and graphs of a configuration. Handlers see the packages of an
    /// environment; `at` writes a place in the configuration.
    pub(super) fn servables(
        &mut self,
        file: &FileConfig,
        environment: Option<PathBuf>,
        at: impl Fn(&Place) -> String,
    ) {
        if file.pipelines.is_empty() && file.graphs.is_empty() {
            return;
        }
        graph::environment(environment);
        let facts = Facts::new(file, Options { custom_nodes: true }).importing();
        for pipeline in &file.pipelines {
            let of = format!("the custom nodes of pipeline `{}`", pipeline.name);
            let watched = self.limit.of_pipelines(of);
            let findings = of_pipeline(pipeline, &facts, &at);
            drop(watched);
            self.add(Kind::Pipeline, &pipeline.name, findings);
        }
        self.findings.warnings.extend(facts.notes());
        if facts.lacks_runtime() {
            self.hints.push(
                "run `ovms setup` for a runtime, which the models of pipelines are looked at with"
                    .to_owned(),
            );
        }
        for graph in &file.graphs {
            let of = format!("the handlers of graph `{}`", graph.name);
            let watched = self.limit.of_graphs(of);
            let mut findings = graph::check::findings(graph, file, &at(&graph.place));
            drop(watched);
            if let Err(error) = config::read_subconfig(&graph.subconfig, &Defaults::default()) {
                // It has been told, and in more detail.
                let error = chain(&error);
                findings.unchecked.retain(|text| !text.ends_with(&error));
            }
            self.add(Kind::Graph, &graph.name, findings);
        }
    }

    /// Adds what was found of something.
    fn add(&mut self, kind: Kind, name: &str, mut found: Findings) {
        let (versions, state) = match (found.faults.is_empty(), found.unchecked.is_empty()) {
            (false, _) => (Vec::new(), FAULT),
            (true, false) => (vec![1], NOT_CHECKED),
            (true, true) => (vec![1], GOOD),
        };
        self.row(kind, name, versions, state);
        let all = &mut self.findings;
        all.faults.append(&mut found.faults);
        all.warnings.append(&mut found.warnings);
        all.unchecked.append(&mut found.unchecked);
    }
}

/// Looks at a pipeline.
fn of_pipeline(
    pipeline: &PipelineConfig,
    facts: &Facts<'_>,
    at: impl Fn(&Place) -> String,
) -> Findings {
    let survey = survey(pipeline, facts);
    let line = |place: &Place, node: Option<&str>, text: String| {
        let node = node.map_or_else(String::new, |node| format!(", node `{node}`"));
        format!("{}: pipeline `{}`{node}: {text}", at(place), pipeline.name)
    };
    let faults = survey.faults.iter().map(|fault| {
        let text = format!(
            "{} - found {}; expected {}; {}",
            fault.rule.status(),
            fault.found,
            fault.expected,
            fault.next
        );
        line(&fault.place, fault.node.as_deref(), text)
    });
    let warnings = survey.warnings.iter();
    let warnings = warnings.map(|warning| line(&warning.place, None, warning.text.clone()));
    // What is not judged because of a fault needs no word beside it.
    let unchecked = survey.unchecked.iter().filter(|it| it.rule.is_some());
    let unchecked = unchecked.map(|it| line(&it.place, Some(&it.node), it.reason.clone()));
    Findings {
        faults: faults.collect(),
        warnings: warnings.collect(),
        unchecked: unchecked.collect(),
    }
}

fn name_of(entry: &ModelEntry) -> &str {
    match entry {
        ModelEntry::Model(model) => &model.name,
        ModelEntry::Refused { name, .. } => name,
    }
}
