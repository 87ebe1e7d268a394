//! Entries that are refused by themselves, and names that are taken.

use std::{
    collections::{HashMap, hash_map::Entry},
    path::PathBuf,
};

use super::RepeatedName;
use crate::{
    config::{preprocessing::PreprocessingError, shape::ParseShapeError},
    diagnostic::FilePosition,
    tensor::LayoutError,
};

/// Reason an entry is refused. Clients of a reload and readers of logs know these texts; the value
/// that was found follows them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// Another entry has the name.
    #[error("Given model name is already occupied")]
    Occupied,
    /// A pipeline with the name of a model.
    #[error("Pipeline has the same name as model")]
    PipelineName,
    /// A setting of sequences for a model without state: the key.
    #[error("Stateful model config parameter used for non stateful model - {0}")]
    NotStateful(&'static str),
    /// More sequences than 32 bits count.
    #[error("Sequence max number parameter too high - {0}; at most 4294967295")]
    SequenceNumber(String),
    /// A model with state whose shape or batch size is `auto`.
    #[error("Dynamic shape and dynamic batch size are not supported for stateful models")]
    StatefulAuto,
    /// A model with state and `dynamic_batching`.
    #[error("dynamic_batching is for models without state; use sequence_batch")]
    BatchingStateful,
    /// A text that is no shape.
    #[error(transparent)]
    Shape(#[from] ParseShapeError),
    /// A text that is no layout.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A text that says nothing of how the input is preprocessed.
    #[error(transparent)]
    Preprocessing(#[from] PreprocessingError),
    /// A base path below a folder whose name is not UTF-8.
    #[error(
        "base_path is relative to the folder of the file, which is not UTF-8 - {0:?}; rename the folder"
    )]
    Folder(PathBuf),
    /// `allow_cache` with a custom loader.
    #[error("allow_cache is set to true with custom loader usage")]
    CacheWithLoader,
    /// A model of a custom loader.
    #[error("models of custom loaders are not served by this release")]
    CustomLoader,
    /// A graph with the name of a model or pipeline.
    #[error("Given mediapipe graph name is already occupied")]
    GraphName,
    /// A graph where only models may be.
    #[error(
        "a subconfig names models alone - found the graph {0}; name it in the file of the server"
    )]
    Graph(String),
    /// Contents of the folder of a graph beside others that are not served: the whole text.
    #[error("{0}")]
    OfFolder(String),
}

/// Kind of servable that occupies a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum EntryKind {
    /// A model.
    Model,
    /// A pipeline.
    Pipeline,
    /// A graph.
    Graph,
}

/// The names that are taken: models, pipelines and graphs share one space.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: HashMap<String, (EntryKind, FilePosition)>,
    /// Names that several entries of one kind have.
    pub(super) repeated: Vec<RepeatedName>,
}

impl Names {
    /// Takes a name for the entry at a place, unless something of another or the same kind has it.
    pub(super) fn take(
        &mut self,
        name: &str,
        kind: EntryKind,
        place: impl FnOnce() -> FilePosition,
    ) -> Result<(), EntryKind> {
        match self.taken.entry(name.to_owned()) {
            Entry::Occupied(taken) => {
                let (by, first) = taken.get();
                if *by == kind {
                    self.repeated.push(RepeatedName {
                        name: name.to_owned(),
                        kind,
                        first: first.clone(),
                        again: place(),
                    });
                }
                Err(*by)
            }
            Entry::Vacant(free) => {
                free.insert((kind, place()));
                Ok(())
            }
        }
    }
}
