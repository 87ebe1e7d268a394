//! Makes the outline of what is configured.

use std::collections::HashMap;

use super::{
    Dangling, OutlineLevel, OutlinePort, PipelineEdge, PipelineNodeKind, PipelineOutline,
    PipelineOutlineNode, REQUEST, RESPONSE,
};
use crate::{
    config::{Connection, NodeConfig, NodeKind, PipelineConfig},
    pipeline::{
        dims::{common_shape, letters},
        missing::Missing,
        plan::Count,
        sources::{CustomFacts, Sources, TensorSource},
    },
    tensor::{Dim, Layout, PartialShape},
};

impl PipelineOutline {
    /// Makes the outline of what is configured. What `sources` does not know, it lacks; it asks for
    /// each custom node once.
    #[must_use]
    pub fn new(config: &PipelineConfig, sources: &impl Sources) -> Self {
        let facts: Vec<Facts> = config
            .nodes
            .iter()
            .map(|node| describe(node, sources))
            .collect();
        let mut outline = Self {
            name: config.name.clone(),
            nodes: nodes(config, &facts, sources),
            edges: Vec::new(),
            dangling: Vec::new(),
            levels: Vec::new(),
        };
        outline.connect(config);
        outline.stack();
        outline.flows();
        outline.ends();
        outline
    }

    fn connect(&mut self, config: &PipelineConfig) {
        let exit = self.exit();
        let mut names = HashMap::from([(REQUEST, 0)]);
        for (index, node) in config.nodes.iter().enumerate() {
            if node.name != RESPONSE {
                names.entry(node.name.as_str()).or_insert(index + 1);
            }
        }
        let lists = config.nodes.iter().map(|node| &node.inputs);
        for (index, connections) in lists.chain([&config.outputs]).enumerate() {
            let to = (index + 1).min(exit);
            for connection in connections {
                self.connection(to, connection, &names);
            }
        }
    }

    fn connection(&mut self, to: usize, connection: &Connection, names: &HashMap<&str, usize>) {
        let (item, input) = (connection.data_item.clone(), connection.name.clone());
        let Some(&from) = names.get(connection.node_name.as_str()) else {
            let source = connection.node_name.clone();
            self.dangling.push(Dangling {
                source,
                item,
                to,
                input,
            });
            return;
        };
        let mut outputs = self.nodes[from].outputs.iter();
        self.edges.push(PipelineEdge {
            from,
            is_there: outputs.any(|output| output.name == item),
            item,
            to,
            input,
            tensor: None,
        });
    }

    /// Finds the levels, and which of them each node runs in. Where the file contradicts itself,
    /// the deepest that an input comes from counts.
    fn stack(&mut self) {
        let mut into = vec![Vec::new(); self.nodes.len()];
        for (index, edge) in self.edges.iter().enumerate() {
            into[edge.to].push(index);
        }
        for node in self.order() {
            let mut stack: Vec<usize> = Vec::new();
            for edge in into[node].iter().map(|edge| &self.edges[*edge]) {
                let given = self.given(edge.from);
                if edge.from != node && given.len() > stack.len() {
                    stack = given;
                }
            }
            if node == self.exit() {
                let gathers = stack.iter().map(|level| self.levels[*level].node);
                self.nodes[node].gathers =
                    gathers.map(|node| self.nodes[node].name.clone()).collect();
                for level in stack.drain(..) {
                    self.levels[level].gathered_by.push(node);
                }
            } else if let Some(from) = self.nodes[node].gathers.first() {
                let gathered = |level: &usize| self.nodes[self.levels[*level].node].name == *from;
                if let Some(at) = stack.iter().position(gathered) {
                    for level in stack.drain(at..) {
                        self.levels[level].gathered_by.push(node);
                    }
                }
            }
            if let Some(count) = self.nodes[node].opens {
                self.levels.push(OutlineLevel {
                    node,
                    count,
                    parent: stack.last().copied(),
                    gathered_by: Vec::new(),
                });
            }
            self.nodes[node].levels = stack;
        }
    }

