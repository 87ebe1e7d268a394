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

/// A custom model loader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomLoaderConfig {
    /// The name that models use.
    pub loader_name: String,
    /// The shared library, resolved.
    pub library_path: PathBuf,
    /// The loader's own file, resolved.
    pub loader_config_file: Option<PathBuf>,
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

/// Reads `custom_loader_config_list`.
pub(super) fn loaders(node: &Node<'_>, folder: &Path) -> Vec<CustomLoaderConfig> {
    let entries = node.list("custom loaders").unwrap_or_default();
    let entries = entries.iter().filter_map(|entry| {
        let config = entry.fields(&["config"], &["config"])?;
        let keys = ["loader_name", "library_path", "loader_config_file"];
        let fields = config.get("config")?.fields(&keys, &keys[..2])?;
        let name = fields.get("loader_name").and_then(Node::name);
        let library = fields.text("library_path");
        let file = fields.text("loader_config_file");
        entry.warn(format!(
            "the custom loader `{}` is not opened: this release has no custom loaders",
            name.unwrap_or_default()
        ));
        Some(CustomLoaderConfig {
            loader_name: name?.to_owned(),
            library_path: resolve(folder, library?).into(),
            loader_config_file: file.map(|file| resolve(folder, file).into()),
        })
    });
    entries.collect()
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
