//! `model_config_list`.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use jsonc_parser::ast::Value;

use super::{
    BasePath, Defaults, ModelEntry, Node, RefusedEntry,
    entry::{EntryError, EntryKind},
    graphs::{self, GraphConfig, Graphs},
    node::{Fields, one_of},
    sections::{self, resolve},
};
use crate::{
    config::{
        batching,
        flags::{FLAGS, Flag, FlagKind, Flags},
        plugin, preprocessing,
        settings::ModelConfig,
        shape, version_policy,
    },
    openvino::{BatchOption, Batching, PerTensor, Preprocessing},
};

/// The keys of `config`.
static KEYS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let flags = FLAGS.iter().filter(|flag| flag.is_key());
    let others = [
        "allow_cache",
        "custom_loader_options",
        "graph_path",
        "subconfig",
        "warmup",
    ];
    let names = ["name", "base_path"].into_iter();
    names
        .chain(flags.map(|flag| flag.name))
        .chain(others)
        .collect()
});

/// Reason an entry is refused, and the node at which it is reported.
type Refusal<'a> = (EntryError, Node<'a>);

/// An entry of the list, if it is not refused.
enum Entry {
    Model(Box<ModelConfig>),
    Graph(Box<GraphConfig>),
}

/// Entries of the list, their base paths, and the files that would make graphs of them.
type Models = (
    Vec<ModelEntry>,
    Vec<BasePath>,
    BTreeMap<String, Vec<PathBuf>>,
);

/// Reads the list; what of it is a graph goes to `graphs`.
pub(super) fn list(
    node: &Node<'_>,
    folder: &Path,
    defaults: &Defaults,
    graphs: &mut Graphs,
) -> Models {
    let mut base_paths = Vec::new();
    let mut graph_files = BTreeMap::new();
    let entries = node.list("models").unwrap_or_default();
    let entries = entries.iter().filter_map(|entry| {
        let config = entry.fields(&["config"], &["config"])?;
        let config = config.get("config")?;
        let fields = config.fields(&KEYS, &["name"])?;
        let node = fields.get("name");
        let name = node.and_then(Node::name).unwrap_or_default();
        let model = match self::entry(config, &fields, (name, folder, defaults)) {
            Ok(Entry::Graph(graph)) => {
                graphs.add(*graph, config);
                return None;
            }
            Ok(Entry::Model(model)) => Ok(model),
            Err(refusal) => Err(refusal),
        };
        let graph_path = fields.text("graph_path");
        let folders = graph_folders(&fields, name, folder).into_iter();
        let files = folders.flat_map(|it| GraphConfig::places(&it, graph_path));
        graph_files.insert(name.to_owned(), files.collect());
        base_paths.extend(fields.get("base_path").map(|node| BasePath {
            model: name.to_owned(),
            place: node.place(),
            keys: config.places(&fields),
            goes_up: (node.text().unwrap_or_default().split('/')).any(|part| part == ".."),
        }));
        let named = node.unwrap_or(config);
        let taken = graphs.names.take(name, EntryKind::Model, || named.place());
        let taken = taken.map_err(|_| (EntryError::Occupied, named.clone()));
        Some(match taken.and(model) {
            Ok(model) => ModelEntry::Model(model),
            Err((reason, node)) => ModelEntry::Refused(RefusedEntry {
                name: name.to_owned(),
                reason,
                place: node.place(),
            }),
        })
    });
    (entries.collect(), base_paths, graph_files)
}

/// Returns the folders of which the first that holds a graph makes an entry one.
fn graph_folders(fields: &Fields<'_>, name: &str, folder: &Path) -> Vec<PathBuf> {
    let base_path = fields.text("base_path").unwrap_or_default();
    // A graph that is named alone is in the folder of its name, as in the list of graphs.
    let own = base_path.is_empty().then(|| folder.join(name));
    own.into_iter()
        .chain([resolve(folder, base_path)])
        .collect()
}

