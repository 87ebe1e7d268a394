//! Outline of a pipeline, sound or not: for drawing, not for running.

mod build;

use super::{missing::Missing, plan::Count, sources::TensorSource};

/// The name of the entry.
const REQUEST: &str = "request";

/// The name of the exit.
const RESPONSE: &str = "response";

/// Outline of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineOutline {
    /// The name of the pipeline.
    pub name: String,
    /// The entry first, the exit last, between them those of the file in its order.
    pub nodes: Vec<PipelineOutlineNode>,
    /// The connections of which the source is there, in the order of the nodes that take them.
    pub edges: Vec<PipelineEdge>,
    /// The connections of which the source is not there.
    pub dangling: Vec<Dangling>,
    /// The levels of demultiplexing; one that is within another comes after it.
    pub levels: Vec<OutlineLevel>,
}

/// A node of an outline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineOutlineNode {
    /// Its name; `request` and `response` for entry and exit.
    pub name: String,
    /// Kind of the node.
    pub kind: PipelineNodeKind,
    /// Problem of its model or library; `None` also if it was not examined.
    pub missing: Option<Missing>,
    /// Into how many parts its outputs are split.
    pub opens: Option<Count>,
    /// The names of the nodes whose parts it collects, outermost first, as far as they are there
    /// to be collected; for nodes of the file, what the file says.
    pub gathers: Vec<String>,
    /// The levels that it runs in, as indices, outermost first.
    pub levels: Vec<usize>,
    /// Inputs. For the exit, the outputs of the pipeline.
    pub inputs: Vec<OutlinePort>,
    /// Outputs. For the entry, the inputs of the pipeline.
    pub outputs: Vec<OutlinePort>,
}

/// Kind of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PipelineNodeKind {
    /// Nothing: it has the request's tensors.
    Entry,
    /// A model.
    Model {
        /// Its name.
        name: String,
        /// Its version; the default one if `None`.
        version: Option<i64>,
    },
    /// A custom node.
    Custom {
        /// The name of its library.
        library: String,
        /// Whether that is a Python handler, which takes and gives anything.
        is_python: bool,
    },
    /// Nothing: it takes the response's tensors.
    Exit,
}

/// An input or output of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlinePort {
    /// The name that connections use: of an output, the alias.
    pub name: String,
    /// The name that the model or custom node has for it.
    pub real: String,
    /// Tensor before it is split or after it was gathered; `None` if unknown.
    pub tensor: Option<TensorSource>,
}

/// A connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineEdge {
    /// The node that it comes from, as an index.
    pub from: usize,
    /// The alias of that node's output, or the input of the pipeline.
    pub item: String,
    /// Whether that node has such an output.
    pub is_there: bool,
    /// The node that takes it, as an index.
    pub to: usize,
    /// That node's input, or the output of the pipeline.
    pub input: String,
    /// Tensor of one run: after it was split, before it is gathered.
    pub tensor: Option<TensorSource>,
}

/// A connection of which the source is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dangling {
    /// The name of the node that it would come from.
    pub source: String,
    /// The alias of that node's output.
    pub item: String,
    /// The node that takes it, as an index.
    pub to: usize,
    /// That node's input, or the output of the pipeline.
    pub input: String,
}

/// A level of demultiplexing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlineLevel {
    /// The node whose outputs are split, as an index.
    pub node: usize,
    /// Into how many parts.
    pub count: Count,
    /// The level around it.
    pub parent: Option<usize>,
    /// The nodes that gather it, as indices.
    pub gathered_by: Vec<usize>,
}

impl PipelineOutline {
    /// Returns the entry.
    #[must_use]
    pub fn entry(&self) -> usize {
        0
    }

    /// Returns the exit.
    #[must_use]
    pub fn exit(&self) -> usize {
        self.nodes.len() - 1
    }

    /// Returns the levels that the outputs of a node are in, outermost first.
    #[must_use]
    pub fn given(&self, node: usize) -> Vec<usize> {
        let mut levels = self.nodes[node].levels.clone();
        levels.extend(self.opened(node));
        levels
    }

    /// Returns the level that a node opens.
    #[must_use]
    pub fn opened(&self, node: usize) -> Option<usize> {
        self.levels.iter().position(|level| level.node == node)
    }

    /// Returns whether a node takes and gives anything.
    #[must_use]
    pub fn is_open(&self, node: usize) -> bool {
        let kind = &self.nodes[node].kind;
        matches!(
            kind,
            PipelineNodeKind::Custom {
                is_python: true,
                ..
            }
        )
    }
}
