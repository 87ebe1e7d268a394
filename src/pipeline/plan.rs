//! A pipeline that has been checked: nodes, where their inputs come from, and the levels of
//! demultiplexing, all as indices. Made by [`super::check()`] only, and never changed.

use std::fmt;

use super::{adapt::Adapter, sources::TensorSource};
use crate::{
    config::NodeKind,
    servable::{ServableInfo, TensorInfo},
};

/// A pipeline that has been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelinePlan {
    /// The name of the pipeline.
    pub name: String,
    /// Every node: the entry, those of the file in its order, the exit. A node is identified by its index.
    pub nodes: Vec<PipelinePlanNode>,
    /// Every level; one that is within another comes after it. A level is identified by its index.
    pub levels: Vec<Level>,
    /// Allows a demultiplexer to have nothing to split: no node runs for its parts then, and what
    /// gathers them has no parts.
    pub allows_empty: bool,
    /// Inputs and outputs of the pipeline. A type is open where no node decides it: of what goes from the
    /// request straight to the response, what a custom node leaves open, or what only Python nodes take
    /// or give.
    pub info: ServableInfo,
}

impl PipelinePlan {
    /// The entry, of which the outputs are the inputs of the pipeline.
    pub const ENTRY: usize = 0;

    /// Returns the exit, of which the inputs are the outputs of the pipeline.
    pub fn exit(&self) -> usize {
        self.nodes.len() - 1
    }

    /// Iterates over the models that are used and the versions asked for, in the order of the
    /// nodes; one that several nodes use comes as often.
    pub fn models(&self) -> impl Iterator<Item = (&str, Option<i64>)> {
        self.nodes.iter().filter_map(|node| match &node.kind {
            Some(NodeKind::Model {
                model_name,
                version,
            }) => Some((model_name.as_str(), *version)),
            _ => None,
        })
    }

    /// Iterates over the outputs of the pipeline that come straight from a model, with its name and version.
    pub fn outputs_of_models(&self) -> impl Iterator<Item = (&str, &str, Option<i64>)> {
        let outputs = self.nodes[self.exit()].inputs.iter();
        outputs.filter_map(|output| match &self.nodes[output.source].kind {
            Some(NodeKind::Model {
                model_name,
                version,
            }) => Some((output.name.as_str(), model_name.as_str(), *version)),
            _ => None,
        })
    }

    /// Iterates over the outputs of the pipeline that a node declares: a model, or a custom node of a library.
    /// The others, from the request or a Python node, may be any tensor.
    pub fn declared_outputs(&self) -> impl Iterator<Item = &TensorInfo> {
        let inputs = &self.nodes[self.exit()].inputs;
        self.info.outputs.iter().filter(|output| {
            let input = &inputs[output.port];
            let source = &self.nodes[input.source].outputs[input.output];
            source.tensor.is_some()
        })
    }

    /// Iterates over the models, with the versions asked for, that take an input of the pipeline as it comes.
    pub fn models_at_entry(&self) -> impl Iterator<Item = (&str, Option<i64>)> {
        let consumers = self.nodes[Self::ENTRY].consumers.iter();
        consumers.filter_map(|node| match &self.nodes[*node].kind {
            Some(NodeKind::Model {
                model_name,
                version,
            }) => Some((model_name.as_str(), *version)),
            _ => None,
        })
    }

    /// Returns how often a node runs in a request; `None` if that depends on the request.
    pub fn runs(&self, node: usize) -> Option<usize> {
        self.nodes[node]
            .levels
            .iter()
            .try_fold(1_usize, |runs, level| match self.levels[*level].count {
                Count::Fixed(count) => runs.checked_mul(count),
                Count::Dynamic => None,
            })
    }
}

/// A node of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PipelinePlanNode {
    /// Its name; `request` and `response` for entry and exit.
    pub name: String,
    /// Kind of the node; `None` for entry and exit, which have the tensors of request and response.
    pub kind: Option<NodeKind>,
    /// Its inputs, in the order of the file. The exit's are the outputs of the pipeline.
    pub inputs: Vec<Input>,
    /// Outputs of the node that are used, each once. The entry's are all inputs of the pipeline,
    /// in the order of the file.
    pub outputs: Vec<PlanOutput>,
    /// The level that its outputs are split into.
    pub opens: Option<usize>,
    /// The levels that are gathered before it runs, outermost first; all inputs are.
    pub gathers: Vec<usize>,
    /// The levels that it runs in, outermost first.
    pub levels: Vec<usize>,
    /// The nodes that its inputs come from, each once.
    pub sources: Vec<usize>,
    /// The nodes that take its outputs, each once.
    pub consumers: Vec<usize>,
}

/// An input of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// The name that the node has for it.
    pub name: String,
    /// The node that it comes from.
    pub source: usize,
    /// Index among that node's [`PipelinePlanNode::outputs`].
    pub output: usize,
    /// Tensor of the input, after gathering; `None` for the exit, and for a node that is open.
    pub tensor: Option<TensorSource>,
    /// Conversion to that tensor, after gathering, if the connection converts.
    pub convert: Option<Adapter>,
}

/// An output of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanOutput {
    /// The name that the model or custom node has for it; for the entry, the pipeline's input.
    pub name: String,
    /// Tensor of the output, before it is split; `None` for the entry, and for a node that is open.
    pub tensor: Option<TensorSource>,
    /// The inputs that take it: the node and which of its [`PipelinePlanNode::inputs`].
    pub consumers: Vec<(usize, usize)>,
}

/// A level of demultiplexing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// The node whose outputs are split.
    pub node: usize,
    /// Number of parts.
    pub count: Count,
    /// The level around it.
    pub parent: Option<usize>,
}

/// Number of parts that outputs are split into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// The number of the file.
    Fixed(usize),
    /// The length of the outputs.
    Dynamic,
}

impl Count {
    /// Reads a count of the file, which has -1 for a dynamic one.
    pub(super) fn new(count: i32) -> Self {
        match usize::try_from(count) {
            Ok(count) if count > 0 => Self::Fixed(count),
            _ => Self::Dynamic,
        }
    }
}

impl fmt::Display for Count {
    /// Writes it as the file has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(count) => write!(f, "{count}"),
            Self::Dynamic => f.write_str("-1"),
        }
    }
}
