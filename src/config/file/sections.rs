//! The short lists of the file: libraries of custom nodes, custom loaders, and `monitoring`.

use std::{
    collections::{HashMap, hash_map::Entry},
    path::{Path, PathBuf},
};

use jsonc_parser::ast::Value;

use super::Node;
use crate::{
    config::settings::{MetricsSettings, Warmup, WarmupData},
    diagnostic::FilePosition,
};

/// A library of custom nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryConfig {
    /// The name that nodes use.
    pub name: String,
    /// The shared library, resolved.
    pub base_path: PathBuf,
}

/// Beginnings of addresses that are no paths.
const CLOUDS: [&str; 4] = ["s3://", "gs://", "azfs://", "az://"];

/// Makes a path of the file absolute: it is relative to the folder. Cloud addresses stay, and no
/// path is the folder itself.
pub(super) fn resolve(folder: &Path, path: &str) -> PathBuf {
    if CLOUDS.iter().any(|cloud| path.starts_with(cloud)) {
        return path.into();
    }
    if path.is_empty() {
        return folder.to_owned();
    }
    folder.join(path)
}

/// Reads `custom_node_library_config_list`, with the position of each. Of several with one name the last one
/// counts, as if the file had been changed to it.
pub(super) fn libraries(node: &Node<'_>, folder: &Path) -> Vec<(LibraryConfig, FilePosition)> {
    let entries = node.list("libraries").unwrap_or_default();
    let entries = entries.iter().filter_map(|entry| {
        let fields = entry.fields(&["name", "base_path"], &["name", "base_path"])?;
        let name = fields.get("name").and_then(Node::name);
        let base_path = fields.get("base_path");
        let place = base_path.map(Node::place);
        let library = LibraryConfig {
            name: name?.to_owned(),
            base_path: resolve(folder, base_path.and_then(Node::text)?),
        };
        Some((entry, (library, place?)))
    });
    let mut libraries: Vec<(LibraryConfig, FilePosition)> = Vec::new();
    let mut known = HashMap::new();
    for (entry, library) in entries {
        match known.entry(library.0.name.clone()) {
            Entry::Vacant(free) => {
                free.insert((libraries.len(), false));
                libraries.push(library);
            }
            Entry::Occupied(mut taken) => {
                let (index, is_reported) = taken.get_mut();
                if !std::mem::replace(is_reported, true) {
                    let name = &library.0.name;
                    entry.warn(format!(
                        "the library `{name}` is listed more than once; the last one is used"
                    ));
                }
                libraries[*index] = library;
            }
        }
    }
    libraries
}

/// Reads `custom_loader_config_list`, of which nothing is opened.
pub(super) fn loaders(node: &Node<'_>) {
    for entry in node.list("custom loaders").unwrap_or_default() {
        let Some(config) = entry.fields(&["config"], &["config"]) else {
            continue;
        };
        let keys = ["loader_name", "library_path", "loader_config_file"];
        let fields = config
            .get("config")
            .and_then(|it| it.fields(&keys, &keys[..2]));
        if let Some(fields) = fields {
            let name = fields.get("loader_name").and_then(Node::name);
            let _ = (fields.text(keys[1]), fields.text(keys[2]));
            entry.warn(format!(
                "the custom loader `{}` is not opened: this release has no custom loaders",
                name.unwrap_or_default()
            ));
        }
    }
}

/// Reads `monitoring`, with the positions of the names in its list.
pub(super) fn monitoring(node: &Node<'_>) -> Option<(MetricsSettings, Vec<FilePosition>)> {
    let metrics = node.fields(&["metrics"], &["metrics"])?;
    let fields = metrics
        .get("metrics")?
        .fields(&["enable", "metrics_list"], &["enable"])?;
    let enable = fields.get("enable").and_then(Node::flag);
    let (families, places) = match fields.get("metrics_list") {
        None => (None, Vec::new()),
        Some(list) => {
            let names = list.list("metric names").unwrap_or_default();
            let names = names.iter();
            let names = names.filter_map(|it| Some((it.text()?.trim().to_owned(), it.place())));
            let (names, places): (Vec<_>, Vec<_>) = names.unzip();
            (Some(names), places)
        }
    };
    let enable = enable?;
    Some((MetricsSettings { enable, families }, places))
}

/// Maximum number of runs of one request.
const MAX_RUNS: i64 = 1_000_000;

/// Reads one request, or a list of them.
pub(super) fn warmup(node: &Node<'_>, folder: &Path) -> Vec<Warmup> {
    match node.value() {
        Value::Array(_) => node.list("warm-up requests").map_or_else(Vec::new, |list| {
            list.iter()
                .filter_map(|node| one_warmup(node, folder))
                .collect()
        }),
        _ => one_warmup(node, folder).into_iter().collect(),
    }
}

fn one_warmup(node: &Node<'_>, folder: &Path) -> Option<Warmup> {
    let fields = node.fields(&["count", "data", "dynamic_length"], &[])?;
    let number = |key, most| match fields.get(key) {
        Some(node) => node.whole(1, most),
        None => Some(1),
    };
    let count = number("count", MAX_RUNS);
    let dynamic_length = number("dynamic_length", i64::from(i32::MAX));
    let data = match fields.get("data") {
        Some(node) => warmup_data(node, folder),
        None => Some(WarmupData::Zeros),
    };
    Some(Warmup {
        count: u32::try_from(count?).ok()?,
        dynamic_length: usize::try_from(dynamic_length?).ok()?,
        data: data?,
    })
}

fn warmup_data(node: &Node<'_>, folder: &Path) -> Option<WarmupData> {
    let expected = "\"zeros\", \"random\", or an object of .npy files by input name";
    match node.value() {
        Value::StringLit(text) if text.value == "zeros" => Some(WarmupData::Zeros),
        Value::StringLit(text) if text.value == "random" => Some(WarmupData::Random),
        Value::Object(_) => {
            let pairs = node.pairs("files")?;
            let files: Vec<Option<(String, PathBuf)>> = pairs
                .into_iter()
                .map(|(name, node)| Some((name, resolve(folder, node.name()?))))
                .collect();
            files
                .into_iter()
                .collect::<Option<_>>()
                .map(WarmupData::Files)
        }
        _ => node.refuse(expected),
    }
}
