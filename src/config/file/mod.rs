//! The configuration file: `config.json` to settings, with all errors of a file reported together.
//!
//! [`parse`] is pure but for the look for graph files beside models. `syntax` makes JSON of bytes,
//! `node` reads values and collects errors, `models`, `pipelines` and `sections` know the keys, and
//! `edit` adds and removes models in the text of a file.

mod edit;
mod entry;
mod folder;
mod graphs;
mod models;
mod node;
mod pipelines;
mod sections;
mod syntax;

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::Arc,
};

use self::syntax::without_mark;
use super::{
    flags::Flags,
    settings::{MetricsSettings, ModelConfig},
};
use crate::{
    budget::Budget,
    diagnostic::{Diagnostic, FilePosition},
    openvino::Placement,
};

pub use edit::{EditError, add_model, model_settings, remove_model};
pub use entry::{EntryError, EntryKind};
pub use folder::config_of_folder;
pub use graphs::GraphConfig;
pub use node::FilePositions;
pub use pipelines::{Connection, EmptyResults, NodeConfig, NodeKind, NodeOutput, PipelineConfig};
pub use sections::LibraryConfig;

pub(in crate::config) use node::{Findings, Node};
pub(in crate::config) use syntax::Source;

/// Settings that the server provides for all models, pipelines, and graphs of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Defaults {
    /// The flags, without those of a single model.
    pub flags: Arc<Flags>,
    /// Memory budget of requests and responses.
    pub budget: Budget,
    /// Part of the memory budget for the compiled models of batches.
    pub batch_budget: Budget,
    /// Threads that models run on; no flag sets it.
    pub placement: Placement,
}

/// A configuration file that is valid as a whole; single entries may still be refused.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FileConfig {
    /// The models, in the order of the file.
    pub models: Vec<ModelEntry>,
    /// Base paths of the models.
    pub base_paths: Vec<BasePath>,
    /// Files that would make a graph of a model, by its name: each of them may come.
    pub graph_files: BTreeMap<String, Vec<PathBuf>>,
    /// The pipelines, in the order of the file.
    pub pipelines: Vec<PipelineConfig>,
    /// The libraries of custom nodes, each name once.
    pub custom_node_libraries: Vec<LibraryConfig>,
    /// Positions of their entries.
    pub library_places: Vec<FilePosition>,
    /// The graphs.
    pub graphs: Vec<GraphConfig>,
    /// Entries other than models that are refused by themselves.
    pub refused: Vec<RefusedEntry>,
    /// Names that several entries of one kind have, of which the first counts.
    pub repeated: Vec<RepeatedName>,
    /// Metrics settings from `monitoring`; applied only at startup.
    pub monitoring: Option<MetricsSettings>,
    /// Positions of the names in its `metrics_list`.
    pub metric_places: Vec<FilePosition>,
    /// Settings that are served, though perhaps not as meant, and those not served yet.
    pub warnings: Vec<Diagnostic>,
}

impl FileConfig {
    /// Returns the position of the base path of a model, if it goes through `..`.
    pub fn upward(&self, model: &str) -> Option<&FilePosition> {
        let found = self.base_path_of(model).filter(|it| it.goes_up);
        found.map(|it| &it.place)
    }

    /// Returns the position of a key of a model, or that of its base path if it does not have the key.
    pub fn key(&self, model: &str, key: &str) -> Option<&FilePosition> {
        let found = self.base_path_of(model)?;
        Some(found.keys.get(key).unwrap_or(&found.place))
    }

    fn base_path_of(&self, model: &str) -> Option<&BasePath> {
        self.base_paths.iter().find(|it| it.model == model)
    }
}

/// Base path of a model, as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BasePath {
    /// Name of the model.
    pub model: String,
    /// Position of the base path.
    pub place: FilePosition,
    /// Positions of all keys of the model.
    pub keys: FilePositions,
    /// Marks a path through `..`, which is not accepted.
    pub goes_up: bool,
}

/// Entry of `model_config_list`.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEntry {
    /// Model to be served.
    Model(Box<ModelConfig>),
    /// Refused by itself, while the others are served.
    Refused(RefusedEntry),
}

impl ModelEntry {
    /// Returns the name.
    pub fn name(&self) -> &str {
        match self {
            Self::Model(model) => &model.name,
            Self::Refused(refused) => &refused.name,
        }
    }
}

