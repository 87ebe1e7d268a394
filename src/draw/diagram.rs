//! Diagram of a pipeline or graph: nodes, edges, and levels of demultiplexing.

use std::fmt;

use serde::Serialize;

use crate::tensor::{DataType, PartialShape};

/// Diagram of a pipeline or graph, valid or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagram {
    /// Subject of the diagram.
    pub kind: DiagramKind,
    /// Name of the pipeline or graph.
    pub name: String,
    /// Nodes: the request first, the response last, between them those of the file in its order.
    pub nodes: Vec<DiagramNode>,
    /// Edges.
    pub edges: Vec<DiagramEdge>,
    /// Levels of demultiplexing; one that is within another comes after it.
    pub levels: Vec<DiagramLevel>,
}

/// Subject of a diagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiagramKind {
    /// A DAG of models and custom nodes.
    Pipeline,
    /// A graph of calculators.
    Graph,
}

/// Node of a diagram.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiagramNode {
    /// Name of the node.
    pub name: String,
    /// Kind of the node, with what it runs.
    pub kind: DiagramNodeKind,
    /// Missing part without which it cannot run; `None` also if that was not examined.
    pub missing: Option<Missing>,
    /// Number of parts that its outputs are split into; -1 if that depends on the request.
    pub splits: Option<i32>,
    /// Names of the nodes whose parts it collects, outermost first.
    pub gathers: Vec<String>,
    /// Levels that it runs in, as indices, outermost first.
    pub levels: Vec<usize>,
    /// Inputs; of the response, the outputs of the pipeline or graph.
    pub inputs: Vec<DiagramPort>,
    /// Outputs; of the request, the inputs of the pipeline or graph.
    pub outputs: Vec<DiagramPort>,
}

/// Kind of a node, with what it runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DiagramNodeKind {
    /// The request, which gives what the client sends.
    #[default]
    Request,
    /// A model.
    Model {
        /// Name of the model.
        model: String,
        /// Version; the default one if `None`.
        #[serde(skip_serializing_if = "Option::is_none")]
        version: Option<i64>,
    },
    /// A custom node.
    Custom {
        /// Name of its library.
        library: String,
    },
    /// A Python node of a pipeline, which takes and gives anything.
    Python {
        /// Name of its handler.
        library: String,
    },
    /// The response, which takes what the client gets.
    Response,
    /// A calculator of a graph.
    #[serde(untagged)]
    Calculator {
        /// Name of the calculator.
        calculator: String,
        /// Path of the handler file of a Python node.
        #[serde(skip_serializing_if = "Option::is_none")]
        handler_path: Option<String>,
        /// Model or pipeline of a session.
        #[serde(skip_serializing_if = "Option::is_none")]
        servable: Option<String>,
        /// Input stream handler, if the file names one.
        #[serde(skip_serializing_if = "Option::is_none")]
        input_stream_handler: Option<String>,
    },
}

/// Reason why a node cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// A few words, for a box: `no such model`.
    pub short: &'static str,
    /// The same with names and reasons.
    pub text: String,
}

/// Input or output of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiagramPort {
    /// Name that edges use.
    pub name: String,
    /// Tag of an input or output of a graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Name that the model or custom node has for it, if that is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_item: Option<String>,
    /// Tensor of a pipeline, before it is split or after it was gathered.
    #[serde(flatten)]
    pub tensor: Option<TensorType>,
}

/// Type and shape of a tensor, as far as they are known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TensorType {
    /// Element type; `None` if it is unknown or left open.
    pub datatype: Option<DataType>,
    /// Shape; `None` if nothing is known.
    pub shape: Option<PartialShape>,
}

/// Connection of two nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiagramEdge {
    /// Stream or side packet of a graph.
    pub stream: Option<DiagramStream>,
    /// Node that it comes from.
    pub from: EdgeSource,
    /// Output of that node: an alias, or a tag.
    pub output: String,
    /// Node that takes it, as an index.
    pub to: usize,
    /// Input of that node.
    pub input: String,
    /// Content of the edge.
    pub carries: EdgeContent,
}

