//! The configuration file: `config.json` to settings, with every fault of a file in one answer.
//!
//! [`parse`] is pure but for the look for graph files beside models. `syntax` makes JSON of bytes,
//! `node` reads values and collects faults, `models`, `pipelines` and `sections` know the keys, and
//! `edit` adds and removes models in the text of a file.

mod edit;
mod entry;
mod fault;
mod graphs;
mod models;
mod node;
mod pipelines;
mod sections;
mod syntax;
mod warmup;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

pub use edit::{EditError, add_model, remove_model};
pub use entry::EntryFault;
pub use fault::{ConfigurationError, FilePosition, FilePositions, Warning};
pub use graphs::GraphConfig;
pub use pipelines::{Connection, EmptyResults, NodeConfig, NodeKind, NodeOutput, PipelineConfig};
pub use sections::{CustomLoaderConfig, LibraryConfig};

pub(in crate::config) use node::{Findings, Node};
pub(in crate::config) use syntax::Source;

use super::{MetricsSettings, ModelConfig};
use crate::{budget::Budget, openvino::Placement, tensor::images::PixelLimit};

/// What the flags of the server add to the models of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Defaults {
    /// How many requests of a model may wait for an infer request.
    pub most_waiting: usize,
    /// How many runs of one custom node may be under way.
    pub most_custom_runs: usize,
    /// How long custom nodes may take to be opened, made and described.
    pub custom_load: Duration,
    /// How many runs of one graph may be under way.
    pub most_graph_runs: usize,
    /// How long a graph may take to load.
    pub graph_load: Duration,
    /// Whether clients are not told what Python nodes raise.
    pub hide_python_errors: bool,
    /// The most pixels of an encoded image that an input takes.
    pub most_image_pixels: PixelLimit,
    /// What requests and answers may take of the memory.
    pub budget: Budget,
    /// Where compiled models are kept.
    pub cache_dir: Option<PathBuf>,
    /// A library with more operations for the CPU.
    pub cpu_extension: Option<PathBuf>,
    /// How long an inference may take before its client is answered.
    pub inference_timeout: Option<Duration>,
    /// The shortest time between two replacements of a compiled model after failed inferences.
    pub recovery_interval: Duration,
    /// Whether clients are not told why an inference failed.
    pub hide_inference_errors: bool,
    /// On which threads models run; no flag sets it.
    pub placement: Placement,
}

/// A configuration file that is valid as a whole; single entries may still be refused.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FileConfig {
    /// The models, in the order of the file.
    pub models: Vec<ModelEntry>,
    /// The pipelines, in the order of the file.
    pub pipelines: Vec<PipelineConfig>,
    /// The libraries of custom nodes.
    pub custom_node_libraries: Vec<LibraryConfig>,
    /// The graphs.
    pub graphs: Vec<GraphConfig>,
    /// The custom model loaders.
    pub custom_loaders: Vec<CustomLoaderConfig>,
    /// Entries that are no models and are refused by themselves.
    pub refused: Vec<RefusedEntry>,
    /// What `monitoring` says of metrics; it counts only at the start.
    pub monitoring: Option<MetricsSettings>,
    /// What is served, though perhaps not as meant, and what is not served yet.
    pub warnings: Vec<Warning>,
}

/// One entry of `model_config_list`.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEntry {
    /// To be served.
    Model(Box<ModelConfig>),
    /// Refused by itself, while the others are served.
    Refused {
        /// The name.
        name: String,
        /// Why, with the text that clients of a reload know.
        reason: EntryFault,
        /// Where in the file.
        place: FilePosition,
    },
}

/// An entry of another list that is refused by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedEntry {
    /// The name.
    pub name: String,
    /// Why.
    pub reason: EntryFault,
    /// Where in the file.
    pub place: FilePosition,
}

/// Why a file is refused as a whole.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read the configuration file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// It is no JSON.
    #[error("The file is not valid json - the configuration file {}:{fault}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where it ends to be JSON.
        fault: Box<ConfigurationError>,
    },
    /// It is JSON with other keys and values than a configuration file has.
    #[error(
        "The file is not valid json - the configuration file {} has {}",
        path.display(),
        listed(faults, *more)
    )]
    Schema {
        /// The file.
        path: PathBuf,
        /// Every fault, in the order of the file; never empty.
        faults: Vec<ConfigurationError>,
        /// Further faults, if there are very many.
        more: usize,
    },
}

impl FileError {
    /// Returns the faults within the file; none if it could not be read.
    #[must_use]
    pub fn faults(&self) -> &[ConfigurationError] {
        match self {
            Self::Read { .. } => &[],
            Self::Syntax { fault, .. } => std::slice::from_ref(fault),
            Self::Schema { faults, .. } => faults,
        }
    }
}

