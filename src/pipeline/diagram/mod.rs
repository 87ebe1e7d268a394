//! Diagram of a configured pipeline, valid or not.

#[cfg(test)]
mod tests;

use std::{collections::HashMap, iter, mem};

use super::{
    check::failure,
    dims::common_shape,
    sources::{CustomFacts, Sources, TensorSource},
};
use crate::{
    config::{NodeConfig, NodeKind, PipelineConfig},
    draw::{
        Diagram, DiagramEdge, DiagramKind, DiagramLevel, DiagramNode, DiagramNodeKind, DiagramPort,
        EdgeContent, EdgeSource, TensorType,
    },
    tensor::{Dim, PartialShape},
};

/// Index of the request.
const REQUEST: usize = 0;

/// Makes the diagram of a pipeline. Facts that `sources` does not know are missing in it; each custom
/// node is looked up once.
pub fn diagram(config: &PipelineConfig, sources: &impl Sources) -> Diagram {
    let inputs = config.inputs.iter().map(|name| port(name, name, &[]));
    let mut request = DiagramNode::request(inputs.collect());
    request.splits = config.demultiply_count;
    let outputs = config.outputs.iter();
    let outputs = outputs.map(|output| port(&output.name, &output.name, &[]));
    let response = DiagramNode::response(outputs.collect());
    let inner = config.nodes.iter().map(|config| node(config, sources));
    let mut diagram = Diagram {
        kind: DiagramKind::Pipeline,
        name: config.name.clone(),
        nodes: iter::once(request).chain(inner).chain([response]).collect(),
        edges: Vec::new(),
        levels: Vec::new(),
    };
    connect(&mut diagram, config);
    stack(&mut diagram);
    flows(&mut diagram);
    ends(&mut diagram);
    diagram
}

fn node(config: &NodeConfig, sources: &impl Sources) -> DiagramNode {
    let (kind, known) = match &config.kind {
        NodeKind::Model {
            model_name,
            version,
        } => {
            let kind = DiagramNodeKind::Model {
                model: model_name.clone(),
                version: *version,
            };
            let known = sources.model(model_name, *version);
            let known = known.map(|facts| CustomFacts::from(&facts.info));
            let failure = |why| failure::of_model(model_name, *version, why);
            (kind, known.map_err(failure))
        }
        NodeKind::Custom { library_name, .. } => {
            let library = library_name.clone();
            let kind = match sources.is_python(library_name) {
                true => DiagramNodeKind::Python { library },
                false => DiagramNodeKind::Custom { library },
            };
            let known = sources.custom(config, library_name);
            let failure = |why| failure::of_custom(library_name, why);
            (kind, known.map_err(failure))
        }
    };
    let (missing, known) = match known {
        Ok(known) => (None, known),
        Err(failure) => (failure.ok().map(|it| it.missing), CustomFacts::default()),
    };
    let (taken, given) = (config.inputs.iter(), config.outputs.iter());
    let (inputs, outputs) = (known.inputs, known.outputs);
    DiagramNode {
        missing,
        splits: config.demultiply_count,
        gathers: config.gather_from_node.iter().cloned().collect(),
        inputs: taken.map(|it| port(&it.name, &it.name, &inputs)).collect(),
        outputs: given
            .map(|it| port(&it.alias, &it.data_item, &outputs))
            .collect(),
        ..DiagramNode::new(&config.name, kind)
    }
}

fn port(name: &str, real: &str, known: &[TensorSource]) -> DiagramPort {
    let tensor = known.iter().find(|tensor| tensor.name == real);
    let tensor = tensor.map(|tensor| TensorType {
        datatype: tensor.dtype,
        shape: Some(tensor.shape.clone()),
    });
    DiagramPort {
        name: name.to_owned(),
        tag: None,
        data_item: (real != name).then(|| real.to_owned()),
        tensor: Some(tensor.unwrap_or_default()),
    }
}

fn connect(diagram: &mut Diagram, config: &PipelineConfig) {
    let response = diagram.response();
    let mut names = HashMap::new();
    for (index, node) in diagram.nodes[..response].iter().enumerate() {
        if node.name != diagram.nodes[response].name {
            names.entry(node.name.as_str()).or_insert(index);
        }
    }
    let lists = config.nodes.iter().map(|node| &node.inputs);
    for (index, connections) in lists.chain([&config.outputs]).enumerate() {
        diagram.edges.extend(connections.iter().map(|connection| {
            let from = names.get(connection.node_name.as_str()).copied();
            let mut outputs = from.iter().flat_map(|from| &diagram.nodes[*from].outputs);
            DiagramEdge {
                stream: None,
                carries: EdgeContent::Tensor {
                    tensor: TensorType::default(),
                    is_there: outputs.any(|output| output.name == connection.data_item),
                },
                from: match from {
                    Some(from) => EdgeSource::Node(from),
                    None => EdgeSource::Missing(connection.node_name.clone()),
                },
                output: connection.data_item.clone(),
                to: index + 1,
                input: connection.name.clone(),
            }
        }));
    }
}