/// Source of an edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EdgeSource {
    /// A node, by index.
    Node(usize),
    /// A node that does not exist, by name.
    Missing(String),
    /// No node.
    Nobody,
}

/// Stream or side packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiagramStream {
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: StreamKind,
}

/// Kind of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamKind {
    /// A stream.
    Stream,
    /// A stream that is a back edge.
    BackEdge,
    /// A side packet, available from the start.
    SidePacket,
}

/// Content of an edge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum EdgeContent {
    /// A tensor for each run: after it was split, before it is gathered.
    Tensor {
        /// Type and shape.
        #[serde(flatten)]
        tensor: TensorType,
        /// Indicates that source and output exist.
        is_there: bool,
    },
    /// Packets.
    Packets {
        /// Type of the packets, if known.
        carries: Option<String>,
    },
}

/// Level of demultiplexing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiagramLevel {
    /// Node whose outputs are split, as an index.
    pub node: usize,
    /// Number of parts; -1 if that depends on the request.
    pub count: i32,
    /// Level around it.
    pub parent: Option<usize>,
    /// Nodes that gather it, as indices.
    pub gathered_by: Vec<usize>,
}

impl Diagram {
    /// Returns the index of the response.
    pub fn response(&self) -> usize {
        self.nodes.len() - 1
    }

    /// Returns the nodes of the file, without request and response.
    pub fn inner(&self) -> &[DiagramNode] {
        &self.nodes[1..self.response()]
    }

    /// Describes what goes over an edge, as far as it is known.
    pub(super) fn content(&self, edge: &DiagramEdge) -> String {
        let is_open = |node: usize| matches!(self.nodes[node].kind, DiagramNodeKind::Python { .. });
        match (&edge.carries, &edge.from) {
            (EdgeContent::Packets { carries }, _) => carries.clone().unwrap_or_default(),
            (EdgeContent::Tensor { tensor, is_there }, EdgeSource::Node(from))
                if *is_there && tensor.shape.is_none() && (is_open(*from) || is_open(edge.to)) =>
            {
                "any type".to_owned()
            }
            (EdgeContent::Tensor { tensor, .. }, _) => tensor.to_string(),
        }
    }
}

impl DiagramEdge {
    /// Returns the name of the stream, or of the output.
    pub(super) fn item(&self) -> &str {
        let stream = self.stream.as_ref();
        stream.map_or(&self.output, |stream| &stream.name)
    }

    /// Returns whether the source exists, and has no such output.
    pub(super) fn lacks_output(&self) -> bool {
        matches!(self.from, EdgeSource::Node(_))
            && matches!(
                self.carries,
                EdgeContent::Tensor {
                    is_there: false,
                    ..
                }
            )
    }
}

impl DiagramNode {
    /// Creates a node outside all levels, without inputs and outputs.
    pub fn new(name: &str, kind: DiagramNodeKind) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            ..Self::default()
        }
    }

    /// Creates the node of what clients send.
    pub fn request(outputs: Vec<DiagramPort>) -> Self {
        Self {
            outputs,
            ..Self::new("request", DiagramNodeKind::Request)
        }
    }

    /// Creates the node of what clients get.
    pub fn response(inputs: Vec<DiagramPort>) -> Self {
        Self {
            inputs,
            ..Self::new("response", DiagramNodeKind::Response)
        }
    }
}

impl fmt::Display for TensorType {
    /// Writes `FP32 (1,10)`, and nothing if nothing is known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.datatype, &self.shape) {
            (Some(datatype), Some(shape)) => write!(f, "{datatype} {shape}"),
            (None, Some(shape)) => write!(f, "any type {shape}"),
            (_, None) => Ok(()),
        }
    }
}
