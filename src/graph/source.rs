//! Files that a graph is loaded from.

use std::path::PathBuf;

use crate::python::WorkerOptions;

/// Source files of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphSource {
    /// Name used by clients.
    pub name: String,
    /// Folder that paths of handlers are relative to.
    pub base_path: PathBuf,
    /// Path of the graph file.
    pub graph_path: PathBuf,
    /// How the workers of its Python nodes are run.
    pub workers: WorkerOptions,
}
