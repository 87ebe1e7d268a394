//! Diagram for programs. The names of the fields are for others to rely on.

use serde::{Serialize, Serializer};

use super::diagram::{
    Diagram, DiagramEdge, DiagramKind, DiagramNodeKind, DiagramPort, DiagramStream, EdgeContent,
    EdgeSource,
};

#[derive(Serialize)]
struct Document<'a> {
    name: &'a str,
    inputs: &'a [DiagramPort],
    outputs: &'a [DiagramPort],
    nodes: Vec<Node<'a>>,
    edges: Vec<Edge<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    levels: Option<Vec<Level<'a>>>,
    /// Edges without a source.
    dangling: Vec<Edge<'a>>,
}

#[derive(Serialize)]
struct Node<'a> {
    name: &'a str,
    #[serde(flatten)]
    kind: &'a DiagramNodeKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<&'a str>,
    #[serde(flatten)]
    tensors: Option<Tensors<'a>>,
}

/// Facts that only nodes of pipelines have.
#[derive(Serialize)]
struct Tensors<'a> {
    demultiply_count: Option<i32>,
    gathers: &'a [String],
    levels: Vec<&'a str>,
    inputs: &'a [DiagramPort],
    outputs: &'a [DiagramPort],
}

#[derive(Serialize)]
struct Edge<'a> {
    #[serde(flatten)]
    stream: Option<&'a DiagramStream>,
    from: Option<&'a str>,
    output: &'a str,
    to: &'a str,
    input: &'a str,
    #[serde(flatten)]
    carries: &'a EdgeContent,
}

#[derive(Serialize)]
struct Level<'a> {
    node: &'a str,
    count: i32,
    parent: Option<&'a str>,
    gathered_by: Vec<&'a str>,
}

impl<'a> Edge<'a> {
    fn new(diagram: &'a Diagram, edge: &'a DiagramEdge) -> Self {
        Self {
            stream: edge.stream.as_ref(),
            from: match &edge.from {
                EdgeSource::Node(from) => Some(&diagram.nodes[*from].name),
                EdgeSource::Missing(name) => Some(name),
                EdgeSource::Nobody => None,
            },
            output: &edge.output,
            to: &diagram.nodes[edge.to].name,
            input: &edge.input,
            carries: &edge.carries,
        }
    }
}

impl Serialize for Diagram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_pipeline = self.kind == DiagramKind::Pipeline;
        let (request, response) = (&self.nodes[0], &self.nodes[self.response()]);
        let name = |node: usize| self.nodes[node].name.as_str();
        let level = |level: &usize| name(self.levels[*level].node);
        // The ends of a graph are no nodes of it.
        let listed = match is_pipeline {
            true => &self.nodes,
            false => self.inner(),
        };
        let nodes = listed.iter().map(|node| Node {
            name: &node.name,
            kind: &node.kind,
            missing: node.missing.as_ref().map(|missing| &*missing.text),
            tensors: is_pipeline.then(|| Tensors {
                demultiply_count: node.splits,
                gathers: &node.gathers,
                levels: node.levels.iter().map(level).collect(),
                inputs: &node.inputs,
                outputs: &node.outputs,
            }),
        });
        let is_whole = |edge: &&DiagramEdge| matches!(edge.from, EdgeSource::Node(_));
        let (edges, dangling): (Vec<_>, Vec<_>) = self.edges.iter().partition(is_whole);
        let written = |edges: Vec<_>| edges.into_iter().map(|it| Edge::new(self, it)).collect();
        let levels = self.levels.iter().map(|it| Level {
            node: name(it.node),
            count: it.count,
            parent: it.parent.as_ref().map(level),
            gathered_by: it.gathered_by.iter().map(|node| name(*node)).collect(),
        });
        Document {
            name: &self.name,
            inputs: &request.outputs,
            outputs: &response.inputs,
            nodes: nodes.collect(),
            edges: written(edges),
            levels: is_pipeline.then(|| levels.collect()),
            dangling: written(dangling),
        }
        .serialize(serializer)
    }
}