    /// Returns the nodes, sources before consumers; where there is a cycle, the first of the file
    /// goes first.
    fn order(&self) -> Vec<usize> {
        let count = self.nodes.len();
        let mut waiting = vec![0_usize; count];
        let mut consumers = vec![Vec::new(); count];
        for edge in self.edges.iter().filter(|edge| edge.from != edge.to) {
            waiting[edge.to] += 1;
            consumers[edge.from].push(edge.to);
        }
        let mut done = vec![false; count];
        let mut order = Vec::with_capacity(count);
        let mut ready: Vec<usize> = (0..count)
            .rev()
            .filter(|node| waiting[*node] == 0)
            .collect();
        while order.len() < count {
            let next = ready.pop().or_else(|| done.iter().position(|done| !done));
            let Some(node) = next.filter(|node| !done[*node]) else {
                continue;
            };
            done[node] = true;
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

    /// Finds what goes over each connection.
    fn flows(&mut self) {
        for index in 0..self.edges.len() {
            let edge = &self.edges[index];
            let (from, to) = (&self.nodes[edge.from], &self.nodes[edge.to]);
            let given = from.outputs.iter().rev().find(|it| it.name == edge.item);
            let given = given.and_then(|output| output.tensor.clone());
            let taken = to.inputs.iter().find(|it| it.name == edge.input);
            let taken = taken.and_then(|input| input.tensor.clone());
            let tensor = match (given, taken) {
                (Some(given), _) => without_front(given, usize::from(from.opens.is_some())),
                (None, Some(taken)) => without_front(taken, to.gathers.len()),
                (None, None) => None,
            };
            self.edges[index].tensor = tensor;
        }
    }

    /// Finds what the pipeline takes and gives.
    fn ends(&mut self) {
        let exit = self.exit();
        let front: Vec<Dim> = self.opened(0).into_iter().map(|_| self.dim(0)).collect();
        for index in 0..self.nodes[0].outputs.len() {
            let output = &self.nodes[0].outputs[index];
            let edges = self.edges.iter();
            let mut flows = edges
                .filter(|edge| edge.from == 0 && edge.item == output.name && edge.to != exit)
                .map(|edge| edge.tensor.clone());
            let first = flows.next().flatten();
            let tensor = flows.fold(first, |all, next| both(all?, &next?));
            self.nodes[0].outputs[index].tensor = tensor.map(|mut tensor| {
                tensor.name.clone_from(&output.name);
                with_front(tensor, &front)
            });
        }
        let gathered = |level: &OutlineLevel| level.gathered_by.contains(&exit);
        let gathered = self.levels.iter().filter(|level| gathered(level));
        let nodes: Vec<usize> = gathered.map(|level| level.node).collect();
        let front: Vec<Dim> = nodes.into_iter().map(|node| self.dim(node)).collect();
        for index in 0..self.nodes[exit].inputs.len() {
            let input = &self.nodes[exit].inputs[index];
            let mut edges = self.edges.iter();
            let edge = edges.find(|edge| edge.to == exit && edge.input == input.name);
            let tensor = edge.and_then(|edge| edge.tensor.clone());
            self.nodes[exit].inputs[index].tensor = tensor.map(|mut tensor| {
                tensor.name.clone_from(&input.name);
                with_front(tensor, &front)
            });
        }
    }

    /// Returns the dimension that the parts of a node make.
    fn dim(&self, node: usize) -> Dim {
        match self.nodes[node].opens {
            Some(Count::Fixed(count)) => Dim::Fixed(count),
            _ => Dim::Any,
        }
    }
}

/// Inputs and outputs of a node, or the problem of its model or library, if it was examined.
type Facts = Result<CustomFacts, Option<Missing>>;

fn describe(node: &NodeConfig, sources: &impl Sources) -> Facts {
    match &node.kind {
        NodeKind::Model {
            model_name,
            version,
        } => match sources.model(model_name, *version) {
            Ok(facts) => Ok(CustomFacts {
                inputs: facts.info.inputs.iter().map(TensorSource::from).collect(),
                outputs: facts.info.outputs.iter().map(TensorSource::from).collect(),
                is_open: false,
            }),
            Err(why) => Err(Missing::model(model_name, *version, &why)),
        },
        NodeKind::Custom {
            library_name,
            params,
        } => sources
            .custom(node, library_name, params)
            .map_err(|why| Missing::custom(library_name, &why)),
    }
}

fn nodes(
    config: &PipelineConfig,
    facts: &[Facts],
    sources: &impl Sources,
) -> Vec<PipelineOutlineNode> {
    let end = |name: &str, kind| PipelineOutlineNode {
        name: name.to_owned(),
        kind,
        missing: None,
        opens: None,
        gathers: Vec::new(),
        levels: Vec::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
    };
    let port = |name: &str, real: &str, known: Option<&Vec<TensorSource>>| OutlinePort {
        name: name.to_owned(),
        real: real.to_owned(),
        tensor: known.and_then(|known| known.iter().find(|it| it.name == real).cloned()),
    };
    let entry = PipelineOutlineNode {
        opens: config.demultiply_count.map(Count::new),
        outputs: config
            .inputs
            .iter()
            .map(|name| port(name, name, None))
            .collect(),
        ..end(REQUEST, PipelineNodeKind::Entry)
    };
    let inner = config.nodes.iter().zip(facts).map(|(node, facts)| {
        let known = facts.as_ref().ok();
        let inputs = known.map(|facts| &facts.inputs);
        let outputs = known.map(|facts| &facts.outputs);
        PipelineOutlineNode {
            missing: facts.as_ref().err().cloned().flatten(),
            opens: node.demultiply_count.map(Count::new),
            gathers: node.gather_from_node.iter().cloned().collect(),
            inputs: node
                .inputs
                .iter()
                .map(|input| port(&input.name, &input.name, inputs))
                .collect(),
            outputs: node
                .outputs
                .iter()
                .map(|output| port(&output.alias, &output.data_item, outputs))
                .collect(),
            ..end(&node.name, kind(&node.kind, sources))
        }
    });
    let outputs = config.outputs.iter();
    let exit = PipelineOutlineNode {
        inputs: outputs
            .map(|output| port(&output.name, &output.name, None))
            .collect(),
        ..end(RESPONSE, PipelineNodeKind::Exit)
    };
    [entry].into_iter().chain(inner).chain([exit]).collect()
}

fn kind(kind: &NodeKind, sources: &impl Sources) -> PipelineNodeKind {
    match kind {
        NodeKind::Model {
            model_name,
            version,
        } => PipelineNodeKind::Model {
            name: model_name.clone(),
            version: *version,
        },
        NodeKind::Custom { library_name, .. } => PipelineNodeKind::Custom {
            library: library_name.clone(),
            is_python: sources.is_python(library_name),
        },
    }
}

/// Takes dimensions away at the front, if there are as many.
fn without_front(mut tensor: TensorSource, count: usize) -> Option<TensorSource> {
    if count == 0 {
        return Some(tensor);
    }
    let shape = tensor.shape.0.get(count..)?.to_vec();
    tensor.layout = Layout::unspecified(shape.len());
    tensor.shape = PartialShape(shape);
    Some(tensor)
}

/// Adds dimensions at the front.
fn with_front(mut tensor: TensorSource, front: &[Dim]) -> TensorSource {
    if !front.is_empty() {
        tensor.shape.0.splice(0..0, front.iter().copied());
        tensor.layout = Layout::unspecified(tensor.shape.0.len());
    }
    tensor
}

/// Returns what suits two consumers.
fn both(mut a: TensorSource, b: &TensorSource) -> Option<TensorSource> {
    if a.dtype != b.dtype {
        return None;
    }
    a.shape = common_shape(&a.shape.0, &b.shape.0)?;
    let rank = a.shape.0.len();
    if letters(&a.layout, rank) != letters(&b.layout, rank) {
        a.layout = Layout::unspecified(rank);
    }
    Some(a)
}