/// An entry that is refused by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedEntry {
    /// The name.
    pub name: String,
    /// Reason, in the text that clients of a reload know.
    pub reason: EntryError,
    /// Position in the file.
    pub place: FilePosition,
}

/// Name that two entries of one kind have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepeatedName {
    /// The name.
    pub name: String,
    /// Kind of both entries.
    pub kind: EntryKind,
    /// Position of the first entry, or of its name.
    pub first: FilePosition,
    /// Position of the other one.
    pub again: FilePosition,
}

/// Error that makes a file unusable as a whole.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// File that cannot be read.
    #[error("cannot read the configuration file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error from the operating system.
        source: std::io::Error,
    },
    /// Text that is no JSON.
    #[error("The file is not valid json - the configuration file {}:{error}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Text of the file.
        text: String,
        /// Error at the position at which the JSON becomes invalid.
        error: Box<Diagnostic>,
    },
    /// JSON with other keys and values than a configuration file has.
    #[error(
        "The file is not valid json for a configuration - the configuration file {} has {}",
        path.display(),
        listed(errors, *more)
    )]
    Schema {
        /// The file.
        path: PathBuf,
        /// Text of the file.
        text: String,
        /// All errors, in file order; never empty.
        errors: Vec<Diagnostic>,
        /// Number of further errors, if there are very many.
        more: usize,
    },
}

impl FileError {
    /// Returns the errors within the file; none if it could not be read.
    pub fn errors(&self) -> &[Diagnostic] {
        match self {
            Self::Read { .. } => &[],
            Self::Syntax { error, .. } => std::slice::from_ref(error),
            Self::Schema { errors, .. } => errors,
        }
    }
}

/// Writes `1 error: …` or `2 errors: …; …`.
fn listed(errors: &[Diagnostic], more: usize) -> String {
    let number = errors.len() + more;
    let mut text = format!("{number} error{}: ", if number == 1 { "" } else { "s" });
    for (index, error) in errors.iter().enumerate() {
        if index > 0 {
            text.push_str("; ");
        }
        text.push_str(&error.to_string());
    }
    if more > 0 {
        text.push_str("; …");
    }
    text
}

/// Maximum size of a file, in bytes.
const MAX_FILE_SIZE: u64 = 64 << 20;

