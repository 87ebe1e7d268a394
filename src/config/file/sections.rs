//! The short lists of the file: libraries of custom nodes, custom loaders, and `monitoring`.

use std::path::{Path, PathBuf};

use super::Node;
use crate::config::settings::MetricsSettings;

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
pub(super) fn resolve(folder: &Path, path: &str) -> String {
    if CLOUDS.iter().any(|cloud| path.starts_with(cloud)) {
        return path.to_owned();
    }
    if path.is_empty() {
        return folder.to_string_lossy().into_owned();
    }
    folder.join(path).to_string_lossy().into_owned()
}

/// Reads `custom_node_library_config_list`.
pub(super) fn libraries(node: &Node<'_>, folder: &Path) -> Vec<LibraryConfig> {
    let entries = node.list("libraries").unwrap_or_default();
    let entries = entries.iter().filter_map(|entry| {
        let fields = entry.fields(&["name", "base_path"], &["name", "base_path"])?;
        let name = fields.get("name").and_then(Node::name);
        let base_path = fields.text("base_path");
        Some(LibraryConfig {
            name: name?.to_owned(),
            base_path: resolve(folder, base_path?).into(),
        })
    });
    entries.collect()
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

/// Reads `monitoring`.
pub(super) fn monitoring(node: &Node<'_>) -> Option<MetricsSettings> {
    let metrics = node.fields(&["metrics"], &["metrics"])?;
    let fields = metrics
        .get("metrics")?
        .fields(&["enable", "metrics_list"], &["enable"])?;
    let enable = fields.get("enable").and_then(Node::flag);
    let families = fields.get("metrics_list").map(|list| {
        let names = list.list("metric names").unwrap_or_default();
        let names = names.iter().filter_map(Node::text);
        names.map(|name| name.trim().to_owned()).collect()
    });
    Some(MetricsSettings {
        enable: enable?,
        families,
    })
}