/// Reads all keys of one entry, so that every error of the file is found, and validates it then.
fn entry<'a>(
    node: &Node<'a>,
    fields: &Fields<'a>,
    (name, folder, defaults): (&str, &Path, &Defaults),
) -> Result<Entry, Refusal<'a>> {
    let flag = |key| fields.get(key).and_then(Node::flag);
    let base_path = resolve(folder, fields.text("base_path").unwrap_or_default());
    let policy = fields.get("model_version_policy");
    let policy = policy.and_then(version_policy::read).unwrap_or_default();
    let pairs = fields.get("plugin_config").and_then(properties);
    let is_plain = |flag: &Flag| flag.is_key() && !flag.own_form;
    let mut flags = defaults.flags.with(|flag| {
        let node = fields.get(flag.name).filter(|_| is_plain(flag))?;
        plain(node, flag, folder)
    });
    let allow_cache = flag("allow_cache").unwrap_or(false);
    let loader = fields.get("custom_loader_options");
    if let Some(loader) = loader {
        loader_options(loader);
    }
    let graph_path = fields.text("graph_path");
    let subconfig = fields.text("subconfig");
    let warmup = fields
        .get("warmup")
        .map(|node| sections::warmup(node, folder));
    // Each of these may refuse the entry; the first does.
    let sequences = sequences(fields, &mut flags);
    let shapes = per_tensor(fields.get("shape"), shape::parse, shape::parse_one);
    let layouts = per_tensor(
        fields.get("layout"),
        shape::parse_layouts,
        shape::parse_layout,
    );
    let preprocessing = preprocessing(fields);
    let mut batch = batch(fields);
    let batching = fields.get("dynamic_batching");
    let batching = batching.and_then(|node| Some((batching::read(node)?, node)));

    let find = |base_path: &Path| GraphConfig::find(name, base_path, graph_path, subconfig);
    let folders = graph_folders(fields, name, folder);
    let graph = folders.iter().find_map(|it| find(it));
    if let (Some(node), Some(given), [first, ..]) =
        (fields.get("graph_path"), graph_path, &folders[..])
    {
        graphs::warn_of_absent(node, (first, given), graph.as_ref());
    }
    if let Some(graph) = graph {
        warn_of_unused(node, fields);
        return Ok(Entry::Graph(Box::new(graph)));
    }
    sequences?;
    let (shapes, layouts, preprocessing) = (shapes?, layouts?, preprocessing?);
    if batch.is_some() && shapes != PerTensor::Unset {
        if let Some(node) = fields.get("batch_size") {
            node.warn("batch_size is ignored because shape is set");
        }
        batch = None;
    }
    let base_path = base_path.into_os_string().into_string();
    let base_path = base_path.map_err(|_| (EntryError::Folder(folder.to_owned()), node.clone()))?;
    let mut model = ModelConfig::new(name.to_owned(), base_path, &flags, defaults);
    model.policy = policy;
    model.allow_cache = allow_cache;
    model.warmup = warmup.unwrap_or_default();
    let load = &mut model.load;
    load.properties = plugin::complete(&load.device, pairs.unwrap_or_default());
    load.shapes = shapes;
    load.layouts = layouts;
    load.preprocessing = preprocessing;
    load.batch = batch;
    if let Some((batching, node)) = batching {
        let is_on = batching.mode != Batching::Off;
        match (model.stateful.is_some(), is_on) {
            (true, true) => return Err((EntryError::BatchingStateful, node.clone())),
            (false, _) => {
                load.batching = batching.mode;
                load.batch_bytes = batching.max_bytes;
            }
            (true, false) => {}
        }
    }
    if model.stateful.is_some() && model.load.is_auto() {
        return Err((EntryError::StatefulAuto, node.clone()));
    }
    if let Some(loader) = loader {
        let reason = if allow_cache {
            EntryError::CacheWithLoader
        } else {
            EntryError::CustomLoader
        };
        return Err((reason, loader.clone()));
    }
    Ok(Entry::Model(Box::new(model.with_cache_rule())))
}

/// Reads the value of a key that is a flag as well, as the flag's text.
fn plain(node: &Node<'_>, flag: &Flag, folder: &Path) -> Option<OsString> {
    let whole = |most| node.whole(flag.least.into(), most).map(|it| it.to_string());
    match flag.kind {
        FlagKind::Switch => node.flag().map(|flag| flag.to_string().into()),
        // What is too much is an error of the load, and of this model alone.
        FlagKind::U32 if flag.name == "nireq" => {
            let number = node.whole(flag.least.into(), i64::MAX)?;
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            Some(number.to_string().into())
        }
        FlagKind::U32 => whole(u32::MAX.into()).map(Into::into),
        FlagKind::U64 | FlagKind::Usize => whole(i64::MAX).map(Into::into),
        FlagKind::Choice(words) => {
            let word = node.text()?;
            if !words.contains(&word) {
                node.expected(one_of(words));
                return None;
            }
            Some(word.into())
        }
        FlagKind::Path => {
            let path = node.text().filter(|path| !path.is_empty());
            path.map(|path| folder.join(path).into())
        }
        _ => node.text().map(Into::into),
    }
}

/// Warns of settings of a model that have no effect on a graph.
fn warn_of_unused(node: &Node<'_>, fields: &Fields<'_>) {
    let used = ["name", "base_path", "graph_path", "subconfig"];
    let is_unused = |key: &&str| !used.contains(key) && fields.get(key).is_some();
    let unused: Vec<&str> = KEYS.iter().copied().filter(is_unused).collect();
    if !unused.is_empty() {
        node.warn(format!(
            "{} ignored: the folder holds a graph",
            unused.join(", ")
        ));
    }
}

