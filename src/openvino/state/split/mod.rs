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

use super::variables::MAX_COPIED;

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
    #[error(
        "variable `{0}` is of an operator set before opset6, and its initial value has no known shape"
    )]
    Old(String),
    #[error("what is written to variable `{0}` is used by other operators")]
    Passes(String),
    #[error("the initial value of variable `{0}` depends on another variable")]
    Chained(String),
    #[error("its attention has a cache, which the runtime keeps in place")]
    Attention,
}

/// A model that can be taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SplitGraph<'a> {
    graph: IrGraph<'a>,
    /// The names of its variables, in the order of the inputs and outputs that they become.
    pub(super) variables: Vec<String>,
    /// The graph of initial values, if a variable has one that is computed.
    pub(super) initial: Option<InitialGraph>,
}

/// Element type and shape of a value, as IR files have them.
pub(super) type ValueType = [String; 2];

/// The graph of initial values.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InitialGraph {
    pub(super) text: String,
    /// The places of the variables that its outputs are for.
    pub(super) variables: Vec<usize>,
    /// Indicates that it has the model's inputs.
    pub(super) of_inputs: bool,
}

/// The parts of a file that matter here.
#[derive(Debug, Default, PartialEq, Eq)]
struct IrGraph<'a> {
    text: &'a str,
    layers: Vec<IrLayer>,
    edges: Vec<IrEdge>,
    layers_span: Range<usize>,
    edges_span: Range<usize>,
}

#[derive(Debug, Default, PartialEq, Eq)]
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

#[derive(Debug, PartialEq, Eq)]
struct IrEdge {
    span: Range<usize>,
    from: String,
    to: String,
}

const READS: &str = "ReadValue";
const WRITES: &str = "Assign";

/// Precisions of which the runtime keeps variables of old operators in a wider one: the ports' and the
/// elements', then both of the wider one.
const WIDER: [[[&str; 2]; 2]; 3] = [
    [["FP16", "f16"], ["FP32", "f32"]],
    [["I16", "i16"], ["I32", "i32"]],
    [["U16", "u16"], ["I32", "i32"]],
];

/// The input of a layer that is added.
const PORT: &str = r#"<input><port id="0"/></input>"#;

impl<'a> SplitGraph<'a> {
    /// Reads a file, and refuses what cannot be taken apart.
    pub(super) fn of(text: &'a str) -> Result<Self, SplitError> {
        let graph = IrGraph::read(text)?;
        let reads = graph.reads();
        let of_kind = |kind| graph.of_kind(kind);
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
        let passes = |write: &&IrLayer| graph.edges.iter().any(|edge| edge.from == write.id);
        if let Some(write) = of_kind(WRITES).find(passes) {
            return Err(SplitError::Passes(write.variable().to_owned()));
        }
        let variables = reads
            .iter()
            .map(|read| read.variable().to_owned())
            .collect();
        let initial = graph.initial(&reads)?;
        Ok(Self {
            graph,
            variables,
            initial,
        })
    }

    /// Writes the graph of a step; one without variables stays as it is. `values` are the outputs of
    /// the graph of initial values: a variable of an old operator is what it begins with.
    pub(super) fn step(&self, values: &[Option<ValueType>]) -> Result<String, SplitError> {
        let graph = &self.graph;
        let reads = graph.reads();
        let [mut begins, mut ends, mut edges] = [const { String::new() }; 3];
        for (place, read) in reads.iter().enumerate() {
            let old = || SplitError::Old(read.variable().to_owned());
            let mut writes = graph.of_kind(WRITES);
            let write = writes.find(|layer| layer.variable() == read.variable());
            let (Some(write), Some([port, precision])) = (write, &read.output) else {
                return Err(old());
            };
            let mut parameter = |id: &str, precision: &str, kind: &str, shape: &str| {
                let [name, kind, shape] = [&read.name, kind, shape].map(escape);
                let layer = format!(
                    r#"<layer id="{id}" name="{name}" type="Parameter" version="opset1"><data shape="{shape}" element_type="{kind}"/><output><port id="{port}" precision="{precision}" names="{TENSOR}{place}"/></output></layer>"#
                );
                begins += &layer;
            };
            let mut end = |shape: &str| {
                if !(graph.passes_on(write) && may_be_passed(shape)) {
                    return ends += &graph.result(write);
                }
                let after = graph.new_id(2 * reads.len() + place);
                let [layers, last] = graph.copied_result(write, precision, &after);
                ends += &layers;
                edges += &last;
            };
            if let [_, Some(kind), Some(shape)] = &read.variable {
                parameter(&read.id, precision, kind, shape);
                end(shape);
                continue;
            }
            let initial = self.initial.as_ref().map(|initial| &initial.variables);
            let found = initial.and_then(|list| list.iter().position(|&of| of == place));
            let value = found.and_then(|found| values.get(found)?.as_ref());
            let [kind, shape] = value.ok_or_else(old)?;
            let Some([narrow, wide]) = read.wider() else {
                parameter(&read.id, precision, kind, shape);
                end(shape);
                continue;
            };
            let [before, after] = [0, reads.len()].map(|from| graph.new_id(from + place));
            parameter(&before, wide[0], kind, shape);
            begins += &read.convert(narrow, PORT, port);
            edges += &edge(&before, port, &read.id);
            let [end, last] = graph.wide_result(write, wide, &after);
            ends += &end;
            edges += &last;
        }
        Ok(graph.with(
            |layer| ![READS, WRITES].contains(&&*layer.kind),
            [&(begins + &ends), &edges],
            |edge| reads.iter().all(|read| read.id != edge.to),
        ))
    }
}

