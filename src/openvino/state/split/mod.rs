//! Graphs of an IR file without variables: a `ReadValue` becomes an input and an `Assign` an output,
//! behind those that the model has, and what computes initial values becomes a graph of its own.
//!
//! Both graphs use the weights of the file, by the same offsets. What is written here is read by the
//! runtime, which finds what does not fit together.

use std::{collections::HashSet, ops::Range};

use quick_xml::{
    Reader, XmlVersion,
    escape::escape,
    events::{BytesStart, Event},
};

/// Name of the tensor of a variable, with its place among them behind it.
pub(super) const TENSOR: &str = "ovms_state_";

/// Reason why the variables of a model stay with the runtime.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SplitError {
    #[error("the file is no whole IR file")]
    NotWhole,
    #[error("variable `{0}` is used within a loop or a branch")]
    InBody(String),
    #[error("variable `{name}` is read {reads} times and written {writes} times, not once each")]
    Uses {
        name: String,
        reads: usize,
        writes: usize,
    },
    #[error("variable `{0}` is of an operator set before opset6")]
    Old(String),
    #[error("what is written to variable `{0}` is used by other operators")]
    Passes(String),
    #[error("the initial value of variable `{0}` depends on another variable")]
    Chained(String),
    #[error("its attention has a cache, which the runtime keeps in place")]
    Attention,
}

/// A model in parts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SplitGraph {
    /// The names of its variables, in the order of the inputs and outputs that they have become.
    pub(super) variables: Vec<String>,
    /// The graph of a step.
    pub(super) step: String,
    /// The graph of initial values, if a variable has one that is computed.
    pub(super) initial: Option<InitialGraph>,
}

/// The graph of initial values.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InitialGraph {
    pub(super) text: String,
    /// The places of the variables that its outputs are for.
    pub(super) variables: Vec<usize>,
    /// Whether it has the model's inputs.
    pub(super) of_inputs: bool,
}

/// The parts of a file that matter here.
#[derive(Default)]
struct IrGraph<'a> {
    text: &'a str,
    layers: Vec<IrLayer>,
    edges: Vec<IrEdge>,
    layers_span: Range<usize>,
    edges_span: Range<usize>,
}

#[derive(Default)]
struct IrLayer {
    span: Range<usize>,
    id: String,
    name: String,
    kind: String,
    /// Attributes of variables: name, type, and shape.
    variable: [Option<String>; 3],
    inputs: Range<usize>,
    /// Id and precision of its first output.
    output: Option<[String; 2]>,
}

struct IrEdge {
    span: Range<usize>,
    from: String,
    to: String,
}

const READS: &str = "ReadValue";
const WRITES: &str = "Assign";

/// Takes a model apart; one without variables stays as it is.
pub(super) fn split(text: &str) -> Result<SplitGraph, SplitError> {
    let graph = IrGraph::read(text)?;
    let of_kind = |kind| graph.layers.iter().filter(move |layer| layer.kind == kind);
    let mut reads: Vec<&IrLayer> = of_kind(READS).collect();
    reads.sort_by_key(|layer| layer.variable());
    let mut writes = Vec::new();
    for name in of_kind(READS).chain(of_kind(WRITES)).map(IrLayer::variable) {
        let count = |kind| {
            of_kind(kind)
                .filter(|layer| layer.variable() == name)
                .count()
        };
        let (reads, writes) = (count(READS), count(WRITES));
        if (reads, writes) != (1, 1) {
            let name = name.to_owned();
            return Err(SplitError::Uses {
                name,
                reads,
                writes,
            });
        }
    }
    if !reads.is_empty() && of_kind("ScaledDotProductAttention").next().is_some() {
        return Err(SplitError::Attention);
    }
    let mut more = String::new();
    for (place, read) in reads.iter().enumerate() {
        let IrLayer { id, name, .. } = read;
        let ([_, Some(kind), Some(shape)], Some([port, precision])) =
            (&read.variable, &read.output)
        else {
            return Err(SplitError::Old(read.variable().to_owned()));
        };
        let [name, kind, shape] = [name, kind, shape].map(escape);
        let layer = format!(
            r#"<layer id="{id}" name="{name}" type="Parameter" version="opset1"><data shape="{shape}" element_type="{kind}"/><output><port id="{port}" precision="{precision}" names="{TENSOR}{place}"/></output></layer>"#
        );
        more += &layer;
        writes.extend(of_kind(WRITES).filter(|layer| layer.variable() == read.variable()));
    }
    for write in writes {
        if graph.edges.iter().any(|edge| edge.from == write.id) {
            return Err(SplitError::Passes(write.variable().to_owned()));
        }
        more += &graph.result(write);
    }
    let variables = reads
        .iter()
        .map(|read| read.variable().to_owned())
        .collect();
    Ok(SplitGraph {
        variables,
        initial: graph.initial(&reads)?,
        step: graph.with(
            |layer| ![READS, WRITES].contains(&&*layer.kind),
            &more,
            |edge| reads.iter().all(|read| read.id != edge.to),
        ),
    })
}

