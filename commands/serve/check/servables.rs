//! Checks of everything in a configuration: its models and those defined by graphs, libraries, pipelines
//! and graphs.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use ovms::{
    config::{
        self, Defaults, FileConfig, FileError, ModelConfig, NodeKind, PipelineConfig, VersionPolicy,
    },
    diagnostic::{Diagnostic, Diagnostics, FilePosition, Severity},
    engine::reload::{contradicted_triton_settings, ignored_triton_settings},
    error::chain,
    model::{Ignored, Reason, not_stored, repository, storage, wanted, warmup},
    openvino::{StateMode, check_cache},
    pipeline::{CustomError, python::is_handler, survey},
};

use super::{ERROR, GOOD, NOT_CHECKED, Report, finding::ServeFinding};
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
                self.record(ServeFinding::in_file(&shown, warning.clone()));
            }
            for entry in own.models {
                let name = entry.name();
                if graph::source::has(&with_more, name) {
                    let text = format!(
                        "{shown}: the model `{name}` is skipped, since its name is taken; the first one is used"
                    );
                    let warning = ServeFinding::text(Severity::Warning, text).file(&shown);
                    self.record(warning.about(CheckedKind::Model, name));
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
        for error in error.errors() {
            self.record(ServeFinding::in_file(path, error.clone()));
        }
        let text = match error {
            FileError::Read { source, .. } => {
                format!("{path}: cannot read the configuration file: {source}")
            }
            FileError::Schema {
                more: more @ 1.., ..
            } => format!("{path}: and {more} more"),
            FileError::Schema { .. } | FileError::Syntax { .. } => return,
        };
        self.record(ServeFinding::text(Severity::Error, text).file(path));
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
        graph::environment(environment, true);
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
        for (reason, names) in unread {
            let models = if names.len() == 1 { "model" } else { "models" };
            let text = format!("{models} `{}`: {reason}", names.join("`, `"));
            let finding = ServeFinding::text(Severity::Unchecked, text).file(path);
            self.record(match &names[..] {
                [name] => finding.about(CheckedKind::Model, name),
                _ => finding,
            });
        }
        if !self.is_syntax {
            self.libraries(file, path, &facts);
        }
        for pipeline in &file.pipelines {
            let of = format!("the custom nodes of pipeline `{}`", pipeline.name);
            let watched = self.limit.of_pipelines(of);
            let (findings, is_whole) = of_pipeline(pipeline, &facts, self.is_syntax, path);
            drop(watched);
            let name = &pipeline.name;
            self.add((CheckedKind::Pipeline, name), path, findings, is_whole);
        }
        if facts.lacks_runtime() {
            let hint = "run `ovms setup`: a runtime is needed to read models";
            self.hints.push(hint.to_owned());
        }
        let depth = match self.is_syntax {
            true => Depth::Nothing,
            false => Depth::Import,
        };
        for graph in &file.graphs {
            let of = format!("the handlers of graph `{}`", graph.name);
            let watched = self.limit.of_graphs(of);
            let checked = graph::check::checked(graph, Some(file), None, depth);
            let mut findings = checked.lines(&at(&graph.place));
            drop(watched);
            if let Err(error) = config::read_subconfig(&graph.subconfig, &Defaults::default()) {
                // It has been reported, and in more detail.
                let error = chain(&error);
                (findings.unchecked).retain(|(text, _)| !text.ends_with(&error));
            }
            if self.is_syntax {
                findings.unchecked.clear();
            }
            self.add((CheckedKind::Graph, &graph.name), path, findings, true);
        }
        if !self.is_syntax {
            self.uninitialized(file, &facts);
        }
    }

    /// Notes that no `initialize` of a handler was called.
    fn uninitialized(&mut self, file: &FileConfig, facts: &ConfigurationFacts<'_>) {
        let of_graphs = file.graphs.iter().any(graph::check::initializes);
        let mut libraries = file.custom_node_libraries.iter();
        let of_pipelines = libraries.any(|library| {
            let path = facts.path(&library.name);
            let path = path.filter(|path| is_handler(path) && is_used(file, &library.name));
            path.is_some_and(graph::check::has_initialize)
        });
        let commands = match (of_graphs, of_pipelines) {
            (false, false) => return,
            (true, false) => "`ovms graph check --initialize` calls it",
            (false, true) => "`ovms pipeline check` calls it",
            (true, true) => "`ovms graph check --initialize` and `ovms pipeline check` call it",
        };
        self.note = Some(format!(
            "`initialize` of Python handlers was not called, as the server does; {commands}"
        ));
    }

    /// Opens the libraries of custom nodes, and imports unused handlers among them: used ones are
    /// imported with their nodes.
    fn libraries(&mut self, file: &FileConfig, path: &str, facts: &ConfigurationFacts<'_>) {
        let libraries = file.custom_node_libraries.iter();
        for (library, place) in libraries.zip(&file.library_places) {
            let (name, library) = (&library.name, &*library.base_path);
            let watched = self.limit.of_pipelines(format!("the library `{name}`"));
            let opened = match is_handler(library) {
                true if is_used(file, name) => Ok(()),
                true => facts.import(name, library),
                false => facts.library(name, library).map(drop),
            };
            drop(watched);
            if let Err(error) = opened {
                let reason = match error {
                    CustomError::NotOpen(reason) | CustomError::Handler { reason, .. } => reason,
                    _ => "it does not open".to_owned(),
                };
                facts.report(Reported::Library(name.clone()));
                let text = format!("library `{name}`: {reason}");
                let mut found = Diagnostic::new(Severity::Error, text);
                found.place = Some(place.clone());
                self.record(ServeFinding::in_file(path, found));
            }
        }
    }

    /// Adds the results of a servable, which is defined in `file` unless a finding names another one.
    fn add(&mut self, (kind, name): (CheckedKind, &str), file: &str, found: Lines, is_whole: bool) {
        let is_whole = is_whole && found.unchecked.is_empty();
        let (versions, state) = match (found.errors.is_empty(), is_whole) {
            (false, _) => (Vec::new(), ERROR),
            (true, false) => (vec![1], NOT_CHECKED),
            (true, true) => (vec![1], GOOD),
        };
        self.row(kind, name, versions, state);
        let finding = |(line, found): (String, Diagnostic)| {
            ServeFinding::new(found, line).file(file).about(kind, name)
        };
        self.findings.append(found.map(finding));
    }
}