impl IrLayer {
    fn variable(&self) -> &str {
        self.variable[0].as_deref().unwrap_or_default()
    }

    /// Returns its precision and the one in which the runtime keeps its variable, if they differ.
    fn wider(&self) -> Option<[[&'static str; 2]; 2]> {
        let [_, precision] = self.output.as_ref()?;
        let is_old = self.variable[1].is_none();
        let mut known = WIDER.into_iter().filter(|_| is_old);
        known.find(|[[narrow, _], _]| narrow == precision)
    }

    /// Writes a conversion in its place.
    fn convert(&self, [precision, kind]: [&str; 2], inputs: &str, port: &str) -> String {
        let (id, name) = (&self.id, escape(&self.name));
        format!(
            r#"<layer id="{id}" name="{name}" type="Convert" version="opset1"><data destination_type="{kind}"/>{inputs}<output><port id="{port}" precision="{precision}"/></output></layer>"#
        )
    }
}

impl<'a> IrGraph<'a> {
    fn of_kind(&self, kind: &str) -> impl Iterator<Item = &IrLayer> {
        self.layers.iter().filter(move |layer| layer.kind == kind)
    }

    /// Returns the layers that read variables, in the order of their names.
    fn reads(&self) -> Vec<&IrLayer> {
        let mut reads: Vec<&IrLayer> = self.of_kind(READS).collect();
        reads.sort_by_key(|layer| layer.variable());
        reads
    }

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
        let [mut text, mut edges] = [const { String::new() }; 2];
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
                if let Some([_, wide]) = read.wider() {
                    let [layers, edge] = self.wide_result(read, wide, &self.new_id(place));
                    text += &layers;
                    edges += &edge;
                } else {
                    text += &self.result(read);
                }
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
            text: self.with(keeps, [&text, &edges], leads),
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

    /// Writes the same behind a conversion, and the edge between them.
    fn wide_result(&self, layer: &IrLayer, wide: [&str; 2], id: &str) -> [String; 2] {
        let port = "1";
        let result = format!(
            r#"<layer id="{id}" name="{TENSOR}{id}" type="Result" version="opset1">{PORT}</layer>"#
        );
        let inputs = &self.text[layer.inputs.clone()];
        let convert = layer.convert(wide, inputs, port);
        [convert + &result, edge(&layer.id, port, id)]
    }

    /// Returns whether a layer takes an input of the model, or a variable, as it is.
    fn passes_on(&self, layer: &IrLayer) -> bool {
        let mut edges = self.edges.iter().filter(|edge| edge.to == layer.id);
        edges.any(|edge| {
            let from = self.layers.iter().find(|it| it.id == edge.from);
            from.is_some_and(|it| ["Parameter", READS].contains(&&*it.kind))
        })
    }

    /// Writes a layer that takes the inputs of another one as an output of the model behind a copy, and the edge between
    /// them. An output that is an input as well has one tensor with it in the runtime, which then reads the input where the
    /// output is to be written.
    fn copied_result(&self, layer: &IrLayer, precision: &str, result: &str) -> [String; 2] {
        let (id, name, port) = (&layer.id, escape(&layer.name), "1");
        let inputs = &self.text[layer.inputs.clone()];
        let layers = format!(
            r#"<layer id="{id}" name="{name}" type="Identity" version="opset16">{inputs}<output><port id="{port}" precision="{precision}"/></output></layer><layer id="{result}" name="{TENSOR}{result}" type="Result" version="opset1">{PORT}</layer>"#
        );
        [layers, edge(id, port, result)]
    }

    /// Returns an id that no layer has.
    fn new_id(&self, place: usize) -> String {
        let ids = self.layers.iter().map(|layer| layer.id.parse::<usize>());
        let last = ids.flatten().max().unwrap_or_default();
        last.saturating_add(1 + place).to_string()
    }

    /// Writes the graph with some of its layers and edges, and more of both behind.
    fn with(
        &self,
        keeps: impl Fn(&IrLayer) -> bool,
        more: [&str; 2],
        leads: impl Fn(&IrEdge) -> bool,
    ) -> String {
        let (layers, edges) = (&self.layers_span, &self.edges_span);
        let kept = self.layers.iter().filter(|layer| keeps(layer));
        let led = self.edges.iter().filter(|edge| leads(edge));
        let parts = std::iter::once(0..layers.start)
            .chain(kept.map(|layer| layer.span.clone()))
            .map(|span| &self.text[span])
            .chain([more[0], &self.text[layers.end..edges.start]])
            .chain(led.map(|edge| &self.text[edge.span.clone()]))
            .chain([more[1], &self.text[edges.end..]]);
        parts.collect()
    }
}

/// Returns whether a variable of a shape of an IR file may be passed to infer requests, instead of copied: its shape is
/// open, or it may be large.
fn may_be_passed(shape: &str) -> bool {
    const MAX_WIDTH: usize = 8;
    let mut lengths = shape.split(',').filter(|length| !length.is_empty());
    let bytes = lengths.try_fold(MAX_WIDTH, |bytes, length| {
        bytes.checked_mul(length.trim().parse().ok()?)
    });
    bytes.is_none_or(|bytes| bytes > MAX_COPIED)
}

/// Writes an edge to the one input of a layer.
fn edge(from: &str, port: &str, to: &str) -> String {
    format!(r#"<edge from-layer="{from}" from-port="{port}" to-layer="{to}" to-port="0"/>"#)
}

/// Returns the text of an attribute.
pub fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let attribute = element.try_get_attribute(name).ok()??;
    let text = attribute.normalized_value(XmlVersion::Implicit1_0).ok()?;
    Some(text.into_owned())
}

#[cfg(test)]
mod tests;