impl IrLayer {
    fn variable(&self) -> &str {
        self.variable[0].as_deref().unwrap_or_default()
    }
}

impl<'a> IrGraph<'a> {
    /// Reads the layers and edges of a file, without those in the bodies of others.
    fn read(text: &'a str) -> Result<Self, SplitError> {
        let mut graph = Self {
            text,
            ..Self::default()
        };
        let mut reader = Reader::from_str(text);
        reader.config_mut().expand_empty_elements = true;
        let mut path: Vec<String> = Vec::new();
        let position = |reader: &Reader<_>| usize::try_from(reader.buffer_position());
        loop {
            let before = position(&reader).map_err(|_| SplitError::NotWhole)?;
            let event = reader.read_event().map_err(|_| SplitError::NotWhole)?;
            let after = position(&reader).map_err(|_| SplitError::NotWhole)?;
            match event {
                Event::Start(element) => {
                    path.push(element.name().as_ref().to_owned());
                    graph.begins(&path, &element, before..after)?;
                }
                Event::End(_) => {
                    graph.ends(&path, before..after);
                    path.pop();
                }
                Event::Eof => {
                    let (layers, edges) = (&graph.layers_span, &graph.edges_span);
                    let is_whole = layers.start < layers.end && layers.end < edges.start;
                    let is_whole = is_whole && edges.start <= edges.end && path.is_empty();
                    return is_whole.then_some(graph).ok_or(SplitError::NotWhole);
                }
                _ => {}
            }
        }
    }