/// Findings about a servable, each with its line.
type Lines = Diagnostics<(String, Diagnostic)>;

/// Checks a pipeline. The second value is false if results were left out because their cause has been
/// reported elsewhere.
fn of_pipeline(
    pipeline: &PipelineConfig,
    facts: &ConfigurationFacts<'_>,
    is_syntax: bool,
    file: &str,
) -> (Lines, bool) {
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

/// Errors of the versions of a model, each with its hint, its key, and the versions that have it: a device that is not
/// there is one error of all.
#[derive(Default)]
struct VersionErrors(Vec<(String, Option<String>, &'static str, Vec<String>)>);

impl VersionErrors {
    fn add(&mut self, number: i64, reason: String, hint: Option<String>, key: &'static str) {
        let number = number.to_string();
        match self.0.iter_mut().find(|(known, ..)| *known == reason) {
            Some((.., numbers)) => numbers.push(number),
            None => self.0.push((reason, hint, key, vec![number])),
        }
    }
}

/// State in the table of a model that was left to the server.
const NOT_LOOKED_AT: &str = "not looked at";

impl Report {
    /// Checks the folders of a model. Results begin with `origin`, which names the file if it is in one.
    pub(super) fn model(
        &mut self,
        model: &ModelConfig,
        (file, origin): (&str, &str),
        facts: &ConfigurationFacts<'_>,
    ) {
        let of = format!("{origin}model `{}`", model.name);
        let options = &model.load;
        if self.has_store && model.stateful.is_some() && options.state_mode == StateMode::Requests {
            let text = format!(": {}", not_stored(options));
            let about = (&*model.name, file);
            self.record(ServeFinding::of_model(Severity::Warning, about, &of, &text));
        }
        let (versions, state) = self.versions(model, (file, &of), facts);
        self.row(CheckedKind::Model, &model.name, versions, state);
    }

    /// Checks the versions of a model. Returns those to be served, and the state.
    fn versions(
        &mut self,
        model: &ModelConfig,
        (file, of): (&str, &str),
        facts: &ConfigurationFacts<'_>,
    ) -> (Vec<i64>, &'static str) {
        let none = Vec::new();
        let finding_at = |key: &str, severity, text: &str| {
            let found = ServeFinding::of_model(severity, (&model.name, file), of, text);
            match facts.key(&model.name, key).filter(|_| !file.is_empty()) {
                Some(place) => found.at(file, place),
                None => found,
            }
        };
        let finding = |severity, text: &str| finding_at("base_path", severity, text);
        let of_policy = |text: &str| finding_at("model_version_policy", Severity::Warning, text);
        if self.is_syntax {
            return (none, NOT_LOOKED_AT);
        }
        let base_path = &model.base_path;
        if storage::is_remote(base_path) {
            if let Err(error) = storage::check_remote(base_path) {
                let text = format!(": {}", chain(&error));
                let found = finding(Severity::Error, &text).hint(error.hint());
                self.hints.extend(error.hint());
                self.record(found);
                return (none, ERROR);
            }
            // It is for the server to fetch.
            let text = format!(": {base_path} is only read by the server");
            self.record(finding(Severity::Unchecked, &text));
            return (none, NOT_LOOKED_AT);
        }
        if let Some(ignored) = ignored_triton_settings(model) {
            self.record(finding(Severity::Warning, &format!(": {ignored}")));
        }
        let survey = match repository::survey(Path::new(base_path)) {
            Ok(survey) => survey,
            Err(error) => {
                self.record(finding(Severity::Error, &format!(": {error}")));
                return (none, ERROR);
            }
        };
        // Other names say nothing of versions, such as that of `lost+found`.
        let numbered =
            |folder: &&Ignored| folder.number().is_some() || folder.reason == Reason::Beside;
        for folder in survey.ignored.iter().filter(numbered) {
            let place = Path::new(base_path).join(&folder.name);
            let text = format!(": {}: {folder}", place.display());
            self.record(finding(Severity::Warning, &text));
        }
        let existing = survey.versions;
        let numbers: Vec<i64> = existing.iter().map(|(number, _)| *number).collect();
        if let VersionPolicy::Specific(named) = &model.policy {
            for version in named.iter().filter(|number| !numbers.contains(number)) {
                let text =
                    format!(": there is no version {version}, which its version policy names");
                self.record(of_policy(&text));
            }
        }
        let chosen = wanted::choose(&model.policy, &numbers);
        if chosen.is_empty() {
            let text = format!(": there is no version to serve in {base_path}");
            self.record(match numbers.is_empty() {
                true => finding(Severity::Warning, &text),
                false => of_policy(&text),
            });
            return (none, "empty");
        }
        if let Some(cache) = &model.load.cache_dir
            && let Err(error) = check_cache(cache)
        {
            let cache = cache.display();
            let text = format!(
                "cannot use the cache folder {cache}: {error}; models are compiled at each start"
            );
            self.warn(ServeFinding::text(Severity::Warning, text));
        }
        let mut state = GOOD;
        let mut errors = VersionErrors::default();
        let served = existing
            .iter()
            .filter(|(number, _)| chosen.contains(number));
        let served: Vec<_> = served.collect();
        for (number, folder) in &served {
            match facts.looked(model, *number, folder) {
                VersionLookup::Info(inspected) => {
                    if let Err(error) = warmup::check(&inspected.info.inputs, &model.warmup) {
                        state = ERROR;
                        errors.add(*number, chain(&error), None, "warmup");
                    }
                    let contradicted = contradicted_triton_settings(model, &inspected.info);
                    for warning in inspected.warnings.into_iter().chain(contradicted) {
                        let text = format!(", version {number}: {warning}");
                        self.warn(finding(Severity::Warning, &text));
                    }
                }
                VersionLookup::Error { reason, hint, key } => {
                    state = ERROR;
                    errors.add(*number, reason, hint.clone(), key);
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
        for (reason, hint, key, numbers) in errors.0 {
            let plural = if numbers.len() == 1 { "" } else { "s" };
            let text = format!(", version{plural} {}: {reason}", numbers.join(", "));
            self.record(finding_at(key, Severity::Error, &text).hint(hint));
        }
        (served.iter().map(|(number, _)| *number).collect(), state)
    }

    /// Adds a warning, once.
    fn warn(&mut self, warning: ServeFinding) {
        let mut known = self.findings.warnings.iter();
        if !known.any(|known| known.line == warning.line) {
            self.record(warning);
        }
    }
}
