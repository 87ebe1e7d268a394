//! What a graph looks like, whether it is sound or not: for drawing, not for running.

use std::collections::HashMap;

use super::{
    calculator::{Contract, Factory},
    check::{Faults, FileFault, Found, Rule, check},
    node::Port,
    packet::{PacketType, TensorKind},
    pbtxt,
    spec::{GraphSpec, NodeEntry, PortEntry},
};
use crate::proto::mediapipe::{
    OpenVinoModelServerSessionCalculatorOptions, PythonExecutorCalculatorOptions,
};

/// Side packets that the server gives, whoever asks.
const GIVEN: [&str; 7] = [
    "py",
    "llm",
    "pipes",
    "embeddings_servable",
    "rerank_servable",
    "s2t_servable",
    "t2s_servable",
];

/// What a graph looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// The name of the graph.
    pub name: String,
    /// The nodes, in the order of the file.
    pub nodes: Vec<OutlineNode>,
    /// What goes from one to another, in the order of who takes it.
    pub edges: Vec<OutlineEdge>,
    /// The names and tags of the inputs of the graph.
    pub inputs: Vec<(String, String)>,
    /// The names and tags of the outputs of the graph.
    pub outputs: Vec<(String, String)>,
}

/// A node of an outline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlineNode {
    /// Its name: that of the file, else that of the calculator.
    pub name: String,
    /// Its calculator.
    pub calculator: String,
    /// What kind of calculator that is.
    pub kind: OutlineKind,
    /// The handler file, or the name of the model or pipeline.
    pub runs: Option<String>,
    /// Its input stream handler, if the file names one.
    pub handler: Option<String>,
    /// What is missing for it to run, in a few words.
    pub missing: Option<&'static str>,
    /// Its place in the file: line and column, from 1.
    pub place: (usize, usize),
    /// The names of its input streams, in the order of the file.
    pub inputs: Vec<String>,
    /// The names of its output streams, in the order of the file.
    pub outputs: Vec<String>,
    /// Whether it wakes itself: it has an input `LOOPBACK`.
    pub loops: bool,
}

/// What a node does, for its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutlineKind {
    /// Runs Python.
    Python,
    /// Has to do with a model.
    Model,
    /// Anything else.
    Other,
}

/// Where something comes from, or goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The client, with a request.
    Request,
    /// A node, as an index.
    Node(usize),
    /// The client, with the response.
    Response,
    /// Nobody.
    Nobody,
}

/// A stream or side packet between two places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlineEdge {
    /// The name of the stream or side packet.
    pub name: String,
    /// What it is.
    pub way: Way,
    /// Where it comes from.
    pub from: Place,
    /// The tag there.
    pub output: String,
    /// Where it goes to.
    pub to: Place,
    /// The tag there.
    pub input: String,
    /// What it carries, if that is known.
    pub carries: Option<String>,
}

/// What an edge is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// A stream.
    Stream,
    /// A stream that goes back.
    Back,
    /// A side packet, which is there from the start.
    Side,
}

impl Outline {
    /// Makes the outline of the text of a graph file, whatever is wrong with its nodes and streams.
    ///
    /// # Errors
    ///
    /// Fails if the text is none of a graph file.
    pub fn read(
        name: &str,
        text: &str,
        file: &str,
        factories: &[&'static Factory],
        is_there: &dyn Fn(&str) -> bool,
    ) -> Result<Self, Faults> {
        let found = Found::new(text, file);
        let document = pbtxt::read(text).ok();
        let spec = document.and_then(|document| GraphSpec::new(&document, text, &found));
        match spec {
            Some(spec) => Ok(Self::new(name, &spec, factories, is_there)),
            None => Err(match check(text, file, factories) {
                Err(faults) => faults,
                Ok(_) => Faults::one(FileFault::of_file(Rule::Text, file, "it makes no graph")),
            }),
        }
    }
}

/// Who gives a stream or side packet: the place, the tag there, and what it is.
type Sources<'a> = HashMap<&'a str, (Place, String, PacketType)>;

impl Outline {
    /// Makes the outline of what a file says. `is_there` tells whether there is a handler file.
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
            let source = (Place::Request, input.tag().to_owned(), carried(input.tag()));
            sources.entry(input.name()).or_insert(source);
        }
        for (index, entry) in spec.nodes.iter().enumerate() {
            let given = contracts[index].as_ref().map(|contract| &contract.outputs);
            for (place, port) in entry.spec.outputs.iter().enumerate() {
                let kind = given.and_then(|given| given.get(place)).cloned();
                let source = (
                    Place::Node(index),
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
                let to = (Place::Node(index), tag(port));
                self.edge(&sources, &port.name, way, to, kind);
            }
        }
        for output in &spec.outputs {
            let kind = carried(output.tag());
            let to = (Place::Response, output.tag().to_owned());
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
                    Place::Node(index),
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
                // What no node gives is a parameter of the request.
                let request = || (Place::Request, String::new(), PacketType::Any);
                sources.entry(&port.name).or_insert_with(request);
                let kind = taken.and_then(|taken| taken.get(place));
                let to = (Place::Node(index), tag(port));
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
        (to, input): (Place, String),
        taken: Option<&PacketType>,
    ) {
        let source = sources.get(name);
        let given = source.map(|(_, _, kind)| kind);
        let is_known =
            |kind: &&PacketType| !matches!(kind, PacketType::Any | PacketType::SameAsInput(_));
        let carries = given.filter(is_known).or(taken.filter(is_known));
        self.edges.push(OutlineEdge {
            name: name.to_owned(),
            way,
            from: source.map_or(Place::Nobody, |(from, _, _)| *from),
            output: source
                .map(|(_, output, _)| output.clone())
                .unwrap_or_default(),
            to,
            input,
            carries: carries.map(PacketType::to_string),
        });
    }
}

fn node(entry: &NodeEntry, is_known: bool, is_there: &dyn Fn(&str) -> bool) -> OutlineNode {
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
    OutlineNode {
        loops: ports.any(|port| port.at.tag == "LOOPBACK"),
        name: spec.name.clone(),
        place: spec.place,
        inputs: names(&entry.written.inputs),
        outputs: names(&entry.written.outputs),
        calculator: spec.calculator.clone(),
        kind: match spec.calculator.as_str() {
            "PythonExecutorCalculator" => OutlineKind::Python,
            name if name.starts_with("OpenVINO") => OutlineKind::Model,
            _ => OutlineKind::Other,
        },
        runs: handler_path.or(session.map(|options| options.servable_name)),
        handler: entry.handler.as_ref().map(|handler| handler.name.clone()),
        missing,
    }
}

/// Tells whether the file marks an input as the end of a back edge.
fn is_back(entry: &NodeEntry, port: &Port) -> bool {
    let (full, short) = (port.at.to_string(), &port.at.tag);
    let mut infos = entry.infos.iter();
    infos.any(|info| {
        let is_meant = info.tag_index == full || (port.at.index == 0 && info.tag_index == *short);
        info.back_edge && is_meant
    })
}

/// Writes tag and index as short as they can be.
fn tag(port: &Port) -> String {
    match (port.at.tag.as_str(), port.at.index) {
        (tag, 0) if !tag.is_empty() => tag.to_owned(),
        _ => port.at.to_string(),
    }
}

/// Returns what an input or output of a graph is to clients, by how its tag begins.
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
