//! A graph for programs.

use serde::Serialize;

use super::{REQUEST, RESPONSE};
use crate::graph::{GraphNodeKind, GraphOutline, StreamEnd, Way};

/// A graph. The names of the fields are for others to rely on.
#[derive(Debug, Clone, Serialize)]
pub struct GraphDiagram<'a> {
    name: &'a str,
    inputs: Vec<Port<'a>>,
    outputs: Vec<Port<'a>>,
    nodes: Vec<Node<'a>>,
    edges: Vec<Edge<'a>>,
    /// Streams without a sender.
    dangling: Vec<Edge<'a>>,
}

#[derive(Debug, Clone, Serialize)]
struct Port<'a> {
    name: &'a str,
    tag: &'a str,
}

#[derive(Debug, Clone, Serialize)]
struct Node<'a> {
    name: &'a str,
    calculator: &'a str,
    /// The handler file of a Python node.
    #[serde(skip_serializing_if = "Option::is_none")]
    handler_path: Option<&'a str>,
    /// The model or pipeline of a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    servable: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_stream_handler: Option<&'a str>,
    /// Reason why it cannot run, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<&'a str>,
}

#[derive(Debug, Clone, Serialize)]
struct Edge<'a> {
    name: &'a str,
    /// `stream`, `back_edge` or `side_packet`.
    kind: &'static str,
    from: Option<&'a str>,
    output: &'a str,
    to: &'a str,
    input: &'a str,
    carries: Option<&'a str>,
}

/// Describes a graph.
#[must_use]
pub fn json(outline: &GraphOutline) -> GraphDiagram<'_> {
    let (edges, dangling) = outline
        .edges
        .iter()
        .map(|edge| Edge {
            name: &edge.name,
            kind: match edge.way {
                Way::Stream => "stream",
                Way::Back => "back_edge",
                Way::Side => "side_packet",
            },
            from: place(outline, edge.from),
            output: &edge.output,
            to: place(outline, edge.to).unwrap_or_default(),
            input: &edge.input,
            carries: edge.carries.as_deref(),
        })
        .partition(|edge| edge.from.is_some());
    let nodes = outline.nodes.iter().map(|node| {
        let runs = |kind| node.runs.as_deref().filter(|_| node.kind == kind);
        Node {
            name: &node.name,
            calculator: &node.calculator,
            handler_path: runs(GraphNodeKind::Python),
            servable: runs(GraphNodeKind::Model),
            input_stream_handler: node.handler.as_deref(),
            missing: node.missing,
        }
    });
    GraphDiagram {
        name: &outline.name,
        inputs: ports(&outline.inputs),
        outputs: ports(&outline.outputs),
        nodes: nodes.collect(),
        edges,
        dangling,
    }
}

fn ports(ports: &[(String, String)]) -> Vec<Port<'_>> {
    let ports = ports.iter();
    ports.map(|(name, tag)| Port { name, tag }).collect()
}

fn place(outline: &GraphOutline, place: StreamEnd) -> Option<&str> {
    match place {
        StreamEnd::Request => Some(REQUEST),
        StreamEnd::Node(index) => Some(&outline.nodes[index].name),
        StreamEnd::Response => Some(RESPONSE),
        StreamEnd::Nobody => None,
    }
}