/// Finds the levels, and which of them each node runs in. Where the file contradicts itself, the
/// deepest that an input comes from counts.
fn stack(diagram: &mut Diagram) {
    let response = diagram.response();
    let mut sources = vec![Vec::new(); diagram.nodes.len()];
    for edge in &diagram.edges {
        match edge.from {
            EdgeSource::Node(from) if from != edge.to => sources[edge.to].push(from),
            _ => {}
        }
    }
    for node in order(&sources) {
        let mut stack: Vec<usize> = Vec::new();
        for &from in &sources[node] {
            let opened = diagram.levels.iter().position(|level| level.node == from);
            let given = diagram.nodes[from].levels.iter().copied().chain(opened);
            let given: Vec<usize> = given.collect();
            if given.len() > stack.len() {
                stack = given;
            }
        }
        let name = |level: &usize| &diagram.nodes[diagram.levels[*level].node].name;
        let kept = if node == response {
            diagram.nodes[node].gathers = stack.iter().map(name).cloned().collect();
            0
        } else {
            let gathered = diagram.nodes[node].gathers.first();
            let gathered = gathered.and_then(|from| stack.iter().position(|it| name(it) == from));
            gathered.unwrap_or(stack.len())
        };
        for level in stack.drain(kept..) {
            diagram.levels[level].gathered_by.push(node);
        }
        if let Some(count) = diagram.nodes[node].splits {
            diagram.levels.push(DiagramLevel {
                node,
                count,
                parent: stack.last().copied(),
                gathered_by: Vec::new(),
            });
        }
        diagram.nodes[node].levels = stack;
    }
}

/// Returns the nodes, sources before consumers; where there is a cycle, the first of the file goes
/// first.
fn order(sources: &[Vec<usize>]) -> Vec<usize> {
    let mut waiting: Vec<usize> = sources.iter().map(Vec::len).collect();
    let mut consumers = vec![Vec::new(); sources.len()];
    for (to, sources) in sources.iter().enumerate() {
        for &from in sources {
            consumers[from].push(to);
        }
    }
    let mut is_done = vec![false; sources.len()];
    let mut order = Vec::with_capacity(sources.len());
    let nodes = (0..sources.len()).rev();
    let mut ready: Vec<usize> = nodes.filter(|node| waiting[*node] == 0).collect();
    while let Some(node) = ready
        .pop()
        .or_else(|| is_done.iter().position(|done| !done))
    {
        if mem::replace(&mut is_done[node], true) {
            continue;
        }
        order.push(node);
        for &consumer in &consumers[node] {
            waiting[consumer] = waiting[consumer].saturating_sub(1);
            if waiting[consumer] == 0 {
                ready.push(consumer);
            }
        }
    }
    order
}

/// Finds what goes over each edge.
fn flows(diagram: &mut Diagram) {
    for edge in &mut diagram.edges {
        let (EdgeSource::Node(from), EdgeContent::Tensor { tensor, .. }) =
            (&edge.from, &mut edge.carries)
        else {
            continue;
        };
        let (from, to) = (&diagram.nodes[*from], &diagram.nodes[edge.to]);
        let given = from.outputs.iter().rev().find(|it| it.name == edge.output);
        let taken = to.inputs.iter().find(|it| it.name == edge.input);
        let known = |port: Option<&DiagramPort>| {
            let tensor = port?.tensor.as_ref()?;
            Some((tensor.datatype, tensor.shape.as_ref()?.0.clone()))
        };
        let (flow, front) = match (known(given), known(taken)) {
            (None, taken) => (taken, to.gathers.len()),
            (given, _) => (given, usize::from(from.splits.is_some())),
        };
        if let Some((datatype, shape)) = flow
            && let Some(shape) = shape.get(front..)
        {
            *tensor = TensorType {
                datatype,
                shape: Some(PartialShape(shape.to_vec())),
            };
        }
    }
}

/// Finds what the pipeline takes and gives.
fn ends(diagram: &mut Diagram) {
    let response = diagram.response();
    let dim = |count: i32| usize::try_from(count).map_or(Dim::Any, Dim::Fixed);
    let front: Vec<Dim> = diagram.nodes[REQUEST].splits.map(dim).into_iter().collect();
    for output in &mut diagram.nodes[REQUEST].outputs {
        let from = EdgeSource::Node(REQUEST);
        let edges = diagram
            .edges
            .iter()
            .filter(|edge| edge.from == from && edge.output == output.name && edge.to != response);
        let flow = edges.filter_map(carried).reduce(common);
        output.tensor = Some(with_front(flow, &front));
    }
    let levels = diagram.levels.iter();
    let gathered = levels.filter(|level| level.gathered_by.contains(&response));
    let front: Vec<Dim> = gathered.map(|level| dim(level.count)).collect();
    for input in &mut diagram.nodes[response].inputs {
        let mut edges = diagram.edges.iter();
        let edge = edges.find(|edge| edge.to == response && edge.input == input.name);
        input.tensor = Some(with_front(edge.and_then(carried), &front));
    }
}

/// Returns the tensor of an edge of a pipeline.
fn carried(edge: &DiagramEdge) -> Option<TensorType> {
    match &edge.carries {
        EdgeContent::Tensor { tensor, .. } => Some(tensor.clone()),
        EdgeContent::Packets { .. } => None,
    }
}

/// Adds dimensions at the front.
fn with_front(tensor: Option<TensorType>, front: &[Dim]) -> TensorType {
    let mut tensor = tensor.unwrap_or_default();
    if let Some(shape) = &mut tensor.shape {
        shape.0.splice(0..0, front.iter().copied());
    }
    tensor
}

/// Returns what suits two consumers.
fn common(a: TensorType, b: TensorType) -> TensorType {
    let shape = match (a.shape, b.shape) {
        (Some(x), Some(y)) if a.datatype == b.datatype => common_shape(&x.0, &y.0),
        _ => None,
    };
    TensorType {
        datatype: shape.as_ref().and(a.datatype),
        shape,
    }
}
