//! Outline of a graph, valid or not: for diagrams, not for running.

use std::collections::HashMap;

use super::{
    calculator::{Contract, Factory},
    check::check,
    file::{GraphSpec, NodeEntry, PortEntry},
    node::Port,
    packet::{PacketType, TensorKind},
    pbtxt,
    rules::{Found, GraphErrors, GraphFileError, GraphRule},
};
use crate::proto::mediapipe::{
    OpenVinoModelServerSessionCalculatorOptions, PythonExecutorCalculatorOptions,
};

/// Side packets that the server gives to any node.
const GIVEN: [&str; 7] = [
    "py",
    "llm",
    "pipes",
    "embeddings_servable",
    "rerank_servable",
    "s2t_servable",
    "t2s_servable",
];

/// Outline of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphOutline {
    /// Name of the graph.
    pub name: String,
    /// Nodes, in the order of the file.
    pub nodes: Vec<GraphOutlineNode>,
    /// Edges, in the order of their consumers.
    pub edges: Vec<GraphEdge>,
    /// Names and tags of the inputs of the graph.
    pub inputs: Vec<(String, String)>,
    /// Names and tags of the outputs of the graph.
    pub outputs: Vec<(String, String)>,
}

/// Node of an outline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphOutlineNode {
    /// Name of the node: that of the file, else that of the calculator.
    pub name: String,
    /// Name of its calculator.
    pub calculator: String,
    /// Kind of the calculator.
    pub kind: GraphNodeKind,
    /// Path of the handler file, or name of the model or pipeline.
    pub runs: Option<String>,
    /// Input stream handler, if the file names one.
    pub handler: Option<String>,
    /// Short description of the missing part without which it cannot run.
    pub missing: Option<&'static str>,
    /// Location in the file: line and column, from 1.
    pub place: (usize, usize),
    /// Names of its input streams, in the order of the file.
    pub inputs: Vec<String>,
    /// Names of its output streams, in the order of the file.
    pub outputs: Vec<String>,
    /// Whether it triggers itself: it has an input `LOOPBACK`.
    pub loops: bool,
}

/// Kind of a node, for its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphNodeKind {
    /// Python node.
    Python,
    /// Node that uses a model.
    Model,
    /// Any other node.
    Other,
}

/// Source or target of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// The client's request.
    Request,
    /// A node, by index.
    Node(usize),
    /// The response to the client.
    Response,
    /// No source or target.
    Nobody,
}

/// Stream or side packet between two places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphEdge {
    /// Name of the stream or side packet.
    pub name: String,
    /// Kind of the edge.
    pub way: Way,
    /// Source.
    pub from: StreamEnd,
    /// Tag at the source.
    pub output: String,
    /// Target.
    pub to: StreamEnd,
    /// Tag at the target.
    pub input: String,
    /// Type of the packets, if known.
    pub carries: Option<String>,
}

/// Kind of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// A stream.
    Stream,
    /// A stream that is a back edge.
    Back,
    /// A side packet, available from the start.
    Side,
}