/// Reads `plugin_config`: no nested objects here, as against the flag of that name.
fn properties(node: &Node<'_>) -> Option<Vec<(String, String)>> {
    let pairs = node.pairs("device properties")?;
    let pairs = pairs.into_iter().filter_map(|(key, node)| {
        let value = match node.value() {
            Value::StringLit(text) => text.value.to_string(),
            Value::BooleanLit(flag) => plugin::flag(flag.value).to_owned(),
            Value::NumberLit(number) => number.value.to_owned(),
            _ => {
                return node.refuse("a text, a number, true or false");
            }
        };
        Some((key, value))
    });
    Some(pairs.collect())
}

/// Reads `custom_loader_options`, of which only the shape is known here.
fn loader_options(node: &Node<'_>) {
    let Some(pairs) = node.pairs("texts with loader_name") else {
        return;
    };
    for (_, value) in &pairs {
        let _ = value.text();
    }
    if !pairs.iter().any(|(key, _)| key == "loader_name") {
        node.expected("an object with the key `loader_name`");
    }
}

/// Reads the settings of sequences that are not as for flags, and refuses them for a model without
/// state.
fn sequences<'a>(fields: &Fields<'a>, flags: &mut Flags) -> Result<(), Refusal<'a>> {
    let number = fields.get("max_sequence_number");
    let number = number.and_then(|node| Some((node.natural()?, node)));
    if !flags.stateful {
        for key in [
            "low_latency_transformation",
            "max_sequence_number",
            "idle_sequence_cleanup",
            "drain_sequences_seconds",
            "state_mode",
            "sequence_batch",
        ] {
            if let Some(node) = fields.get(key) {
                return Err((EntryError::NotStateful(key), node.clone()));
            }
        }
    } else if let Some((number, node)) = number {
        let number = number
            .parse()
            .map_err(|_| (EntryError::SequenceNumber(number), node.clone()))?;
        flags.max_sequence_number = Some(number);
    }
    Ok(())
}

/// Reads what is done to the elements of the input.
fn preprocessing<'a>(fields: &Fields<'a>) -> Result<Preprocessing, Refusal<'a>> {
    let mut read = Preprocessing::default();
    let mut refusal = Ok(());
    for key in preprocessing::KEYS {
        let Some(node) = fields.get(key) else {
            continue;
        };
        let takes_numbers = ["mean", "scale"].contains(&key);
        let text = match node.value() {
            Value::StringLit(text) => text.value.to_string(),
            Value::NumberLit(number) if takes_numbers => number.value.to_owned(),
            Value::Array(_) if takes_numbers => numbers(node),
            _ => {
                node.expected(match takes_numbers {
                    true => "a number, a list of numbers, or a text of those",
                    false => "a text",
                });
                continue;
            }
        };
        // All of them are read before the first refusal.
        let done = preprocessing::read(&mut read, key, &text);
        refusal = refusal.and(done.map_err(|error| (error.into(), node.clone())));
    }
    refusal.map(|()| read)
}

/// Writes a list of numbers as a text has it.
fn numbers(node: &Node<'_>) -> String {
    let numbers = node.list("numbers").unwrap_or_default();
    let numbers = numbers.iter().filter_map(|number| match number.value() {
        Value::NumberLit(number) => Some(number.value),
        _ => number.refuse("a number"),
    });
    format!("[{}]", numbers.collect::<Vec<_>>().join(","))
}

/// Reads `shape` or `layout`: a text, or texts by name.
fn per_tensor<'a, T, E: Into<EntryError>>(
    node: Option<&Node<'a>>,
    parse: impl Fn(&str) -> Result<PerTensor<T>, E>,
    parse_one: impl Fn(&str) -> Result<T, E>,
) -> Result<PerTensor<T>, Refusal<'a>> {
    let Some(node) = node else {
        return Ok(PerTensor::Unset);
    };
    match node.value() {
        Value::StringLit(text) => parse(&text.value).map_err(|error| (error.into(), node.clone())),
        Value::Object(_) => {
            let pairs = node.pairs("texts by name").unwrap_or_default();
            // Read all of them before the first refusal.
            let texts: Vec<_> = pairs
                .iter()
                .filter_map(|(name, node)| Some((name, node.text()?, node)))
                .collect();
            let options = texts.into_iter().map(|(name, text, node)| {
                let option = parse_one(text).map_err(|error| (error.into(), node.clone()))?;
                Ok((name.clone(), option))
            });
            options.collect::<Result<_, _>>().map(PerTensor::Named)
        }
        _ => {
            node.expected("a text, or an object of texts by name");
            Ok(PerTensor::Unset)
        }
    }
}

/// Reads `batch_size`: a number or a text. What is no batch size is dropped with a warning, as
/// users of model servers know it.
fn batch(fields: &Fields<'_>) -> Option<BatchOption> {
    let node = fields.get("batch_size")?;
    let text = match node.value() {
        Value::StringLit(text) => text.value.to_string(),
        Value::NumberLit(_) => node.whole(0, i64::MAX)?.to_string(),
        _ => {
            return node.refuse("a whole number from 0, or a text such as auto or 1:8");
        }
    };
    shape::parse_batch(&text).unwrap_or_else(|()| {
        node.warn(shape::bad_batch(&text));
        None
    })
}
