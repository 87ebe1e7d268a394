//! From flags to checked settings.
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

use std::path::PathBuf;

pub use batching::ParseBatchingError;
pub use file::{
    Connection, Defaults, EditError, EmptyResults, EntryError, FileConfig, FileError,
    FilePositions, GraphConfig, LibraryConfig, ModelEntry, NodeConfig, NodeKind, NodeOutput,
    PipelineConfig, RefusedEntry, add_model, parse, read, read_regular, read_subconfig,
    remove_model,
};
pub use flags::{FLAGS, Flag, FlagEnvironment, FlagError, FlagKind, FlagScope, Flags, SPELLINGS};
pub use preprocessing::PreprocessingError;
pub use settings::{
    AccessLogTarget, ChannelArgument, CheckDepth, LogFormat, MetricsSettings, ModelConfig,
    ServerSettings, StatefulConfig, VersionPolicy, Warmup, WarmupData,
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
    Model(Box<ModelConfig>),
    /// One graph.
    Graph {
        /// The graph.
        graph: Box<GraphConfig>,
        /// Settings that the flags add to its models.
        defaults: Defaults,
    },
    /// A configuration file.
    File {
        /// The file.
        path: PathBuf,
        /// Settings that the flags add to its models.
        defaults: Defaults,
    },
}
