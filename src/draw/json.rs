//! A pipeline for programs.

use serde::Serialize;
use serde_json::{Value, json as value};

use crate::{
    pipeline::{Count, OutlinePort, PipelineNodeKind, PipelineOutline, TensorSource},
    tensor::Dim,
};

/// A pipeline. The names of the fields are for others to rely on.
#[derive(Debug, Clone, Serialize)]
pub struct PipelineDiagram<'a> {
    name: &'a str,
    inputs: Vec<Port<'a>>,
    outputs: Vec<Port<'a>>,
    nodes: Vec<Node<'a>>,
    edges: Vec<Edge<'a>>,
    levels: Vec<Level<'a>>,
    /// Connections of which the source is not there.
    dangling: Vec<Edge<'a>>,
}

#[derive(Debug, Clone, Serialize)]
struct Node<'a> {
    name: &'a str,
    /// `request`, `model`, `custom` or `response`.
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    library: Option<&'a str>,
    /// Problem of the model or library, if any is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<&'a str>,
    /// Into how many parts the outputs are split; -1 if that depends on the request.
    demultiply_count: Option<i64>,
    gathers: &'a [String],
    /// The nodes whose parts it runs for, outermost first.
    levels: Vec<&'a str>,
    inputs: Vec<Port<'a>>,
    outputs: Vec<Port<'a>>,
}

#[derive(Debug, Clone, Serialize)]
struct Port<'a> {
    name: &'a str,
    /// The name that the model or library has for it, if that is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    data_item: Option<&'a str>,
    #[serde(flatten)]
    tensor: Tensor,
}

/// Type and shape: a dimension is a number, -1 for any, or a pair of the least and the most.
#[derive(Debug, Clone, Serialize)]
struct Tensor {
    datatype: Option<&'static str>,
    shape: Option<Vec<Value>>,
}

#[derive(Debug, Clone, Serialize)]
struct Edge<'a> {
    from: &'a str,
    output: &'a str,
    to: &'a str,
    input: &'a str,
    /// Tensor that it carries.
    #[serde(flatten)]
    tensor: Tensor,
    /// Whether source and output are there.
    is_there: bool,
}

#[derive(Debug, Clone, Serialize)]
struct Level<'a> {
    node: &'a str,
    count: i64,
    /// The node that opens the level around it.
    parent: Option<&'a str>,
    gathered_by: Vec<&'a str>,
}

/// Returns a pipeline as what can be serialised.
#[must_use]
pub fn json(outline: &PipelineOutline) -> PipelineDiagram<'_> {
    let name = |node: usize| outline.nodes[node].name.as_str();
    let level = |level: &usize| name(outline.levels[*level].node);
    let node = |index: usize| {
        let node = &outline.nodes[index];
        let (kind, model, version, library) = match &node.kind {
            PipelineNodeKind::Entry => ("request", None, None, None),
            PipelineNodeKind::Exit => ("response", None, None, None),
            PipelineNodeKind::Model { name, version } => {
                ("model", Some(name.as_str()), *version, None)
            }
            PipelineNodeKind::Custom { library, is_python } => {
                let kind = if *is_python { "python" } else { "custom" };
                (kind, None, None, Some(library.as_str()))
            }
        };
        Node {
            name: &node.name,
            kind,
            model,
            version,
            library,
            missing: node.missing.as_ref().map(|missing| &*missing.text),
            demultiply_count: node.opens.map(count),
            gathers: &node.gathers,
            levels: node.levels.iter().map(level).collect(),
            inputs: ports(&node.inputs),
            outputs: ports(&node.outputs),
        }
    };
    let edges = outline.edges.iter().map(|edge| Edge {
        from: name(edge.from),
        output: &edge.item,
        to: name(edge.to),
        input: &edge.input,
        tensor: tensor(edge.tensor.as_ref()),
        is_there: edge.is_there,
    });
    let dangling = outline.dangling.iter().map(|dangling| Edge {
        from: &dangling.source,
        output: &dangling.item,
        to: name(dangling.to),
        input: &dangling.input,
        tensor: tensor(None),
        is_there: false,
    });
    let levels = outline.levels.iter().map(|it| Level {
        node: name(it.node),
        count: count(it.count),
        parent: it.parent.as_ref().map(level),
        gathered_by: it.gathered_by.iter().map(|node| name(*node)).collect(),
    });
    PipelineDiagram {
        name: &outline.name,
        inputs: ports(&outline.nodes[outline.entry()].outputs),
        outputs: ports(&outline.nodes[outline.exit()].inputs),
        nodes: (0..outline.nodes.len()).map(node).collect(),
        edges: edges.collect(),
        levels: levels.collect(),
        dangling: dangling.collect(),
    }
}

fn ports(ports: &[OutlinePort]) -> Vec<Port<'_>> {
    let ports = ports.iter().map(|port| Port {
        name: &port.name,
        data_item: (port.real != port.name).then_some(port.real.as_str()),
        tensor: tensor(port.tensor.as_ref()),
    });
    ports.collect()
}

fn tensor(tensor: Option<&TensorSource>) -> Tensor {
    let shape = tensor.map(|tensor| tensor.shape.0.iter().copied().map(dim).collect());
    Tensor {
        datatype: tensor.and_then(|tensor| Some(tensor.dtype?.kserve())),
        shape,
    }
}

fn dim(dim: Dim) -> Value {
    match dim {
        Dim::Fixed(length) => value!(length),
        Dim::Range(low, high) => value!([low, high]),
        Dim::Any => value!(-1),
    }
}

fn count(count: Count) -> i64 {
    match count {
        Count::Fixed(count) => i64::try_from(count).unwrap_or(i64::MAX),
        Count::Dynamic => -1,
    }
}
