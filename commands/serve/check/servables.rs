//! Checks of everything in a configuration: its models and those defined by graphs, libraries, pipelines
//! and graphs.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use ovms::{
    config::{
        self, Defaults, FileConfig, FileError, ModelConfig, ModelEntry, NodeKind, PipelineConfig,
        VersionPolicy,
    },
    diagnostic::{Diagnostics, FilePosition},
    error::chain,
    model::{Ignored, Reason, repository, storage, wanted},
    openvino::check_cache,
    pipeline::{CustomError, python::is_handler, survey},
};

use super::{ERROR, GOOD, NOT_CHECKED, Report};
use crate::{
    check::report::CheckedKind,
    graph::{self, check::Depth},
    pipeline::{
        self as pipelines,
        facts::{ConfigurationFacts, REPORTED, Reported, VersionLookup},
    },
};

impl Report {
    /// Reads the models that graphs define in files of their own. Returns the configuration with those
    /// whose names are free at its end, and the file of each of them.
    pub(super) fn subconfigs(
        &mut self,
        file: &FileConfig,
        defaults: &Defaults,
    ) -> (FileConfig, Vec<String>) {
        let mut with_more = file.clone();
        let mut origins = Vec::new();
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
                let name = entry.name();
                let models = with_more.models.iter().map(ModelEntry::name);
                let pipelines = file.pipelines.iter().map(|pipeline| &*pipeline.name);
                let graphs = file.graphs.iter().map(|graph| &*graph.name);
                if models
                    .chain(pipelines)
                    .chain(graphs)
                    .any(|other| other == name)
                {
                    self.findings.warnings.push(format!(
                        "{shown}: the model `{name}` is left out, since its name is taken; the \
                         first counts"
                    ));
                    continue;
                }
                origins.push(shown.clone());
                with_more.models.push(entry);
            }
        }
        (with_more, origins)
    }

    /// Adds the errors of a file that cannot be read or parsed.
    pub(super) fn unread(&mut self, path: &str, error: &FileError) {
        let found = &mut self.findings.errors;
        let errors = error.errors().iter();
        found.extend(errors.map(|error| format!("{path}:{error}")));
        match error {
            FileError::Read { source, .. } => {
                found.push(format!(
                    "{path}: cannot read the configuration file: {source}"
                ));
            }
            FileError::Schema {
                more: more @ 1.., ..
            } => found.push(format!("{path}: and {more} more")),
            FileError::Schema { .. } | FileError::Syntax { .. } => {}
        }
    }

    /// Checks everything in a configuration. Handlers use the packages of an environment; the last
    /// models are from the files `origins`, the others from `path`, if they are from a file; `at` writes
    /// a position in the configuration.
    pub(super) fn servables(
        &mut self,
        file: &FileConfig,
        origins: &[String],
        environment: Option<PathBuf>,
        path: &str,
        at: impl Fn(&FilePosition) -> String,
    ) {
        graph::environment(environment);
        let mut facts = ConfigurationFacts::new(file);
        facts.is_of_all = true;
        facts.runs_custom_nodes = !self.is_syntax;
        facts.reads_models = !self.is_syntax;
        let own = file.models.len() - origins.len();
        for (index, entry) in file.models.iter().enumerate() {
            let from = index.checked_sub(own).and_then(|more| origins.get(more));
            self.entry(entry, from.map_or(path, String::as_str), &facts);
        }
        let unread = std::mem::take(&mut self.unread);
        let unread = unread.into_iter().map(|(reason, names)| {
            let models = if names.len() == 1 { "model" } else { "models" };
            format!("{models} `{}`: {reason}", names.join("`, `"))
        });
        self.findings.unchecked.extend(unread);
        if !self.is_syntax {
            self.libraries(file, path, &facts);
        }
        for pipeline in &file.pipelines {
            let of = format!("the custom nodes of pipeline `{}`", pipeline.name);
            let watched = self.limit.of_pipelines(of);
            let (findings, is_whole) = of_pipeline(pipeline, &facts, self.is_syntax, path);
            drop(watched);
            self.add(CheckedKind::Pipeline, &pipeline.name, findings, is_whole);
        }
        if facts.lacks_runtime() {
            let hint = "run `ovms setup` for a runtime, which models are read with";
            self.hints.push(hint.to_owned());
        }
        let depth = match self.is_syntax {
            true => Depth::Nothing,
            false => Depth::Import,
        };
        for graph in &file.graphs {
            let of = format!("the handlers of graph `{}`", graph.name);
            let watched = self.limit.of_graphs(of);
            let checked = graph::check::checked(graph, Some(file), depth);
            let mut findings = checked.lines(&at(&graph.place));
            drop(watched);
            if let Err(error) = config::read_subconfig(&graph.subconfig, &Defaults::default()) {
                // It has been reported, and in more detail.
                let error = chain(&error);
                findings.unchecked.retain(|text| !text.ends_with(&error));
            }
            if self.is_syntax {
                findings.unchecked.clear();
            }
            self.add(CheckedKind::Graph, &graph.name, findings, true);
        }
    }

    /// Opens the libraries of custom nodes, and imports unused handlers among them: used ones are
    /// imported with their nodes.
    fn libraries(&mut self, file: &FileConfig, path: &str, facts: &ConfigurationFacts<'_>) {
        let mut seen = BTreeSet::new();
        let names = file.custom_node_libraries.iter().map(|it| &it.name);
        for name in names.filter(|name| seen.insert(*name)) {
            // Of two with one name the later one counts.
            let Some(library) = facts.path(name) else {
                continue;
            };
            let watched = self.limit.of_pipelines(format!("the library `{name}`"));
            let opened = match is_handler(library) {
                true if is_used(file, name) => Ok(()),
                true => facts.import(name, library),
                false => facts.library(name, library).map(drop),
            };
            drop(watched);
            if let Err(error) = opened {
                let reason = match error {
                    CustomError::NotOpen(reason) | CustomError::Handler(reason) => reason,
                    _ => "it does not open".to_owned(),
                };
                facts.report(Reported::Library(name.clone()));
                self.findings.errors.push(format!(
                    "{path}: custom_node_library_config_list: library `{name}`: {reason}"
                ));
            }
        }
    }

    /// Adds the results of a servable.
    fn add(&mut self, kind: CheckedKind, name: &str, found: Diagnostics<String>, is_whole: bool) {
        let is_whole = is_whole && found.unchecked.is_empty();
        let (versions, state) = match (found.errors.is_empty(), is_whole) {
            (false, _) => (Vec::new(), ERROR),
            (true, false) => (vec![1], NOT_CHECKED),
            (true, true) => (vec![1], GOOD),
        };
        self.row(kind, name, versions, state);
        self.findings.append(found);
    }
}

