//! Diagram of a graph file, valid or not.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use super::file::{GraphSpec, NodeEntry, PortEntry};
use crate::{
    draw::{
        Diagram, DiagramEdge, DiagramKind, DiagramNode, DiagramNodeKind, DiagramPort,
        DiagramStream, EdgeContent, EdgeSource, Missing, StreamKind,
    },
    graph::calculators::{self, contract::Contract, node::Port, packet::PacketType},
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

/// Index of the request.
const REQUEST: usize = 0;

/// Sources of streams or side packets by name: the node, the tag there, and the type.
type StreamSources<'a> = HashMap<&'a str, (usize, String, PacketType)>;

/// Makes the diagram of a graph file. `is_there` returns whether a handler file exists.
pub fn diagram(name: &str, spec: &GraphSpec, is_there: &dyn Fn(&str) -> bool) -> Diagram {
    let find = |entry: &NodeEntry| calculators::find(&entry.spec.calculator);
    let nodes = spec.nodes.iter().map(|entry| {
        let missing = match entry.spec.handler_path() {
            _ if find(entry).is_none() => Some("no such calculator"),
            Some(path) if !is_there(&path) => Some("no such file"),
            _ => None,
        };
        node(entry, missing)
    });
    let contracts = spec.nodes.iter().map(|entry| {
        let factory = find(entry).filter(|_| entry.is_sound);
        let contract = factory.and_then(|it| it.check(&entry.spec).ok());
        contract.unwrap_or_else(|| Contract::any(&entry.spec))
    });
    let contracts: Vec<Contract> = contracts.collect();
    let request = DiagramNode::request(ends(&spec.inputs));
    let response = DiagramNode::response(ends(&spec.outputs));
    let nodes = [request].into_iter().chain(nodes).chain([response]);
    Diagram {
        kind: DiagramKind::Graph,
        name: name.to_owned(),
        nodes: nodes.collect(),
        edges: edges(spec, &contracts),
        levels: Vec::new(),
    }
}

fn ends(ports: &[PortEntry]) -> Vec<DiagramPort> {
    let ports = ports.iter().map(|port| DiagramPort {
        name: port.name().to_owned(),
        tag: Some(port.tag().to_owned()),
        data_item: None,
        tensor: None,
    });
    ports.collect()
}

fn node(entry: &NodeEntry, missing: Option<&'static str>) -> DiagramNode {
    let kind = DiagramNodeKind::Calculator {
        calculator: entry.spec.calculator.clone(),
        handler_path: entry.spec.handler_path(),
        servable: entry.spec.servable(),
        input_stream_handler: entry.handler.as_ref().map(|handler| handler.name.clone()),
    };
    DiagramNode {
        missing: missing.map(|short| Missing {
            short,
            text: short.to_owned(),
        }),
        ..DiagramNode::new(&entry.spec.name, kind)
    }
}

fn edges(spec: &GraphSpec, contracts: &[Contract]) -> Vec<DiagramEdge> {
    // The request comes before the nodes.
    let nodes = || (1..).zip(spec.nodes.iter().zip(contracts));
    let (mut streams, mut sides) = (StreamSources::new(), StreamSources::new());
    for input in &spec.inputs {
        let tag = input.tag();
        let source = (REQUEST, tag.to_owned(), PacketType::of_tag(tag));
        streams.entry(input.name()).or_insert(source);
    }
    for (index, (entry, contract)) in nodes() {
        for (port, kind) in entry.spec.outputs.iter().zip(&contract.outputs) {
            let source = (index, tag(port), kind.clone());
            streams.entry(&port.name).or_insert(source);
        }
        for (port, kind) in entry.spec.side_outputs.iter().zip(&contract.side_outputs) {
            let source = (index, tag(port), kind.clone());
            sides.entry(&port.name).or_insert(source);
        }
    }
    let mut edges = Vec::new();
    for (index, (entry, contract)) in nodes() {
        for (port, kind) in entry.spec.inputs.iter().zip(&contract.inputs) {
            let way = match is_back(entry, port) {
                true => StreamKind::BackEdge,
                false => StreamKind::Stream,
            };
            edges.push(edge(&streams, &port.name, way, (index, tag(port)), kind));
        }
    }
    for output in &spec.outputs {
        let to = (spec.nodes.len() + 1, output.tag().to_owned());
        let kind = PacketType::of_tag(output.tag());
        edges.push(edge(&streams, output.name(), StreamKind::Stream, to, &kind));
    }
    for (index, (entry, contract)) in nodes() {
        for (port, (kind, _)) in entry.spec.side_inputs.iter().zip(&contract.side_inputs) {
            if GIVEN.contains(&port.name.as_str()) {
                continue;
            }
            // Side packets that no node produces are parameters of the request.
            let request = || (REQUEST, String::new(), PacketType::Any);
            sides.entry(&port.name).or_insert_with(request);
            let way = StreamKind::SidePacket;
            edges.push(edge(&sides, &port.name, way, (index, tag(port)), kind));
        }
    }
    edges
}

fn edge(
    sources: &StreamSources<'_>,
    name: &str,
    kind: StreamKind,
    (to, input): (usize, String),
    taken: &PacketType,
) -> DiagramEdge {
    let (from, output, given) = match sources.get(name) {
        Some((from, output, given)) => (EdgeSource::Node(*from), output.clone(), given),
        None => (EdgeSource::Nobody, String::new(), &PacketType::Any),
    };
    let packets = [given, taken].into_iter().find(|kind| !kind.is_open());
    DiagramEdge {
        stream: Some(DiagramStream {
            name: name.to_owned(),
            kind,
        }),
        from,
        output,
        to,
        input,
        carries: EdgeContent::Packets {
            carries: packets.map(PacketType::to_string),
        },
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
