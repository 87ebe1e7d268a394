//! Files that a graph is loaded from.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

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

/// Reads a graph file as text. Bytes that are not UTF-8, as in comments in another encoding, are replaced. Blocks.
///
/// # Errors
///
/// Fails if it cannot be read, or is no regular file: others, such as pipes, may block for ever.
pub fn read_graph(path: &Path) -> io::Result<String> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}