/// Reads a configuration file from disk. Blocks.
///
/// A file that is no JSON may be one that is being written: it is read up to three times, 10 ms
/// apart.
///
/// # Errors
///
/// Fails as [`parse`] does, and if the file cannot be read.
pub fn read(path: &Path, defaults: &Defaults) -> Result<FileConfig, FileError> {
    let mut tries = 1;
    loop {
        let content = content(path).map_err(unreadable(path))?;
        match parse(&content, path, defaults) {
            Err(FileError::Syntax { .. }) if tries < 3 => {
                tries += 1;
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            result => return result,
        }
    }
}

/// Reads the bytes of a file that is not too large.
fn content(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut content = Vec::new();
    let mut file = std::fs::File::open(path)?.take(MAX_FILE_SIZE + 1);
    file.read_to_end(&mut content)?;
    if content.len() as u64 > MAX_FILE_SIZE {
        return Err(std::io::Error::other(format!(
            "it has more than {MAX_FILE_SIZE} bytes"
        )));
    }
    Ok(content)
}

/// Reads the bytes of a file, which must not be a pipe: that would be waited for.
///
/// # Errors
///
/// Fails if it cannot be read, or is no regular file or too large.
pub fn read_regular(path: &Path) -> Result<Vec<u8>, FileError> {
    let is_file = path.metadata().map_err(unreadable(path))?.is_file();
    let found = match is_file {
        true => content(path),
        false => Err(std::io::Error::other("it is no file")),
    };
    found.map_err(unreadable(path))
}

fn unreadable(path: &Path) -> impl FnOnce(std::io::Error) -> FileError {
    move |source| FileError::Read {
        path: path.to_owned(),
        source,
    }
}

/// Reads the content of a configuration file. `path` is for messages, and relative paths in the
/// file resolve against its folder.
///
/// # Errors
///
/// Fails with all errors found.
pub fn parse(content: &[u8], path: &Path, defaults: &Defaults) -> Result<FileConfig, FileError> {
    let read = |node: &Node<'_>, folder: &Path| root(node, folder, defaults);
    parse_as(content, path, read)
}

/// Reads the content of a file by its root, and logs its warnings.
fn parse_as(
    content: &[u8],
    path: &Path,
    read: impl FnOnce(&Node<'_>, &Path) -> Option<FileConfig>,
) -> Result<FileConfig, FileError> {
    let text = || String::from_utf8_lossy(without_mark(content)).into_owned();
    let syntax = |error| FileError::Syntax {
        path: path.to_owned(),
        text: text(),
        error,
    };
    let source = Source::new(content).map_err(syntax)?;
    let value = source.parse().map_err(syntax)?;
    let findings = Findings::new(&source);
    let config = read(&Node::root(&value, &findings), &folder(path));
    let (errors, more, warnings) = findings.into_parts();
    if !errors.is_empty() {
        return Err(FileError::Schema {
            path: path.to_owned(),
            text: text(),
            errors,
            more,
        });
    }
    for warning in &warnings {
        tracing::warn!("{}:{warning}", path.display());
    }
    let mut config = FileConfig {
        warnings,
        ..config.unwrap_or_default()
    };
    let of_graphs = config.graphs.iter_mut().map(|it| &mut it.workers);
    let of_pipelines = config.pipelines.iter_mut().map(|it| &mut it.workers);
    for workers in of_graphs.chain(of_pipelines) {
        if let Some(environment) = &mut workers.environment {
            environment.file = path.display().to_string();
        }
    }
    Ok(config)
}

/// Reads a file with the models of a graph from disk: a `model_config_list` and nothing else. `None` if
/// there is no such file. Blocks.
///
/// # Errors
///
/// Fails as [`read`] does.
pub fn read_subconfig(path: &Path, defaults: &Defaults) -> Result<Option<FileConfig>, FileError> {
    let content = match read_regular(path) {
        Err(FileError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => {
            return Ok(None);
        }
        content => content?,
    };
    let read = |node: &Node<'_>, folder: &Path| {
        let list = ["model_config_list"];
        let fields = node.fields(&list, &list)?;
        let mut graphs = graphs::Graphs::default();
        let list = fields.get(list[0])?;
        let (mut models, ..) = models::list(list, folder, defaults, &mut graphs);
        let refused = graphs.graphs.into_iter().map(|graph| RefusedEntry {
            name: graph.name,
            reason: EntryError::Graph(graph.graph_path.display().to_string()),
            place: graph.place,
        });
        models.extend(refused.map(ModelEntry::Refused));
        Some(FileConfig {
            models,
            repeated: graphs.names.repeated,
            ..FileConfig::default()
        })
    };
    parse_as(&content, path, read).map(Some)
}

/// Reads the root object.
fn root(node: &Node<'_>, folder: &Path, defaults: &Defaults) -> Option<FileConfig> {
    let fields = node.fields(
        &[
            "model_config_list",
            "pipeline_config_list",
            "custom_node_library_config_list",
            "mediapipe_config_list",
            "custom_loader_config_list",
            "monitoring",
        ],
        &["model_config_list"],
    )?;
    let mut config = FileConfig::default();
    let mut graphs = graphs::Graphs::default();
    if let Some(list) = fields.get("model_config_list") {
        (config.models, config.base_paths, config.graph_files) =
            models::list(list, folder, defaults, &mut graphs);
    }
    if let Some(list) = fields.get("custom_node_library_config_list") {
        let libraries = sections::libraries(list, folder).into_iter();
        (config.custom_node_libraries, config.library_places) = libraries.unzip();
    }
    if let Some(list) = fields.get("pipeline_config_list") {
        (config.pipelines, config.refused) = pipelines::list(list, folder, &mut graphs.names);
    }
    if let Some(list) = fields.get("mediapipe_config_list") {
        graphs.list(list, folder);
    }
    config.graphs = graphs.graphs;
    config.refused.extend(graphs.refused);
    config.repeated = graphs.names.repeated;
    if let Some(list) = fields.get("custom_loader_config_list") {
        sections::loaders(list);
    }
    if let Some((monitoring, places)) = fields.get("monitoring").and_then(sections::monitoring) {
        config.monitoring = Some(monitoring);
        config.metric_places = places;
    }
    Some(config)
}

/// Returns the folder of a file, without `..`: a path through those is not accepted further down.
fn folder(file: &Path) -> PathBuf {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let through_parent = folder
        .components()
        .any(|part| part == std::path::Component::ParentDir);
    let resolved = if through_parent {
        folder.canonicalize()
    } else {
        std::path::absolute(folder)
    };
    resolved.unwrap_or_else(|_| folder.to_owned())
}

#[cfg(test)]
mod tests;
