//! `--print-config`: the configuration file of what the command line serves.

use std::path::{Path, PathBuf};

use ovms::{
    config::{
        self, CheckDepth, ConfigSource, Defaults, FileConfig, GraphConfig, ModelConfig, ModelEntry,
        PathSource, VersionPolicy, config_of_folder,
    },
    engine::reload::{ignored_triton_settings, read_paths, triton_load},
    model::{repository, storage},
    openvino::Batching,
};
use serde_json::{Value, json};

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
            return Err(Failure::usage(text).hint(format!("the file is there: {path}")));
        }
        ConfigSource::Model(model) => printed.model(model)?,
        ConfigSource::Graph { graph, .. } => printed.graph(graph),
        ConfigSource::Paths(source) => {
            let file = read_paths(source).map_err(|error| hints::of_path(&error))?;
            printed.found(source, &file)?;
        }
    }
    let text = printed.text();
    check(&text)?;
    ui::print(text)?;
    for note in printed.notes {
        ui::warn(&format!("note: {note}"));
    }
    ui::note(
        "note: `ovms serve --config-path FILE` serves it, with the other flags beside it; it does not follow the folders: \
         models that come later have to be added",
    );
    Ok(())
}

/// A file that is being made.
struct Printed {
    /// Settings of the flags, for each model.
    settings: Vec<(&'static str, Value)>,
    models: Vec<Entry>,
    graphs: Vec<Entry>,
    notes: Vec<String>,
}

impl Printed {
    fn new(settings: Vec<(&'static str, Value)>, notes: Vec<String>) -> Self {
        Self {
            settings,
            models: Vec::new(),
            graphs: Vec::new(),
            notes,
        }
    }

    /// Adds what was found at the paths. Models that the files of graphs list have settings of their own there.
    fn found(&mut self, source: &PathSource, file: &FileConfig) -> Result<(), Failure> {
        let warnings = file.warnings.iter().map(ToString::to_string);
        let refused = file.refused.iter();
        let refused = refused.map(|it| format!("`{}` is not in it: {}", it.name, it.reason));
        self.notes.extend(warnings.chain(refused));
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
                ModelEntry::Model(model) if is_ensemble(model) => self.notes.push(format!(
                    "`{}` is not in it: its config.pbtxt is that of an ensemble; define a pipeline in its place",
                    model.name
                )),
                ModelEntry::Model(model)
                    if storage::is_remote(&model.base_path) || is_named(&model.base_path) =>
                {
                    self.model(model)?;
                }
                _ => {}
            }
        }
        for graph in &file.graphs {
            if let Some(listed) = config_of_folder(&graph.base_path) {
                self.notes.push(format!(
                    "models that {} lists are not in it: copy its model_config_list",
                    listed.display()
                ));
            }
            self.graph(graph);
        }
        Ok(())
    }

    fn model(&mut self, model: &ModelConfig) -> Result<(), Failure> {
        let name = &model.name;
        if let Some(error) = &model.load.settings_error {
            let text = format!("cannot write the entry of model `{name}`: {error}");
            return Err(Failure::failed(text).hint("correct the file, or remove it"));
        }
        if let Some(file) = &model.load.model_file {
            self.notes.push(format!(
                "model `{name}`: default_model_filename has no key here: leave {file} as the only model file of each \
                 version"
            ));
        }
        let base_path = match storage::is_remote(&model.base_path) {
            true => model.base_path.clone(),
            false => absolute(Path::new(&model.base_path)),
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
                "model `{name}`: its config.pbtxt gives it {}, which `ovms serve` of its folder passes over",
                keys.join(", ")
            ));
        }
        entry.extend(added);
        if let Some(ignored) = ignored_triton_settings(&with_more) {
            self.notes.push(format!("model `{name}`: {ignored}"));
        }
        self.models.push(entry);
        Ok(())
    }

    /// Returns what the `config.pbtxt` of a model gives it that no flag does, and gives it to the model.
    fn of_triton(&self, model: &mut ModelConfig) -> Entry {
        let found = triton_load(model);
        let mut entry = Entry::new();
        let has = |key: &str| self.settings.iter().any(|(given, _)| *given == key);
        if let Some(count) = found.instances
            && !["nireq", "plugin_config", "target_device"]
                .into_iter()
                .any(has)
        {
            entry.push(("nireq".to_owned(), json!(count)));
            entry.push(("plugin_config".to_owned(), json!({"NUM_STREAMS": count})));
            model.load.nireq = count;
        }
        if let Some((rows, delay)) = found.batching
            && !has("dynamic_batching")
        {
            let batching = json!({"max_batch": rows, "max_delay_us": delay});
            entry.push(("dynamic_batching".to_owned(), batching));
            model.load.batching = Batching::Auto;
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
        if !self.graphs.is_empty() {
            let graphs = self.graphs.iter().map(|entry| object(entry));
            lists.push(list("mediapipe_config_list", graphs));
        }
        format!("{{\n{}\n}}\n", lists.join(",\n"))
    }
}

fn is_ensemble(model: &ModelConfig) -> bool {
    let path = Path::new(&model.base_path);
    !storage::is_remote(&model.base_path) && repository::is_ensemble(path)
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
    let mut refused = parsed.models.iter().filter_map(|entry| match entry {
        ModelEntry::Refused(entry) => Some(entry),
        ModelEntry::Model(_) => None,
    });
    refused.next().map_or(Ok(()), |entry| {
        let text = format!(
            "the settings of model `{}` are refused in a file",
            entry.name
        );
        Err(Failure::usage(text).caused_by(&entry.reason))
    })
}