impl GraphOutline {
    /// Builds the outline of the text of a graph file, whatever the errors in its nodes and
    /// streams.
    ///
    /// # Errors
    ///
    /// Fails if the text is not a graph file.
    pub fn read(
        name: &str,
        text: &str,
        file: &str,
        factories: &[&'static Factory],
        is_there: &dyn Fn(&str) -> bool,
    ) -> Result<Self, GraphErrors> {
        let found = Found::new(text, file);
        let document = pbtxt::read(text).ok();
        let spec = document.and_then(|document| GraphSpec::new(&document, text, &found));
        match spec {
            Some(spec) => Ok(Self::new(name, &spec, factories, is_there)),
            None => Err(match check(text, file, factories) {
                Err(errors) => errors,
                Ok(_) => GraphErrors::one(GraphFileError::of_file(
                    GraphRule::Text,
                    file,
                    "it makes no graph",
                )),
            }),
        }
    }
}

/// Sources of streams or side packets by name: the place, the tag there, and the type.
type Sources<'a> = HashMap<&'a str, (StreamEnd, String, PacketType)>;

impl GraphOutline {
    /// Builds the outline of a parsed file. `is_there` returns whether a handler file exists.
    #[must_use]
    pub fn new(
        name: &str,
        spec: &GraphSpec,
        factories: &[&'static Factory],
        is_there: &dyn Fn(&str) -> bool,
    ) -> Self {
        let contracts: Vec<Option<Contract>> = spec
            .nodes
            .iter()
            .map(|entry| {
                let mut factories = factories.iter();
                let factory = factories.find(|it| it.name == entry.spec.calculator)?;
                let contract = entry.is_sound.then(|| (factory.contract)(&entry.spec));
                contract?.ok()
            })
            .collect();
        let nodes = spec.nodes.iter().map(|entry| {
            let known = factories.iter().any(|it| it.name == entry.spec.calculator);
            node(entry, known, is_there)
        });
        let ends = |ports: &[PortEntry]| {
            let ports = ports.iter();
            let ports = ports.map(|port| (port.name().to_owned(), port.tag().to_owned()));
            ports.collect::<Vec<_>>()
        };
        let mut outline = Self {
            name: name.to_owned(),
            nodes: nodes.collect(),
            edges: Vec::new(),
            inputs: ends(&spec.inputs),
            outputs: ends(&spec.outputs),
        };
        outline.streams(spec, &contracts);
        outline.sides(spec, &contracts);
        outline
    }

    fn streams(&mut self, spec: &GraphSpec, contracts: &[Option<Contract>]) {
        let mut sources: Sources<'_> = HashMap::new();
        for input in &spec.inputs {
            let source = (
                StreamEnd::Request,
                input.tag().to_owned(),
                carried(input.tag()),
            );
            sources.entry(input.name()).or_insert(source);
        }
        for (index, entry) in spec.nodes.iter().enumerate() {
            let given = contracts[index].as_ref().map(|contract| &contract.outputs);
            for (place, port) in entry.spec.outputs.iter().enumerate() {
                let kind = given.and_then(|given| given.get(place)).cloned();
                let source = (
                    StreamEnd::Node(index),
                    tag(port),
                    kind.unwrap_or(PacketType::Any),
                );
                sources.entry(&port.name).or_insert(source);
            }
        }
        for (index, entry) in spec.nodes.iter().enumerate() {
            let taken = contracts[index].as_ref().map(|contract| &contract.inputs);
            for (place, port) in entry.spec.inputs.iter().enumerate() {
                let way = match is_back(entry, port) {
                    true => Way::Back,
                    false => Way::Stream,
                };
                let kind = taken.and_then(|taken| taken.get(place));
                let to = (StreamEnd::Node(index), tag(port));
                self.edge(&sources, &port.name, way, to, kind);
            }
        }
        for output in &spec.outputs {
            let kind = carried(output.tag());
            let to = (StreamEnd::Response, output.tag().to_owned());
            self.edge(&sources, output.name(), Way::Stream, to, Some(&kind));
        }
    }

    fn sides(&mut self, spec: &GraphSpec, contracts: &[Option<Contract>]) {
        let mut sources: Sources<'_> = HashMap::new();
        for (index, entry) in spec.nodes.iter().enumerate() {
            let given = contracts[index]
                .as_ref()
                .map(|contract| &contract.side_outputs);
            for (place, port) in entry.spec.side_outputs.iter().enumerate() {
                let kind = given.and_then(|given| given.get(place)).cloned();
                let source = (
                    StreamEnd::Node(index),
                    tag(port),
                    kind.unwrap_or(PacketType::Any),
                );
                sources.entry(&port.name).or_insert(source);
            }
        }
        for (index, entry) in spec.nodes.iter().enumerate() {
            let taken = contracts[index]
                .as_ref()
                .map(|contract| &contract.side_inputs);
            for (place, port) in entry.spec.side_inputs.iter().enumerate() {
                if GIVEN.contains(&port.name.as_str()) {
                    continue;
                }
                // Side packets that no node produces are parameters of the request.
                let request = || (StreamEnd::Request, String::new(), PacketType::Any);
                sources.entry(&port.name).or_insert_with(request);
                let kind = taken.and_then(|taken| taken.get(place));
                let to = (StreamEnd::Node(index), tag(port));
                self.edge(
                    &sources,
                    &port.name,
                    Way::Side,
                    to,
                    kind.map(|(kind, _)| kind),
                );
            }
        }
    }

    fn edge(
        &mut self,
        sources: &Sources<'_>,
        name: &str,
        way: Way,
        (to, input): (StreamEnd, String),
        taken: Option<&PacketType>,
    ) {
        let source = sources.get(name);
        let given = source.map(|(_, _, kind)| kind);
        let is_known =
            |kind: &&PacketType| !matches!(kind, PacketType::Any | PacketType::SameAsInput(_));
        let carries = given.filter(is_known).or(taken.filter(is_known));
        self.edges.push(GraphEdge {
            name: name.to_owned(),
            way,
            from: source.map_or(StreamEnd::Nobody, |(from, _, _)| *from),
            output: source
                .map(|(_, output, _)| output.clone())
                .unwrap_or_default(),
            to,
            input,
            carries: carries.map(PacketType::to_string),
        });
    }
}

fn node(entry: &NodeEntry, is_known: bool, is_there: &dyn Fn(&str) -> bool) -> GraphOutlineNode {
    let spec = &entry.spec;
    let python: Option<PythonExecutorCalculatorOptions> = spec.options.get();
    let session: Option<OpenVinoModelServerSessionCalculatorOptions> = spec.options.get();
    let handler_path = python.map(|options| options.handler_path);
    let missing = match &handler_path {
        _ if !is_known => Some("no such calculator"),
        Some(path) if !is_there(path) => Some("no such file"),
        _ => None,
    };
    let names = |ports: &[PortEntry]| ports.iter().map(|port| port.name().to_owned()).collect();
    let mut ports = entry
        .written
        .inputs
        .iter()
        .filter_map(|it| it.port.as_ref());
    GraphOutlineNode {
        loops: ports.any(|port| port.at.tag == "LOOPBACK"),
        name: spec.name.clone(),
        place: spec.place,
        inputs: names(&entry.written.inputs),
        outputs: names(&entry.written.outputs),
        calculator: spec.calculator.clone(),
        kind: match spec.calculator.as_str() {
            "PythonExecutorCalculator" => GraphNodeKind::Python,
            name if name.starts_with("OpenVINO") => GraphNodeKind::Model,
            _ => GraphNodeKind::Other,
        },
        runs: handler_path.or(session.map(|options| options.servable_name)),
        handler: entry.handler.as_ref().map(|handler| handler.name.clone()),
        missing,
    }
}

/// Returns whether the file marks an input as the end of a back edge.
fn is_back(entry: &NodeEntry, port: &Port) -> bool {
    let (full, short) = (port.at.to_string(), &port.at.tag);
    let mut infos = entry.infos.iter();
    infos.any(|info| {
        let is_meant = info.tag_index == full || (port.at.index == 0 && info.tag_index == *short);
        info.back_edge && is_meant
    })
}

/// Formats tag and index in the shortest form.
fn tag(port: &Port) -> String {
    match (port.at.tag.as_str(), port.at.index) {
        (tag, 0) if !tag.is_empty() => tag.to_owned(),
        _ => port.at.to_string(),
    }
}

/// Returns the type of an input or output of a graph to clients, by the prefix of its tag.
fn carried(tag: &str) -> PacketType {
    let known = [
        ("OVMS_PY_TENSOR", PacketType::Python),
        ("OVTENSOR", PacketType::Tensor(TensorKind::OpenVino)),
        ("TENSOR", PacketType::Tensor(TensorKind::MediaPipe)),
        ("TFTENSOR", PacketType::Tensor(TensorKind::TensorFlow)),
        ("IMAGE", PacketType::Tensor(TensorKind::Image)),
        ("REQUEST", PacketType::Request),
        ("RESPONSE", PacketType::Response),
    ];
    let found = known
        .into_iter()
        .find(|(prefix, _)| tag.starts_with(prefix));
    found.map_or(PacketType::Tensor(TensorKind::OpenVino), |(_, kind)| kind)
}
