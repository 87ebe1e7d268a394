//! `--print-config`: the configuration file of what the command line serves.

mod pipelines;

use std::path::{Path, PathBuf};

use ovms::{
    config::{
        self, CheckDepth, ConfigSource, Defaults, FileConfig, GraphConfig, ModelConfig, ModelEntry,
        PathSource, VersionPolicy, Warmup, WarmupData, config_of_folder,
    },
    engine::reload::{ignored_triton_settings, read_paths, triton_load},
    model::{VersionFailure, others, repository, settings_refusal, storage},
    openvino::Batching,
};
use serde_json::{Value, json};

use self::pipelines::{Pipelines, Unserved};
use super::{ServeArgs, configured, directives, hints};
use crate::{error::Failure, ui};

/// Keys of models with sequences alone.
const OF_SEQUENCES: [&str; 7] = [
    "stateful",
    "idle_sequence_cleanup",
    "low_latency_transformation",
    "state_mode",
    "sequence_batch",
    "max_sequence_number",
    "drain_sequences_seconds",
];

/// Keys and values of an entry, in their order.
type Entry = Vec<(String, Value)>;

/// Prints the file; notes what is not in it.
pub(super) fn run(args: &ServeArgs) -> Result<(), Failure> {
    let mut flags = args.flags.clone();
    if flags.demo {
        let text = "--print-config and --demo are given; expected one of them";
        return Err(
            Failure::usage(text).hint("the files of the example are there only while it is served")
        );
    }
    // No ports are needed.
    flags.check = CheckDepth::Syntax;
    let config = configured(flags, args.paths.clone(), args.closed)
        .map_err(|error| hints::of_flags(&error))?;
    let settings = directives::given_settings(&args.flags)?;
    let mut printed = Printed::new(settings, config.warnings);
    match &config.source {
        ConfigSource::File { path, .. } => {
            let text = "--print-config is for models that are named by flags or paths";
            let path = path.display();
            return Err(Failure::usage(text).hint(format!("the file already exists: {path}")));
        }
        ConfigSource::Model { model, .. } => printed.model(model),
        ConfigSource::Graph { graph, .. } => printed.graph(graph),
        ConfigSource::Paths(source) => {
            let file = read_paths(source).map_err(|error| hints::of_path(&error))?;
            printed.found(source, &file);
        }
    }
    let text = printed.text();
    check(&text)?;
    ui::print(text)?;
    for note in &printed.notes {
        ui::note(&format!("note: {note}"));
    }
    // Whoever wants no notes is to miss no model.
    for warning in &printed.warnings {
        ui::warn(&format!("warning: {warning}"));
    }
    ui::note(
        "note: `ovms serve --config-path FILE` serves it, with the other flags; folders are not watched then: later \
         models must be added to the file",
    );
    printed.end()
}

/// A file that is being made.
struct Printed {
    /// Settings of the flags, for each model.
    settings: Vec<(&'static str, Value)>,
    models: Vec<Entry>,
    graphs: Vec<Entry>,
    /// Models that none of the models of the file can be.
    unserved: Vec<Unserved>,
    pipelines: Pipelines,
    notes: Vec<String>,
    /// Warnings of the flags, and of settings left out of the file, with the reasons.
    warnings: Vec<String>,
    /// Models that no server serves as they are, and why.
    refused: Vec<(String, VersionFailure)>,
}

impl Printed {
    fn new(settings: Vec<(&'static str, Value)>, warnings: Vec<String>) -> Self {
        Self {
            settings,
            models: Vec::new(),
            graphs: Vec::new(),
            unserved: Vec::new(),
            pipelines: Pipelines::default(),
            notes: Vec::new(),
            warnings,
            refused: Vec::new(),
        }
    }

    /// Adds what was found at the paths. Models that the files of graphs list have settings of their own there.
    fn found(&mut self, source: &PathSource, file: &FileConfig) {
        let warnings = file.warnings.iter().map(ToString::to_string);
        self.warnings.extend(warnings);
        for refused in &file.refused {
            self.leave_out(&refused.name, &refused.reason);
        }
        let paths = source.paths.iter().chain(&source.repository);
        let named: Vec<PathBuf> = paths
            .map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()))
            .collect();
        let is_named = |base_path: &str| {
            let path = Path::new(base_path);
            let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            let parent = path.parent().map(Path::to_owned);
            named
                .iter()
                .any(|it| *it == path || Some(it) == parent.as_ref())
        };
        for entry in &file.models {
            match entry {
                ModelEntry::Model(model)
                    if storage::is_remote(&model.base_path) || is_named(&model.base_path) =>
                {
                    match unserved(model) {
                        Some(unserved) => self.unserved.push(unserved),
                        None => self.model(model),
                    }
                }
                _ => {}
            }
        }
        let names = self.models.iter().filter_map(|entry| entry[0].1.as_str());
        let names: Vec<String> = names.map(str::to_owned).collect();
        self.pipelines = pipelines::write(&self.unserved, &names);
        self.warnings.append(&mut self.pipelines.warnings);
        for graph in &file.graphs {
            if let Some(listed) = config_of_folder(&graph.base_path) {
                self.notes.push(format!(
                    "models that {} lists are not in it: copy its model_config_list",
                    listed.display()
                ));
            }
            self.graph(graph);
        }
    }

