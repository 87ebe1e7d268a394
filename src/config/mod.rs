//! Conversion of flags to checked settings.
//!
//! [`Flags`] are the flags as typed; [`Config::from_flags`] checks them in the order, and with
//! the texts, that start scripts of model servers know. Nothing is checked again later.

mod batching;
mod file;
mod flags;
mod plugin;
mod preprocessing;
mod settings;
mod shape;
mod version_policy;

use std::path::{Path, PathBuf};

pub use batching::ParseBatchingError;
pub use file::{
    Connection, Defaults, EditError, EmptyResults, EntryError, EntryKind, FileConfig, FileError,
    FilePositions, GraphConfig, LibraryConfig, ModelEntry, NodeConfig, NodeKind, NodeOutput,
    PipelineConfig, RefusedEntry, RepeatedName, add_model, config_of_folder, model_settings, parse,
    read, read_regular, read_subconfig, remove_model,
};
pub use flags::{
    ClosedPorts, FLAGS, Flag, FlagEnvironment, FlagError, FlagKind, FlagScope, Flags, SPELLINGS,
};
pub use preprocessing::PreprocessingError;
pub use settings::{
    AccessLogTarget, ChannelArgument, CheckDepth, ClientAuth, LogFormat, MetricsSettings,
    ModelConfig, ServerSettings, StatefulConfig, TlsSettings, TlsVersion, VersionPolicy, Warmup,
    WarmupData,
};
pub use shape::ParseShapeError;
pub use version_policy::PolicyError;

/// Everything that the server needs to know to start.
#[derive(Debug, Clone)]
pub struct Config {
    /// Ports, addresses and limits.
    pub settings: ServerSettings,
    /// Source of the models and graphs to serve.
    pub source: ConfigSource,
    /// Ignored settings, for the log.
    pub warnings: Vec<String>,
}

/// Source of the configuration: one model or graph from flags, or a file.
#[derive(Debug, Clone)]
pub enum ConfigSource {
    /// One model.
    Model {
        /// The model.
        model: Box<ModelConfig>,
        /// Settings of the flags for a graph, which its folder may come to hold.
        defaults: Defaults,
        /// Names of given flags that are for models and for no graph.
        unfit: Vec<&'static str>,
    },
    /// One graph.
    Graph {
        /// The graph.
        graph: Box<GraphConfig>,
        /// Settings that the flags add to its models.
        defaults: Defaults,
    },
    /// Models and graphs that are named by their paths.
    Paths(Box<PathSource>),
    /// A configuration file.
    File {
        /// The file.
        path: PathBuf,
        /// Settings that the flags add to its models.
        defaults: Defaults,
    },
}

/// Models and graphs that are named by their paths: files, folders, and repositories, which are followed.
#[derive(Debug, Clone)]
pub struct PathSource {
    /// Model files, folders of models and graphs, and repositories, as given.
    pub paths: Vec<PathBuf>,
    /// Folder of one folder per model or graph.
    pub repository: Option<PathBuf>,
    /// Name of the one model, in place of that of its file.
    pub name: Option<String>,
    /// Settings of each model; name and base path are empty.
    pub model: ModelConfig,
    /// Names of given flags that are for models and for no graph.
    pub unfit: Vec<&'static str>,
    /// Names of given flags about the inputs of a model, which few models have in common.
    pub of_tensors: Vec<&'static str>,
    /// Settings that the flags add to models of graphs.
    pub defaults: Defaults,
}

impl PathSource {
    /// Makes the model of a file or folder.
    pub fn model_of(&self, name: &str, base_path: &Path) -> ModelConfig {
        ModelConfig {
            name: name.to_owned(),
            base_path: base_path.to_string_lossy().into_owned(),
            ..self.model.clone()
        }
    }

    /// Finds the graph of a folder.
    pub fn graph_of(name: &str, folder: &Path) -> Option<GraphConfig> {
        GraphConfig::find(name, folder, None, None)
    }
}
