//! Entries that are refused by themselves, and names that are taken.

use std::collections::{HashMap, hash_map::Entry};

use crate::{
    config::{preprocessing::PreprocessingError, shape::ParseShapeError},
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
    SequenceNumber(i64),
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Model,
    Pipeline,
    Graph,
}

/// The names that are taken: models, pipelines and graphs share one space.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<String, Kind>);

impl Names {
    /// Takes a name, unless something of another or the same kind has it.
    pub(super) fn take(&mut self, name: &str, kind: Kind) -> Result<(), Kind> {
        match self.0.entry(name.to_owned()) {
            Entry::Occupied(taken) => Err(*taken.get()),
            Entry::Vacant(free) => {
                free.insert(kind);
                Ok(())
            }
        }
    }
}
