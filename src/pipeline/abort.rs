//! Why a request to a pipeline ends early, as far as splitting and gathering are concerned.

use crate::{
    error::{Error, ErrorKind},
    tensor::ShapeText,
};

/// Why a request ends early. What is written is the text that clients know, and behind it which
/// node and tensor; clients get the text alone, save of empty results.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Abort {
    /// More parts than a demultiplexer may have.
    #[error("{} - Node: {node}; Expected: at most {}; Actual: {actual}", self.text(), super::MAX_SHARDS)]
    TooMany {
        /// The demultiplexer.
        node: String,
        /// Whether that is the request itself.
        entry: bool,
        /// The first dimension.
        actual: usize,
    },
    /// More parts of parts than a request may have.
    #[error("{} - Node: {node}; Expected: at most {} parts within parts", self.text(), super::MAX_SESSIONS)]
    TooManySessions {
        /// The demultiplexer that would be one too much.
        node: String,
    },
    /// Strings.
    #[error("{} - Node: {node} output: {output}", self.text())]
    Strings {
        /// The demultiplexer.
        node: String,
        /// Its output.
        output: String,
    },
    /// Too few dimensions.
    #[error("{} - Node: {node} output: {output}; Expected: at least {expected}; Actual: {}", self.text(), ShapeText(actual))]
    Rank {
        /// The demultiplexer.
        node: String,
        /// Whether that is the request itself.
        entry: bool,
        /// Its output.
        output: String,
        /// The fewest dimensions.
        expected: usize,
        /// The shape.
        actual: Vec<usize>,
    },
    /// Another first dimension than that configured, or than that of the outputs before it.
    #[error("{} - Node: {node} output: {output}; Expected: {expected}; Actual: {actual}", self.text())]
    Count {
        /// The demultiplexer.
        node: String,
        /// Whether that is the request itself.
        entry: bool,
        /// Its output.
        output: String,
        /// The number of parts.
        expected: usize,
        /// The first dimension.
        actual: usize,
    },
    /// Nothing to go on with.
    #[error("{} - Node: {node}", self.text())]
    NoResults {
        /// The demultiplexer.
        node: String,
    },
    /// The parts that are gathered differ from one another.
    #[error("{} - Node: {node} input: {input} part: {part}; Expected: {expected}; Actual: {actual}", self.text())]
    Different {
        /// The node that gathers.
        node: String,
        /// Its input.
        input: String,
        /// The number of the part that differs.
        part: usize,
        /// Type and shape of the first part.
        expected: String,
        /// Type and shape of the one that differs.
        actual: String,
    },
    /// Some parts have parts, and others have none or fewer.
    #[error("{} - Node: {node} input: {input}; Expected: {expected} parts, as many within each; Actual: {actual}", self.text())]
    Uneven {
        /// The node that gathers.
        node: String,
        /// Its input.
        input: String,
        /// How many there would be if each had as many as the one with the most.
        expected: usize,
        /// How many there are.
        actual: usize,
    },
    /// A node that gathers nothing does not take that.
    #[error("{} - Node: {node} input: {input}; Expected: {expected}; Actual: {actual}, since `{demultiplexer}` gave no parts, which empty_results allows; let the input take a first dimension of 0, such as -1", self.text())]
    EmptyInput {
        /// The node that gathers.
        node: String,
        /// Its input.
        input: String,
        /// The demultiplexer.
        demultiplexer: String,
        /// The shape that it takes.
        expected: String,
        /// The shape that there is.
        actual: String,
    },
    /// A tensor without parts of which nobody says the type.
    #[error("{} - Node: {node} input: {input}; `{demultiplexer}` gave no parts, and the node `{source_node}` leaves the type of `{output}` open; let it name the type, or take empty_results away", self.text())]
    EmptyType {
        /// The node that gathers.
        node: String,
        /// Its input.
        input: String,
        /// The demultiplexer.
        demultiplexer: String,
        /// The node that did not run.
        source_node: String,
        /// Its output.
        output: String,
    },
}

impl Abort {
    /// Returns the text that clients know.
    #[must_use]
    pub const fn text(&self) -> &'static str {
        match self {
            Self::TooMany { .. } | Self::TooManySessions { .. } => {
                "Too large dynamic demultiplication requested."
            }
            Self::Strings { .. } => "Demultiplication is not supported for string precision",
            Self::Rank { .. } => "Wrong number of dimensions in a tensor to be sharded",
            Self::Count { .. } => "Wrong dimension size. Should match demultiply count",
            Self::NoResults { .. } => {
                "Pipeline execution aborted due to no content from custom node"
            }
            Self::Different { .. } | Self::Uneven { .. } => {
                "Gathered tensor shards dimensions are different"
            }
            Self::EmptyInput { .. } => "Invalid input shape",
            Self::EmptyType { .. } => "Empty results are of an unknown type",
        }
    }

    /// Returns the node that is concerned.
    #[must_use]
    pub fn node(&self) -> &str {
        match self {
            Self::TooMany { node, .. }
            | Self::TooManySessions { node }
            | Self::Strings { node, .. }
            | Self::Rank { node, .. }
            | Self::Count { node, .. }
            | Self::NoResults { node }
            | Self::Different { node, .. }
            | Self::Uneven { node, .. }
            | Self::EmptyInput { node, .. }
            | Self::EmptyType { node, .. } => node,
        }
    }

    /// Returns the kind: what the request itself has wrong is an error of the client.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::TooMany { entry: true, .. }
            | Self::Rank { entry: true, .. }
            | Self::Count { entry: true, .. } => ErrorKind::InvalidArgument,
            Self::EmptyInput { .. } => ErrorKind::InvalidArgument,
            Self::NoResults { .. } => ErrorKind::Aborted,
            _ => ErrorKind::Internal,
        }
    }
}

impl From<Abort> for Error {
    /// Makes the error for the client: the text that it knows, and behind it the details. That there
    /// is nothing to go on with is no error, and has the text alone.
    fn from(abort: Abort) -> Self {
        match abort {
            Abort::NoResults { .. } => Self::new(abort.kind(), abort.text()).with_source(abort),
            _ => Self::new(abort.kind(), abort.to_string()),
        }
    }
}
