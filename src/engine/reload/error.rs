//! Errors of a reload.

use super::paths::PathError;
use crate::{
    config::{EntryError, EntryKind, FileConfig, FileError, RefusedEntry, RepeatedName},
    diagnostic::Diagnostics,
    error::ErrorKind,
    graph::LoadError,
    model::{VersionError, repository::RepositoryError, storage::SourceError},
};

/// One thing that went wrong.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The configuration file is refused as a whole.
    #[error("cannot read the configuration")]
    File(#[source] FileError),
    /// The paths that are served cannot be read.
    #[error(transparent)]
    Paths(PathError),
    /// An entry of the file is refused.
    #[error("model `{name}` of the configuration file is refused{}", at(place))]
    Entry {
        /// The model's name.
        name: String,
        /// Place of the entry, or the error in it.
        place: String,
        /// Reason.
        #[source]
        reason: EntryError,
    },
    /// Two entries have the name of what serves, and the first of them is another one.
    #[error(
        "{} `{}` of the configuration file is refused, at {} and at {}: {}; what serves goes on, and a new start would \
         serve the first - give the name once",
        .0.kind, .0.name, .0.first, .0.again, twice(.0.kind)
    )]
    Repeated(RepeatedName),
    /// A pipeline has a name that is taken.
    #[error("Validation of pipeline definition: {} failed: {}, at {}", .0.name, .0.reason, .0.place)]
    PipelineEntry(RefusedEntry),
    /// A graph has a name that is taken.
    #[error(
        "Mediapipe graph name: {} is already occupied by model or pipeline. {}, at {}",
        .0.name, .0.reason, .0.place
    )]
    GraphEntry(RefusedEntry),
    /// Contents of the folder of a graph beside others cannot be served.
    #[error("{}", .0.reason)]
    OfFolder(RefusedEntry),
    /// A graph cannot be loaded.
    #[error("Loading mediapipe graph definition: {name} failed: {error}")]
    Graph {
        /// The graph's name.
        name: String,
        /// Reason.
        error: LoadError,
    },
    /// The file with the models of a graph is refused.
    #[error("cannot read the subconfig of graph `{graph}`; its models are not loaded from it")]
    Subconfig {
        /// The graph's name.
        graph: String,
        /// Reason.
        #[source]
        source: FileError,
    },
    /// The model repository cannot be read.
    #[error("cannot load model `{model}`{}", at(place))]
    Repository {
        /// The model's name.
        model: String,
        /// Position of a base path with `..` in the file; empty of any other.
        place: String,
        /// Cause.
        #[source]
        source: SourceError,
    },
    /// A version cannot be loaded.
    #[error(transparent)]
    Version(#[from] VersionError),
    /// A pipeline is refused by its check.
    #[error("Validation of pipeline definition: {name} failed: {}", errors.status())]
    Pipeline {
        /// The pipeline's name.
        name: String,
        /// Everything that the check has found.
        #[source]
        errors: Box<Diagnostics>,
    },
    /// A model that a pipeline uses is to become one that pipelines cannot use.
    #[error("{text} - model `{model}`, pipeline `{pipeline}`; it goes on as before")]
    Subscribed {
        /// The text that clients know.
        text: &'static str,
        /// The model's name.
        model: String,
        /// The pipeline's name.
        pipeline: String,
    },
    /// A model with state is to go on without it, or the other way round.
    #[error(
        "Model type cannot be changed after it is loaded - `stateful` of model `{model}` was \
         {before}; it goes on as before"
    )]
    Type {
        /// The model's name.
        model: String,
        /// Indicates that it was configured before.
        before: bool,
    },
}

impl ReloadError {
    /// Makes the error of an entry that is refused by itself.
    pub(super) fn refused(entry: RefusedEntry) -> Self {
        match entry.reason {
            EntryError::PipelineName => Self::PipelineEntry(entry),
            EntryError::GraphName => Self::GraphEntry(entry),
            EntryError::OfFolder(_) => Self::OfFolder(entry),
            reason => Self::Entry {
                name: entry.name,
                place: entry.place.to_string(),
                reason,
            },
        }
    }

    /// Adds the position of the base path, if it is that which is wrong in the file.
    pub(super) fn placed(mut self, config: &FileConfig) -> Self {
        if let Self::Repository { model, place, .. } = &mut self {
            *place = config
                .upward(model)
                .map_or_else(String::new, ToString::to_string);
        }
        self
    }

    /// Returns whether something of a configuration is not taken over, as opposed to what cannot be loaded.
    pub(super) fn is_of_configuration(&self) -> bool {
        match self {
            Self::File(_)
            | Self::Paths(_)
            | Self::Entry { .. }
            | Self::Repeated(_)
            | Self::PipelineEntry(_)
            | Self::GraphEntry(_)
            | Self::OfFolder(_)
            | Self::Subconfig { .. }
            | Self::Subscribed { .. }
            | Self::Type { .. } => true,
            Self::Graph { .. }
            | Self::Repository { .. }
            | Self::Version(_)
            | Self::Pipeline { .. } => false,
        }
    }

    /// Returns whether it is of the load of a model.
    pub(super) fn is_of_model(&self, name: &str) -> bool {
        match self {
            Self::Version(error) => error.model == name,
            Self::Repository { model, .. } | Self::Type { model, .. } => model == name,
            _ => false,
        }
    }

    /// Returns whether it is about the file with the models of a graph.
    pub(super) fn is_of_subconfig(&self) -> bool {
        matches!(self, Self::Subconfig { .. })
    }

    /// Returns what a client that asked for the reload can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::File(FileError::Read { .. }) | Self::Paths(_) => ErrorKind::Internal,
            Self::File(_) | Self::Subconfig { .. } | Self::OfFolder(_) => {
                ErrorKind::FailedPrecondition
            }
            Self::Repository {
                source: SourceError::Local(RepositoryError::BasePath { .. }),
                ..
            } => ErrorKind::InvalidArgument,
            Self::Version(error) => error.source.kind(),
            Self::Pipeline { .. } | Self::Graph { .. } | Self::Subscribed { .. } => {
                ErrorKind::FailedPrecondition
            }
            Self::PipelineEntry(_)
            | Self::GraphEntry(_)
            | Self::Entry { .. }
            | Self::Repeated(_)
            | Self::Repository { .. }
            | Self::Type { .. } => ErrorKind::Internal,
        }
    }
}

/// Returns the text that clients know for a name that two entries of a kind have.
fn twice(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Model => "Given model name is already occupied",
        EntryKind::Pipeline => "Duplicated pipeline names",
        EntryKind::Graph => "Duplicated mediapipe names",
    }
}

/// Names a place, if it is known.
fn at(place: &str) -> String {
    if place.is_empty() {
        String::new()
    } else {
        format!(", at {place}")
    }
}