/// Writes `1 fault: …` or `2 faults: …; …`.
fn listed(faults: &[ConfigurationError], more: usize) -> String {
    let number = faults.len() + more;
    let mut text = format!("{number} fault{}: ", if number == 1 { "" } else { "s" });
    for (index, fault) in faults.iter().enumerate() {
        if index > 0 {
            text.push_str("; ");
        }
        text.push_str(&fault.to_string());
    }
    if more > 0 {
        text.push_str("; …");
    }
    text
}

/// The largest file that is read, in bytes.
const LARGEST: u64 = 64 << 20;

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
        let content = content(path).map_err(|source| FileError::Read {
            path: path.to_owned(),
            source,
        })?;
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
    let mut file = std::fs::File::open(path)?.take(LARGEST + 1);
    file.read_to_end(&mut content)?;
    if content.len() as u64 > LARGEST {
        return Err(std::io::Error::other(format!(
            "it has more than {LARGEST} bytes"
        )));
    }
    Ok(content)
}

/// Reads the content of a configuration file. `path` is for messages, and relative paths in the
/// file resolve against its folder.
///
/// # Errors
///
/// Fails with every fault found.
pub fn parse(content: &[u8], path: &Path, defaults: &Defaults) -> Result<FileConfig, FileError> {
    let read = |node: &Node<'_>, folder: &Path| root(node, folder, defaults);
    let (config, warnings) = parse_as(content, path, read)?;
    Ok(FileConfig {
        warnings,
        ..config.unwrap_or_default()
    })
}

/// Reads the content of a file, logs its warnings and returns them.
fn parse_as<T>(
    content: &[u8],
    path: &Path,
    read: impl FnOnce(&Node<'_>, &Path) -> Option<T>,
) -> Result<(Option<T>, Vec<Warning>), FileError> {
    let syntax = |fault| FileError::Syntax {
        path: path.to_owned(),
        fault,
    };
    let source = Source::new(content).map_err(syntax)?;
    let value = source.parse().map_err(syntax)?;
    let findings = Findings::new(&source);
    let config = read(&Node::root(&value, &findings), &folder(path));
    let (faults, more, warnings) = findings.into_parts();
    if !faults.is_empty() {
        return Err(FileError::Schema {
            path: path.to_owned(),
            faults,
            more,
        });
    }
    for warning in &warnings {
        tracing::warn!("{}:{warning}", path.display());
    }
    Ok((config, warnings))
}

/// The models that a graph brings along.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Subconfig {
    /// The models, in the order of the file.
    pub models: Vec<ModelEntry>,
    /// What is served, though perhaps not as meant.
    pub warnings: Vec<Warning>,
}

/// Reads a file with the models of a graph from disk: a `model_config_list` and nothing else. `None` if
/// there is no such file. Blocks.
///
/// # Errors
///
/// Fails as [`read`] does.
pub fn read_subconfig(path: &Path, defaults: &Defaults) -> Result<Option<Subconfig>, FileError> {
    let fault = |source| FileError::Read {
        path: path.to_owned(),
        source,
    };
    match path.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        // A pipe would be waited for.
        Ok(found) if !found.is_file() => {
            return Err(fault(std::io::Error::other("it is no file")));
        }
        _ => {}
    }
    let content = content(path).map_err(fault)?;
    let read = |node: &Node<'_>, folder: &Path| {
        let list = ["model_config_list"];
        let fields = node.fields(&list, &list)?;
        let (mut names, mut graphs) = (entry::Names::default(), graphs::Graphs::default());
        let taken = (&mut names, &mut graphs);
        let mut models = models::list(fields.get(list[0])?, folder, defaults, taken);
        let refused = graphs.graphs.into_iter().map(|graph| ModelEntry::Refused {
            name: graph.name,
            reason: EntryFault::Graph(graph.graph_path.display().to_string()),
            place: graph.place,
        });
        models.extend(refused);
        Some(models)
    };
    let (models, warnings) = parse_as(&content, path, read)?;
    Ok(Some(Subconfig {
        models: models.unwrap_or_default(),
        warnings,
    }))
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
    let mut names = entry::Names::default();
    let mut graphs = graphs::Graphs::default();
    if let Some(list) = fields.get("model_config_list") {
        config.models = models::list(list, folder, defaults, (&mut names, &mut graphs));
    }
    if let Some(list) = fields.get("custom_node_library_config_list") {
        config.custom_node_libraries = sections::libraries(list, folder);
    }
    if let Some(list) = fields.get("pipeline_config_list") {
        (config.pipelines, config.refused) = pipelines::list(list, &mut names);
    }
    if let Some(list) = fields.get("mediapipe_config_list") {
        graphs.list(list, folder, &mut names);
    }
    config.graphs = graphs.graphs;
    config.refused.extend(graphs.refused);
    if let Some(list) = fields.get("custom_loader_config_list") {
        config.custom_loaders = sections::loaders(list, folder);
    }
    config.monitoring = fields.get("monitoring").and_then(sections::monitoring);
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