    fn leave_out(&mut self, name: &str, reason: &dyn std::fmt::Display) {
        let text = format!("`{name}` is not in it: {reason}");
        self.warnings.push(text);
    }

    /// Fails with the models that no server serves as they are, if there are any.
    fn end(self) -> Result<(), Failure> {
        let is_unread =
            |(_, it): &(String, VersionFailure)| matches!(it, VersionFailure::Settings(_));
        let reason = |it: &VersionFailure| match it {
            // The next step is a hint.
            VersionFailure::Settings(error) => error.to_string(),
            other => other.to_string(),
        };
        let failure = match &self.refused[..] {
            [] => return Ok(()),
            [(name, error)] => {
                let error = reason(error);
                Failure::failed(format!("cannot write the entry of model `{name}`: {error}"))
            }
            several => {
                let text = format!("cannot write the entries of {} models", several.len());
                let each = several.iter();
                let each = each.map(|(name, error)| format!("model `{name}`: {}", reason(error)));
                each.fold(Failure::failed(text), Failure::detail)
            }
        };
        let has_unread = self.refused.iter().any(is_unread);
        Err(failure.may_hint(has_unread.then(|| "correct the file, or remove it".to_owned())))
    }

    fn model(&mut self, model: &ModelConfig) {
        let name = &model.name;
        let path = Path::new(&model.base_path);
        let is_remote = storage::is_remote(&model.base_path);
        let refusal = (!is_remote).then(|| settings_refusal(path, &model.load));
        if let Some(refusal) = refusal.flatten() {
            self.refused.push((name.clone(), refusal));
            return;
        }
        if let Some(file) = &model.load.model_file
            && let Some(next) = in_place_of_name(path, file)
        {
            self.notes.push(format!(
                "model `{name}`: default_model_filename has no key here: {next}"
            ));
        }
        let base_path = match is_remote {
            true => model.base_path.clone(),
            false => absolute(path),
        };
        let mut entry = vec![
            ("name".to_owned(), json!(name)),
            ("base_path".to_owned(), json!(base_path)),
        ];
        for (key, value) in &self.settings {
            let is_of_it = match *key {
                "model_version_policy" => false,
                // Sequences and batches exclude each other, and the file of a model may ask for the first.
                "dynamic_batching" => {
                    model.stateful.is_none() || model.load.batching != Batching::Off
                }
                key if OF_SEQUENCES.contains(&key) => model.stateful.is_some(),
                _ => true,
            };
            if is_of_it {
                entry.push(((*key).to_owned(), value.clone()));
            }
        }
        let has = |key: &str| self.settings.iter().any(|(given, _)| *given == key);
        if model.stateful.is_some() && !has("stateful") {
            entry.push(("stateful".to_owned(), json!(true)));
        }
        if model.policy != VersionPolicy::default() || has("model_version_policy") {
            entry.push(("model_version_policy".to_owned(), policy(&model.policy)));
        }
        let mut with_more = model.clone();
        let added = self.of_triton(&mut with_more);
        if !added.is_empty() {
            let keys: Vec<&str> = added.iter().map(|(key, _)| &**key).collect();
            self.notes.push(format!(
                "model `{name}`: its config.pbtxt gives it {}, which `ovms serve` of its folder ignores",
                keys.join(", ")
            ));
        }
        entry.extend(added);
        if let Some(ignored) = ignored_triton_settings(&with_more) {
            self.notes.push(format!("model `{name}`: {ignored}"));
        }
        self.models.push(entry);
    }

    /// Returns what the `config.pbtxt` of a model gives it that no flag does, and gives it to the model.
    fn of_triton(&mut self, model: &mut ModelConfig) -> Entry {
        let found = triton_load(model);
        let mut entry = Entry::new();
        let has = |key: &str| self.settings.iter().any(|(given, _)| *given == key);
        let is_free = !["nireq", "plugin_config", "target_device"]
            .into_iter()
            .any(has);
        let mut properties = serde_json::Map::new();
        if let Some(count) = found.instances.filter(|_| is_free) {
            entry.push(("nireq".to_owned(), json!(count)));
            properties.insert("NUM_STREAMS".to_owned(), json!(count));
            model.load.nireq = count;
        }
        for (key, value) in found.properties.iter().filter(|_| is_free) {
            properties.insert(key.clone(), json!(value));
            let property = (key.clone(), value.to_string());
            model.load.properties.push(property);
        }
        if !properties.is_empty() {
            entry.push(("plugin_config".to_owned(), properties.into()));
        }
        if let Some((rows, delay)) = found.batching
            && !has("dynamic_batching")
        {
            let batching = json!({"max_batch": rows, "max_delay_us": delay});
            entry.push(("dynamic_batching".to_owned(), batching));
            model.load.batching = Batching::Auto;
            let cut = found.cut.iter();
            let cut = cut.map(|cut| format!("model `{}`: {cut}", model.name));
            self.notes.extend(cut);
        }
        if !found.warmup.is_empty() {
            let warmup = found.warmup.iter();
            let warmup = warmup.map(|(count, data)| json!({"count": count, "data": data}));
            entry.push(("warmup".to_owned(), warmup.collect()));
            // For the warning of what is not followed.
            model.warmup.push(Warmup {
                count: 1,
                dynamic_length: 1,
                data: WarmupData::Zeros,
            });
        }
        entry
    }

