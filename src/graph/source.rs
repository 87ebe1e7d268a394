//! Files that a graph is loaded from.

use std::path::PathBuf;

use crate::{config::GraphConfig, python::WorkerOptions};

/// Source files of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphSource {
    /// Name used by clients.
    pub name: String,
    /// Folder that paths of handlers are relative to.
    pub base_path: PathBuf,
    /// Path of the graph file.
    pub graph_path: PathBuf,
    /// Options of the workers of its Python nodes.
    pub workers: WorkerOptions,
}

impl GraphSource {
    /// Creates the source of an entry of the configuration file.
    pub fn of(config: &GraphConfig) -> Self {
        Self {
            name: config.name.clone(),
            base_path: config.base_path.clone(),
            graph_path: config.graph_path.clone(),
            workers: config.workers.clone(),
        }
    }
}
