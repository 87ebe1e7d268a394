//! Errors of a pipeline: the rule, its place in the file, and a hint.

use std::fmt;

use crate::config::{FilePosition, Warning};

/// A rule that a pipeline breaks. Each has a number and the text that clients and readers of logs
/// know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PipelineRule {
    /// Another servable has the name.
    NameTaken,
    /// The library of a custom node is not there.
    MissingLibrary,
    /// A custom node's `initialize` failed.
    Initialize,
    /// More than one demultiplexer, and one of them dynamic.
    DynamicAmongSeveral,
    /// Two nodes have one name.
    DuplicateNode,
    /// A model or its version is not there.
    MissingModel,
    /// A model's batch size or shape is that of each request.
    AutoModel,
    /// A model keeps state.
    StatefulModel,
    /// Strings are to be split.
    SplitStrings,
    /// A custom node's metadata call failed.
    MetadataCall,
    /// A custom node's metadata call gave nothing.
    MetadataHandle,
    /// A custom node's metadata call gave no tensors.
    MetadataCount,
    /// An output of a demultiplexer has too few dimensions.
    Rank,
    /// The first dimension is another number than that of the parts.
    CountMismatch,
    /// Gathering from a node that does not exist.
    MissingGather,
    /// Gathering from a node that is not a demultiplexer.
    PlainGather,
    /// An input comes from a node that is not there.
    MissingNode,
    /// An input comes from the response.
    ResponseAsSource,
    /// A node has no such input.
    MissingInput,
    /// An input has two sources.
    DuplicateInput,
    /// A node has no such alias, or the pipeline no such input.
    MissingSource,
    /// Alias of an output that does not exist.
    MissingOutput,
    /// Two connected tensors differ in shape.
    Shape,
    /// Two connected tensors differ in type.
    Precision,
    /// Strings between two nodes.
    Strings,
    /// An input has no source.
    OpenInput,
    /// A node waits for itself.
    Cycle,
    /// A node leads nowhere.
    Unconnected,
    /// Levels that are not closed in reverse order.
    Order(OrderError),
    /// The nodes that read one input of the pipeline cannot all be content.
    InputMetadata,
}

/// How levels of demultiplexing are out of order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OrderError {
    /// A path to the response leaves a level open that others close.
    NotGathered,
    /// A node closes another level than the one opened last.
    DifferentNodes,
    /// A node closes a level that was never opened on the way to it.
    NotInPath,
    /// The inputs of a node are on different levels.
    DifferentLevels,
}

impl OrderError {
    /// Returns what the log says.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotGathered => "there is a path that does not gather from all demultiplexers",
            Self::DifferentNodes => "a node gathers from another than the nearest demultiplexer",
            Self::NotInPath => "a node gathers from a demultiplexer that is not in its path",
            Self::DifferentLevels => "a node has inputs of different demultiplexing levels",
        }
    }
}

impl PipelineRule {
    /// Returns the number of the rule; the rules are validated in this order.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::NameTaken => 1,
            Self::MissingLibrary => 2,
            Self::Initialize => 3,
            Self::DynamicAmongSeveral => 4,
            Self::DuplicateNode => 5,
            Self::MissingModel => 6,
            Self::AutoModel | Self::StatefulModel => 7,
            Self::SplitStrings => 8,
            Self::MetadataCall => 9,
            Self::MetadataHandle | Self::MetadataCount => 10,
            Self::Rank => 11,
            Self::CountMismatch => 12,
            Self::MissingGather => 13,
            Self::PlainGather => 14,
            Self::MissingNode => 15,
            Self::ResponseAsSource => 16,
            Self::MissingInput => 17,
            Self::DuplicateInput => 18,
            Self::MissingSource => 19,
            Self::MissingOutput => 20,
            Self::Shape => 21,
            Self::Precision => 22,
            Self::Strings => 23,
            Self::OpenInput => 24,
            Self::Cycle => 25,
            Self::Unconnected => 26,
            Self::Order(_) => 27,
            Self::InputMetadata => 28,
        }
    }

    /// Returns the status text.
    #[must_use]
    pub const fn status(self) -> &'static str {
        match self {
            Self::NameTaken => "Pipeline has the same name as model",
            Self::MissingLibrary => "Pipeline refers to incorrect library",
            Self::Initialize => "Failure during custom node library initialization",
            Self::DynamicAmongSeveral | Self::Strings => "Functionality not implemented",
            Self::DuplicateNode => "Pipeline definition has multiple nodes with the same name",
            Self::MissingModel => "Pipeline definition has reference to missing model",
            Self::AutoModel => "Value of provided parameter is forbidden",
            Self::StatefulModel => "Stateful model cannot be subscribed to pipeline",
            Self::SplitStrings => "Demultiplication is not supported for string precision",
            Self::MetadataCall => "Custom node failed on metadata call",
            Self::MetadataHandle => "Custom node library has returned corrupted outputs handle",
            Self::MetadataCount => "Custom node library has produced corrupted number of outputs",
            Self::Rank => "Pipeline has not enough shape dimensions to demultiply",
            Self::CountMismatch => "Demultiplication count does not match tensor first dimension",
            Self::MissingGather => "Gather node refers to not existing node",
            Self::PlainGather => "Gather node refers to node that isn't demultiplexer",
            Self::MissingNode => "Pipeline definition has reference to missing node",
            Self::ResponseAsSource => {
                "Pipeline definition has response node used as dependency node"
            }
            Self::MissingInput => "Pipeline definition has connection to non existing model input",
            Self::DuplicateInput => {
                "Pipeline definition has multiple connections to the same input of underlying model"
            }
            Self::MissingSource => "Pipeline definition has reference to missing data source",
            Self::MissingOutput => "Pipeline definition has reference to missing model output",
            Self::Shape => "Invalid input shape",
            Self::Precision => "Invalid input precision",
            Self::OpenInput => {
                "Pipeline definition does not have connections for all inputs of underlying models"
            }
            Self::Cycle => "Pipeline definition contains a cycle",
            Self::Unconnected => "Pipeline definition has unconnected nodes",
            Self::Order(_) => "Demultiplexer and gather nodes are not in LIFO order",
            Self::InputMetadata => {
                "Multiple nodes connected to the same pipeline input require different tensor \
                 metadata"
            }
        }
    }
}

/// One error of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineError {
    /// The rule that is broken.
    pub rule: PipelineRule,
    /// The node, if it is one node's.
    pub node: Option<String>,
    /// Where in the file.
    pub place: FilePosition,
    /// Found.
    pub found: String,
    /// Expected.
    pub expected: String,
    /// Next step for the user.
    pub next: String,
}

impl fmt::Display for PipelineError {
    /// Writes place, status text, node, what was found and expected, and what to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            place,
            found,
            expected,
            next,
            ..
        } = self;
        write!(f, "{place}: {} - ", self.rule.status())?;
        if let Some(node) = &self.node {
            write!(f, "node `{node}`: ")?;
        }
        write!(f, "found {found}; expected {expected}; {next}")
    }
}

/// Every error of a pipeline, in the order of the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineErrors {
    /// The errors; never empty. The first decides what the pipeline's status says.
    pub errors: Vec<PipelineError>,
    /// Warnings.
    pub warnings: Vec<Warning>,
}

impl PipelineErrors {
    /// Returns the status text of the pipeline.
    #[must_use]
    pub fn status(&self) -> &'static str {
        self.errors.first().map_or("", |error| error.rule.status())
    }
}

impl fmt::Display for PipelineErrors {
    /// Writes every error, parted by semicolons.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for PipelineErrors {}