    fn graph(&mut self, graph: &GraphConfig) {
        let mut entry = vec![
            ("name".to_owned(), json!(graph.name)),
            ("base_path".to_owned(), json!(absolute(&graph.base_path))),
        ];
        for (key, path, usual) in [
            ("graph_path", &graph.graph_path, "graph.pbtxt"),
            ("subconfig", &graph.subconfig, "subconfig.json"),
        ] {
            if *path != graph.base_path.join(usual) {
                entry.push((key.to_owned(), json!(absolute(path))));
            }
        }
        self.graphs.push(entry);
    }

    /// Writes the file, with a line for each entry.
    fn text(&self) -> String {
        let models = self.models.iter().map(|entry| {
            let entry = object(entry);
            format!("{{\"config\": {entry}}}")
        });
        let mut lists = vec![list("model_config_list", models)];
        for (key, entries) in [
            ("custom_node_library_config_list", &self.pipelines.handlers),
            ("pipeline_config_list", &self.pipelines.pipelines),
        ] {
            if !entries.is_empty() {
                lists.push(list(key, entries.iter().cloned()));
            }
        }
        if !self.graphs.is_empty() {
            let graphs = self.graphs.iter().map(|entry| object(entry));
            lists.push(list("mediapipe_config_list", graphs));
        }
        format!("{{\n{}\n}}\n", lists.join(",\n"))
    }
}

/// Returns a model as one that no server here serves, if it is an ensemble, or of another server.
fn unserved(model: &ModelConfig) -> Option<Unserved> {
    if storage::is_remote(&model.base_path) {
        return None;
    }
    let path = Path::new(&model.base_path);
    let reason = match others::is_ensemble(path) {
        true => {
            "its config.pbtxt is that of an ensemble; define a pipeline in its place".to_owned()
        }
        false => others::of_no_server_here(path)?,
    };
    Some(Unserved {
        name: model.name.clone(),
        base_path: path.to_owned(),
        is_python: others::is_of_python(path),
        reason,
    })
}

/// Returns what to do so that a file of this name is found without it; `None` if it is.
fn in_place_of_name(base_path: &Path, name: &str) -> Option<String> {
    let versions = repository::versions(base_path).ok()?;
    let mut versions = versions.iter().map(|(_, version)| version);
    let other = versions.find(|version| {
        repository::files_as(version, Some(name)).ok() != repository::files(version).ok()
    })?;
    Some(match other.join(name).is_dir() {
        true => format!(
            "rename {name} of each version to {}",
            repository::SAVED_MODEL
        ),
        false => format!("leave {name} as the only model file of each version"),
    })
}

fn absolute(path: &Path) -> String {
    let whole = std::path::absolute(path);
    whole.as_deref().unwrap_or(path).display().to_string()
}

/// Writes a policy as the file has it.
fn policy(policy: &VersionPolicy) -> Value {
    match policy {
        VersionPolicy::Latest(count) => json!({"latest": {"num_versions": count}}),
        VersionPolicy::All => json!({"all": {}}),
        VersionPolicy::Specific(versions) => json!({"specific": {"versions": versions}}),
    }
}

/// Writes keys and values in their order.
fn object(entry: &[(String, Value)]) -> String {
    let keys = entry.iter();
    let keys: Vec<String> = keys
        .map(|(key, value)| format!("\"{key}\": {value}"))
        .collect();
    format!("{{{}}}", keys.join(", "))
}

fn list(key: &str, entries: impl Iterator<Item = String>) -> String {
    let entries: Vec<String> = entries.map(|entry| format!("        {entry}")).collect();
    match entries.is_empty() {
        true => format!("    \"{key}\": []"),
        false => format!("    \"{key}\": [\n{}\n    ]", entries.join(",\n")),
    }
}

/// Fails for settings that a server would refuse in a file.
fn check(text: &str) -> Result<(), Failure> {
    let parsed = config::parse(
        text.as_bytes(),
        Path::new("/config.json"),
        &Defaults::default(),
    );
    let parsed = parsed.map_err(|error| hints::explain(&error, "--print-config"))?;
    let mut refused = parsed.models.iter().filter_map(|entry| {
        let reason = directives::refusal(entry)?;
        Some((entry.name(), reason))
    });
    refused.next().map_or(Ok(()), |(name, reason)| {
        let text = format!("the settings of model `{name}` are refused in a file");
        Err(Failure::usage(text).caused_by(&*reason))
    })
}