    fn begins(
        &mut self,
        path: &[String],
        element: &BytesStart<'_>,
        tag: Range<usize>,
    ) -> Result<(), SplitError> {
        let [root, path @ ..] = path else {
            return Ok(());
        };
        let of = |name| attribute(element, name);
        let text = |name| of(name).unwrap_or_default();
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        match (&*path, self.layers.last_mut()) {
            _ if root != "net" => return Err(SplitError::NotWhole),
            (["layers"], _) => self.layers_span.start = tag.end,
            (["edges"], _) => self.edges_span.start = tag.end,
            (["layers", "layer"], _) => self.layers.push(IrLayer {
                span: tag,
                id: text("id"),
                name: text("name"),
                kind: text("type"),
                ..IrLayer::default()
            }),
            (["layers", "layer", "data"], Some(layer)) => {
                layer.variable = ["variable_id", "variable_type", "variable_shape"].map(of);
            }
            (["layers", "layer", "input"], Some(layer)) => layer.inputs = tag,
            (["layers", "layer", "output", "port"], Some(layer)) => {
                let port = || ["id", "precision"].map(text);
                layer.output.get_or_insert_with(port);
            }
            (["edges", "edge"], _) => self.edges.push(IrEdge {
                span: tag,
                from: text("from-layer"),
                to: text("to-layer"),
            }),
            ([.., "layer", "data"], _) => {
                if let Some(variable) = of("variable_id") {
                    return Err(SplitError::InBody(variable));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn ends(&mut self, path: &[String], tag: Range<usize>) {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        match (
            &path[1.min(path.len())..],
            self.layers.last_mut(),
            self.edges.last_mut(),
        ) {
            (["layers"], ..) => self.layers_span.end = tag.start,
            (["edges"], ..) => self.edges_span.end = tag.start,
            (["layers", "layer"], Some(layer), _) => layer.span.end = tag.end,
            (["layers", "layer", "input"], Some(layer), _) => layer.inputs.end = tag.end,
            (["edges", "edge"], _, Some(edge)) => edge.span.end = tag.end,
            _ => {}
        }
    }

    /// Writes the graph of the initial values of variables.
    fn initial(&self, reads: &[&IrLayer]) -> Result<Option<InitialGraph>, SplitError> {
        let mut text = String::new();
        let mut variables = Vec::new();
        let mut wanted: HashSet<&str> = HashSet::new();
        for (place, read) in reads.iter().enumerate() {
            let mut open = vec![&*read.id];
            while let Some(id) = open.pop() {
                if id != read.id && reads.iter().any(|other| other.id == id) {
                    return Err(SplitError::Chained(read.variable().to_owned()));
                }
                let feeds = self.edges.iter().filter(|edge| edge.to == id);
                open.extend(
                    feeds
                        .map(|edge| &*edge.from)
                        .filter(|from| wanted.insert(from)),
                );
            }
            if self.edges.iter().any(|edge| edge.to == read.id) {
                text += &self.result(read);
                variables.push(place);
            }
        }
        let is_input = |layer: &IrLayer| layer.kind == "Parameter";
        let mut layers = self.layers.iter();
        let of_inputs = layers.any(|layer| is_input(layer) && wanted.contains(&*layer.id));
        let keeps = |layer: &IrLayer| {
            // All of them, so that they are where a request has them.
            wanted.contains(&*layer.id) || (of_inputs && is_input(layer))
        };
        let leads = |edge: &IrEdge| {
            wanted.contains(&*edge.to) || reads.iter().any(|read| read.id == edge.to)
        };
        Ok((!variables.is_empty()).then(|| InitialGraph {
            text: self.with(keeps, &text, leads),
            variables,
            of_inputs,
        }))
    }

    /// Writes a layer that takes the inputs of another one as an output of the model.
    fn result(&self, layer: &IrLayer) -> String {
        let (id, name) = (&layer.id, escape(&layer.name));
        let inputs = &self.text[layer.inputs.clone()];
        format!(r#"<layer id="{id}" name="{name}" type="Result" version="opset1">{inputs}</layer>"#)
    }

    /// Writes the graph with some of its layers and edges, and more layers behind.
    fn with(
        &self,
        keeps: impl Fn(&IrLayer) -> bool,
        more: &str,
        leads: impl Fn(&IrEdge) -> bool,
    ) -> String {
        let (layers, edges) = (&self.layers_span, &self.edges_span);
        let kept = self.layers.iter().filter(|layer| keeps(layer));
        let led = self.edges.iter().filter(|edge| leads(edge));
        let parts = std::iter::once(0..layers.start)
            .chain(kept.map(|layer| layer.span.clone()))
            .map(|span| &self.text[span])
            .chain([more, &self.text[layers.end..edges.start]])
            .chain(led.map(|edge| &self.text[edge.span.clone()]))
            .chain([&self.text[edges.end..]]);
        parts.collect()
    }
}

/// Returns the text of an attribute.
pub fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let attribute = element.try_get_attribute(name).ok()??;
    let text = attribute.normalized_value(XmlVersion::Implicit1_0).ok()?;
    Some(text.into_owned())
}

#[cfg(test)]
mod tests;