/// Checks a pipeline. The second value is false if results were left out because their cause has been
/// reported elsewhere.
fn of_pipeline(
    pipeline: &PipelineConfig,
    facts: &ConfigurationFacts<'_>,
    is_syntax: bool,
    file: &str,
) -> (Diagnostics<String>, bool) {
    let mut found = survey(pipeline, facts);
    // Parts left unchecked because of an error need no message of their own.
    let unchecked = &mut found.unchecked;
    unchecked.retain(|it| it.rule.is_some() && !is_syntax);
    let all = unchecked.len();
    unchecked.retain(|it| it.message.to_string() != REPORTED);
    let is_whole = unchecked.len() == all;
    let checked = pipelines::check::checked(file, &pipeline.name, found, "");
    (checked.lines(file), is_whole)
}

/// Returns whether a node of a pipeline uses a library.
fn is_used(file: &FileConfig, library: &str) -> bool {
    let mut nodes = file.pipelines.iter().flat_map(|pipeline| &pipeline.nodes);
    nodes.any(|node| {
        matches!(&node.kind, NodeKind::Custom { library_name, .. } if library_name == library)
    })
}

/// State in the table of a model that was left to the server.
const NOT_LOOKED_AT: &str = "not looked at";

impl Report {
    /// Checks the folders of a model. Results begin with `origin`.
    pub(super) fn model(
        &mut self,
        model: &ModelConfig,
        origin: &str,
        facts: &ConfigurationFacts<'_>,
    ) {
        let of = format!("{origin}model `{}`", model.name);
        let (versions, state) = self.versions(model, &of, facts);
        self.row(CheckedKind::Model, &model.name, versions, state);
    }

