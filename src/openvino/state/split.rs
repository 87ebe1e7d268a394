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
struct Graph<'a> {
    text: &'a str,
    layers: Vec<Layer>,
    edges: Vec<Edge>,
    layers_span: Range<usize>,
    edges_span: Range<usize>,
}

#[derive(Default)]
struct Layer {
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

struct Edge {
    span: Range<usize>,
    from: String,
    to: String,
}

const READS: &str = "ReadValue";
const WRITES: &str = "Assign";

/// Takes a model apart; one without variables stays as it is.
pub(super) fn split(text: &str) -> Result<SplitGraph, SplitError> {
    let graph = Graph::read(text)?;
    let of_kind = |kind| graph.layers.iter().filter(move |layer| layer.kind == kind);
    let mut reads: Vec<&Layer> = of_kind(READS).collect();
    reads.sort_by_key(|layer| layer.variable());
    let mut writes = Vec::new();
    for name in of_kind(READS).chain(of_kind(WRITES)).map(Layer::variable) {
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
        let Layer { id, name, .. } = read;
        let ([_, Some(kind), Some(shape)], Some([port, precision])) =
            (&read.variable, &read.output)
        else {
            return Err(SplitError::Old(read.variable().to_owned()));
        };
        let [name, kind, shape] = [name, kind, shape].map(|text| escape(text));
        more += &format!(
            r#"<layer id="{id}" name="{name}" type="Parameter" version="opset1"><data shape="{shape}" element_type="{kind}"/><output><port id="{port}" precision="{precision}" names="{TENSOR}{place}"/></output></layer>"#
        );
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

impl Layer {
    fn variable(&self) -> &str {
        self.variable[0].as_deref().unwrap_or_default()
    }
}

impl<'a> Graph<'a> {
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
            (["layers", "layer"], _) => self.layers.push(Layer {
                span: tag,
                id: text("id"),
                name: text("name"),
                kind: text("type"),
                ..Layer::default()
            }),
            (["layers", "layer", "data"], Some(layer)) => {
                layer.variable = ["variable_id", "variable_type", "variable_shape"].map(of);
            }
            (["layers", "layer", "input"], Some(layer)) => layer.inputs = tag,
            (["layers", "layer", "output", "port"], Some(layer)) => {
                let port = || ["id", "precision"].map(text);
                layer.output.get_or_insert_with(port);
            }
            (["edges", "edge"], _) => self.edges.push(Edge {
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
    fn initial(&self, reads: &[&Layer]) -> Result<Option<InitialGraph>, SplitError> {
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
        let is_input = |layer: &Layer| layer.kind == "Parameter";
        let mut layers = self.layers.iter();
        let of_inputs = layers.any(|layer| is_input(layer) && wanted.contains(&*layer.id));
        let keeps = |layer: &Layer| {
            // All of them, so that they are where a request has them.
            wanted.contains(&*layer.id) || (of_inputs && is_input(layer))
        };
        let leads =
            |edge: &Edge| wanted.contains(&*edge.to) || reads.iter().any(|read| read.id == edge.to);
        Ok((!variables.is_empty()).then(|| InitialGraph {
            text: self.with(keeps, &text, leads),
            variables,
            of_inputs,
        }))
    }

    /// Writes a layer that takes the inputs of another one as an output of the model.
    fn result(&self, layer: &Layer) -> String {
        let (id, name) = (&layer.id, escape(&layer.name));
        let inputs = &self.text[layer.inputs.clone()];
        format!(r#"<layer id="{id}" name="{name}" type="Result" version="opset1">{inputs}</layer>"#)
    }

    /// Writes the graph with some of its layers and edges, and more layers behind.
    fn with(
        &self,
        keeps: impl Fn(&Layer) -> bool,
        more: &str,
        leads: impl Fn(&Edge) -> bool,
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
#[must_use]
pub fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let attribute = element.try_get_attribute(name).ok()??;
    let text = attribute.normalized_value(XmlVersion::Implicit1_0).ok()?;
    Some(text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::{SplitError, split};

    /// Writes a graph of layers, given as id, type and more attributes, and edges.
    fn graph(layers: &[(u8, &str, &str)], edges: &[(u8, u8)]) -> String {
        let layer = |&(id, kind, data): &(u8, &str, &str)| {
            format!(
                r#"<layer id="{id}" name="{kind}&amp;{id}" type="{kind}" version="opset6"><data {data}/><input><port id="0"/></input><output><port id="1" precision="FP32" names="n"/></output></layer>"#
            )
        };
        let edge = |(from, to)| {
            format!(r#"<edge from-layer="{from}" from-port="1" to-layer="{to}" to-port="0"/>"#)
        };
        let layers: String = layers.iter().map(layer).collect();
        let edges: String = edges.iter().copied().map(edge).collect();
        format!(
            r#"<?xml version="1.0"?><net name="m"><layers>{layers}</layers><edges>{edges}</edges><rt_info/></net>"#
        )
    }

    const A: &str = r#"variable_id="a" variable_type="f32" variable_shape="1,?""#;
    const B: &str = r#"variable_id="b" variable_type="i64" variable_shape="""#;

    fn refused(layers: &[(u8, &str, &str)], edges: &[(u8, u8)]) -> String {
        split(&graph(layers, edges)).unwrap_err().to_string()
    }

    #[test]
    fn variables_become_the_last_inputs_and_outputs() {
        let layers = [
            (0, "Parameter", ""),
            (1, "ReadValue", B),
            (2, "Const", ""),
            (3, "ReadValue", A),
            (4, "Add", ""),
            (5, "Assign", A),
            (6, "Assign", B),
            (7, "Result", ""),
        ];
        let edges = [(2, 3), (0, 4), (1, 4), (3, 4), (4, 5), (4, 6), (4, 7)];
        let parts = split(&graph(&layers, &edges)).unwrap();
        assert_eq!(parts.variables, ["a", "b"]);
        let found = |text: &str| -> Vec<String> {
            let layers = text.split("<layer ").skip(1);
            let layers =
                layers.map(|layer| layer.split(" version").next().unwrap().replace('"', ""));
            let edges = text.split("from-layer=\"").skip(1);
            let edges = edges.map(|edge| edge.replace("\" from-port=\"1\" to-layer=\"", "->"));
            let edges = edges.map(|edge| edge.split('"').next().unwrap().to_owned());
            layers.chain(edges).collect()
        };
        insta::assert_snapshot!(found(&parts.step).join("\n"), @"
        id=0 name=Parameter&amp;0 type=Parameter
        id=2 name=Const&amp;2 type=Const
        id=4 name=Add&amp;4 type=Add
        id=7 name=Result&amp;7 type=Result
        id=3 name=ReadValue&amp;3 type=Parameter
        id=1 name=ReadValue&amp;1 type=Parameter
        id=5 name=Assign&amp;5 type=Result
        id=6 name=Assign&amp;6 type=Result
        0->4
        1->4
        3->4
        4->5
        4->6
        4->7
        ");
        let initial = parts.initial.unwrap();
        assert_eq!((initial.variables, initial.of_inputs), (vec![0], false));
        insta::assert_snapshot!(found(&initial.text).join("\n"), @"
        id=2 name=Const&amp;2 type=Const
        id=3 name=ReadValue&amp;3 type=Result
        2->3
        ");
        assert!(parts.step.contains(
            r#"<data shape="1,?" element_type="f32"/><output><port id="1" precision="FP32" names="ovms_state_0"/></output></layer>"#
        ));
        assert!(parts.step.ends_with("</edges><rt_info/></net>"));
    }

    #[test]
    fn initial_values_of_inputs_keep_all_inputs_where_they_are() {
        let layers = [
            (0, "Parameter", ""),
            (1, "Parameter", ""),
            (2, "Multiply", ""),
            (3, "ReadValue", A),
            (4, "Assign", A),
        ];
        let edges = [(1, 2), (2, 3), (3, 4), (0, 4)];
        let initial = split(&graph(&layers, &edges)).unwrap().initial.unwrap();
        assert!(initial.of_inputs);
        let places = [
            "id=\"0\"",
            "id=\"1\"",
            "id=\"2\"",
            "id=\"3\" name=\"ReadValue&amp;3\" type=\"Result\"",
        ];
        let places = places.map(|place| initial.text.find(&format!("<layer {place}")).unwrap());
        assert!(places.is_sorted(), "{}", initial.text);
        assert!(!initial.text.contains("Assign"));
    }

    #[test]
    fn a_model_without_variables_stays_as_it_is() {
        let text = graph(&[(0, "Parameter", ""), (1, "Result", "")], &[(0, 1)]);
        let parts = split(&text).unwrap();
        assert_eq!((parts.step, parts.initial), (text, None));
    }

    #[test]
    fn each_refusal_has_its_text() {
        let read = (1, "ReadValue", A);
        let write = (2, "Assign", A);
        insta::assert_snapshot!(refused(&[read], &[]), @"variable `a` is read 1 times and written 0 times, not once each");
        insta::assert_snapshot!(refused(&[write], &[]), @"variable `a` is read 0 times and written 1 times, not once each");
        insta::assert_snapshot!(refused(&[read, (3, "ReadValue", A), write], &[]), @"variable `a` is read 2 times and written 1 times, not once each");
        insta::assert_snapshot!(refused(&[read, write, (3, "Result", "")], &[(1, 2), (2, 3)]), @"what is written to variable `a` is used by other operators");
        insta::assert_snapshot!(
            refused(&[read, write, (3, "ReadValue", B), (4, "Assign", B)], &[(1, 3)]),
            @"the initial value of variable `b` depends on another variable"
        );
        insta::assert_snapshot!(
            refused(&[read, write, (3, "ScaledDotProductAttention", "")], &[]),
            @"its attention has a cache, which the runtime keeps in place"
        );
        let old = r#"variable_id="old""#;
        insta::assert_snapshot!(refused(&[(1, "ReadValue", old), (2, "Assign", old)], &[]), @"variable `old` is of an operator set before opset6");
        let body = graph(&[read, write], &[]).replace("?>", "?><net><layers><layer><body>");
        insta::assert_snapshot!(split(&body).unwrap_err(), @"variable `a` is used within a loop or a branch");
    }

    #[test]
    fn what_is_no_ir_file_is_refused() {
        let whole = graph(&[(1, "ReadValue", A), (2, "Assign", A)], &[(1, 2)]);
        for end in 0..whole.len() - "<rt_info/></net>".len() {
            assert_eq!(split(&whole[..end]), Err(SplitError::NotWhole), "{end}");
        }
        for text in [
            "",
            "<net/>",
            "<net><edges/><layers><layer/></layers></net>",
            "<other><layers/></other>",
            "{}",
        ] {
            assert_eq!(split(text), Err(SplitError::NotWhole), "{text}");
        }
    }
}