    /// Checks the versions of a model. Returns those to be served, and the state.
    fn versions(
        &mut self,
        model: &ModelConfig,
        of: &str,
        facts: &ConfigurationFacts<'_>,
    ) -> (Vec<i64>, &'static str) {
        let none = Vec::new();
        if self.is_syntax {
            return (none, NOT_LOOKED_AT);
        }
        let base_path = &model.base_path;
        if storage::is_remote(base_path) {
            // It is for the server to fetch.
            let text = format!("{of}: {base_path} is looked at by the server alone");
            self.findings.unchecked.push(text);
            return (none, NOT_LOOKED_AT);
        }
        let survey = match repository::survey(Path::new(base_path)) {
            Ok(survey) => survey,
            Err(error) => {
                self.findings.errors.push(format!("{of}: {error}"));
                return (none, ERROR);
            }
        };
        let warnings = &mut self.findings.warnings;
        // Other names say nothing of versions, such as that of `lost+found`.
        let numbered =
            |folder: &&Ignored| folder.number().is_some() || folder.reason == Reason::Beside;
        for folder in survey.ignored.iter().filter(numbered) {
            let place = Path::new(base_path).join(&folder.name);
            warnings.push(format!("{of}: {}: {folder}", place.display()));
        }
        let existing = survey.versions;
        let numbers: Vec<i64> = existing.iter().map(|(number, _)| *number).collect();
        if let VersionPolicy::Specific(named) = &model.policy {
            for version in named.iter().filter(|number| !numbers.contains(number)) {
                warnings.push(format!(
                    "{of}: there is no version {version}, which model_version_policy names"
                ));
            }
        }
        let chosen = wanted::choose(&model.policy, &numbers);
        if chosen.is_empty() {
            warnings.push(format!("{of}: there is no version to serve in {base_path}"));
            return (none, "empty");
        }
        if let Some(cache) = &model.load.cache_dir
            && let Err(error) = check_cache(cache)
        {
            let cache = cache.display();
            self.warn(format!(
                "cannot use the cache folder {cache}: {error}; models are compiled at each start"
            ));
        }
        let mut state = GOOD;
        // What all versions have in common, such as a device that is not there, is one error.
        let mut errors: Vec<(String, Vec<String>)> = Vec::new();
        let served = existing
            .iter()
            .filter(|(number, _)| chosen.contains(number));
        let served: Vec<_> = served.collect();
        for (number, folder) in &served {
            match facts.looked(model, *number, folder) {
                VersionLookup::Info(inspected) => {
                    for warning in inspected.warnings {
                        self.warn(format!("{of}, version {number}: {warning}"));
                    }
                }
                VersionLookup::Error(reason, hint) => {
                    state = ERROR;
                    match errors.iter_mut().find(|(known, _)| *known == reason) {
                        Some((_, numbers)) => numbers.push(number.to_string()),
                        None => errors.push((reason, vec![number.to_string()])),
                    }
                    let is_new = |hint: &String| !self.hints.contains(hint);
                    self.hints.extend(hint.filter(is_new));
                }
                VersionLookup::Unknown(reason) => {
                    if state == GOOD {
                        state = NOT_CHECKED;
                    }
                    let names = self.unread.entry(reason).or_default();
                    if !names.contains(&model.name) {
                        names.push(model.name.clone());
                    }
                }
            }
        }
        for (reason, numbers) in errors {
            let plural = if numbers.len() == 1 { "" } else { "s" };
            let text = format!("{of}, version{plural} {}: {reason}", numbers.join(", "));
            self.findings.errors.push(text);
        }
        (served.iter().map(|(number, _)| *number).collect(), state)
    }

    /// Adds a warning, once.
    fn warn(&mut self, warning: String) {
        if !self.findings.warnings.contains(&warning) {
            self.findings.warnings.push(warning);
        }
    }
}
