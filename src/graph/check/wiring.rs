//! Producers and consumers of each stream and side packet.

use std::collections::{HashMap, HashSet};

use super::{
    Draft,
    handlers::known_inputs,
    plan::{GraphPort, SidePacketPlan, StreamPlan, StreamSource},
    ports,
    python::is_loopback,
    rules,
};
use crate::{
    error::nearest,
    graph::{
        calculators::{
            node::Ports,
            packet::{PYTHON_RESOURCES, PacketType},
        },
        file::{NodeEntry, PortEntry, tag_index},
    },
};

/// Maximum number of names compared with a mistyped one. In larger graphs names are numbered, and
/// that many errors would take seconds.
const MAX_COMPARED: usize = 2_000;

/// Returns the hint about streams that do not exist.
fn like<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
    if known.clone().nth(MAX_COMPARED).is_some() {
        return None;
    }
    let near = nearest(name, known);
    near.map(|name| format!("did you mean \"{name}\"?"))
}

/// Returns the ports of one kind: index, name, and port of the file.
fn by_place<'a>(
    ports: &'a Ports,
    entries: &'a [PortEntry],
) -> impl Iterator<Item = (usize, &'a str, &'a PortEntry)> {
    let ports = ports.iter().enumerate();
    ports.map(|(place, port)| (place, port.name.as_str(), &entries[port.written]))
}

impl<'a> Draft<'a> {
    /// Connects everything.
    pub(super) fn connect(&mut self) {
        let doubtful = self.producers();
        self.infos();
        self.consumers(&doubtful);
        self.outputs(&doubtful);
        self.side_producers();
        self.side_consumers();
    }

    /// Finds the streams. Returns the names of those whose producers are invalid.
    fn producers(&mut self) -> HashSet<&'a str> {
        let mut doubtful = HashSet::new();
        let mut begun: HashMap<&'a str, usize> = HashMap::new();
        for entry in &self.spec.inputs {
            let Some(port) = &entry.port else {
                doubtful.insert(entry.name());
                continue;
            };
            // Duplicate names are checked by another rule.
            if begun.insert(port.name.as_str(), entry.at).is_none() {
                let from = StreamSource::Graph(self.plan.inputs.len());
                let stream = self.stream(&port.name, from);
                self.plan.inputs.push(GraphPort {
                    port: port.clone(),
                    stream,
                    form: ports::form(entry, true),
                });
            }
        }
        for (node, entry) in self.spec.nodes.iter().enumerate() {
            let written = entry.written.outputs.iter();
            let invalid = written.filter(|port| port.port.is_none());
            doubtful.extend(invalid.map(PortEntry::name));
            for (place, name, written) in by_place(&entry.spec.outputs, &entry.written.outputs) {
                let is_first = self.is_first(&mut begun, "stream", entry, written);
                let stream = is_first.then(|| self.stream(name, StreamSource::Node(node, place)));
                self.nodes[node].outputs.push(stream);
            }
        }
        doubtful
    }

    /// Returns whether a producer is the first; another is reported.
    fn is_first(
        &self,
        begun: &mut HashMap<&'a str, usize>,
        kind: &str,
        entry: &NodeEntry,
        written: &'a PortEntry,
    ) -> bool {
        let name = written.name();
        let Some(first) = begun.get(name) else {
            begun.insert(name, written.at);
            return true;
        };
        let (line, column) = self.found.lines.place(*first);
        let message = format!("the {kind} \"{name}\" is produced twice");
        let hint = format!("the other producer is at {line}:{column}; rename one");
        let node = Some(&*entry.spec.name);
        self.found.wiring(node, written.at, message, Some(hint));
        false
    }

    fn stream(&mut self, name: &'a str, from: StreamSource) -> usize {
        let stream = self.plan.streams.len();
        self.plan.streams.push(StreamPlan {
            name: name.to_owned(),
            from,
            to: Vec::new(),
            outputs: Vec::new(),
            carries: PacketType::Any,
        });
        self.by_name.insert(name, stream);
        stream
    }

    /// Reads the input details of the file: which inputs are ends of back edges.
    fn infos(&mut self) {
        for (node, entry) in self.spec.nodes.iter().enumerate() {
            let inputs = &entry.spec.inputs;
            let mut back_edges = vec![false; inputs.len()];
            let mut seen = HashSet::new();
            for info in &entry.infos {
                let (name, text) = (Some(&*entry.spec.name), &info.tag_index);
                let unknown = || format!("\"{text}\" is not an input stream of the node");
                let at = tag_index(text).map_err(|wrong| format!("input_stream_info: {wrong}"));
                let place = at.and_then(|at| inputs.find(&at.tag, at.index).ok_or_else(unknown));
                match place {
                    Ok(place) if seen.insert(place) => back_edges[place] = info.back_edge,
                    Ok(_) => {
                        let message = format!("input_stream_info has \"{text}\" twice");
                        self.found.wiring(name, info.at, message, None);
                    }
                    Err(message) => {
                        self.nodes[node].are_infos_wrong = true;
                        // With misspelled ports the inputs are unknown.
                        if entry.is_sound {
                            let hint = Some(known_inputs(&entry.spec));
                            self.found.wiring(name, info.at, message, hint);
                        }
                    }
                }
            }
            self.nodes[node].back_edges = back_edges;
        }
    }

    fn consumers(&mut self, doubtful: &HashSet<&str>) {
        for (node, entry) in self.spec.nodes.iter().enumerate() {
            for (place, name, written) in by_place(&entry.spec.inputs, &entry.written.inputs) {
                let stream = self.by_name.get(name).copied();
                self.nodes[node].inputs.push(stream);
                if let Some(stream) = stream {
                    let stream = &mut self.plan.streams[stream];
                    stream.to.push((node, place));
                    // The simple case of a back edge that is not needed.
                    let is_marked = self.nodes[node].back_edges[place];
                    if is_marked && matches!(stream.from, StreamSource::Graph(_)) {
                        let message = format!(
                            "the input \"{}\" is marked as a back edge, but comes from an input of \
                             the graph",
                            written.text
                        );
                        self.found.warn(written.at, Some(&entry.spec.name), message);
                    }
                    // Errors in half of a loopback are reported there.
                } else if !doubtful.contains(name) && !is_loopback(entry, &entry.spec.inputs[place])
                {
                    self.missing(entry, written, name);
                }
            }
        }
    }

    fn missing(&self, entry: &NodeEntry, written: &PortEntry, name: &str) {
        if self.found.is_full(rules::WIRING) {
            return;
        }
        let node = Some(&*entry.spec.name);
        let message =
            format!("Input stream \"{name}\" does not have a corresponding output stream");
        let own: HashSet<&str> = entry.spec.outputs.iter().map(|p| p.name.as_str()).collect();
        let known = self.by_name.keys().copied();
        let hint = like(name, known.filter(|known| !own.contains(known)));
        let hint = hint.unwrap_or_else(|| {
            "name it as an input_stream of the graph, or as the output_stream of a node".to_owned()
        });
        self.found.wiring(node, written.at, message, Some(hint));
    }

    fn outputs(&mut self, doubtful: &HashSet<&str>) {
        for entry in &self.spec.outputs {
            let Some(port) = &entry.port else { continue };
            let name = port.name.as_str();
            if let Some(&stream) = self.by_name.get(name) {
                let place = self.plan.outputs.len();
                self.plan.streams[stream].outputs.push(place);
                self.plan.outputs.push(GraphPort {
                    port: port.clone(),
                    stream,
                    form: ports::form(entry, false),
                });
            } else if !doubtful.contains(name) && !self.found.is_full(rules::WIRING) {
                let message = format!(
                    "Output stream \"{name}\" of the graph does not have a corresponding output \
                     stream of a node"
                );
                let hint = like(name, self.by_name.keys().copied());
                self.found.wiring(None, entry.at, message, hint);
            }
        }
    }

    fn side_producers(&mut self) {
        let mut begun: HashMap<&'a str, usize> = HashMap::new();
        for (node, entry) in self.spec.nodes.iter().enumerate() {
            let entries = &entry.written.side_outputs;
            for (place, name, written) in by_place(&entry.spec.side_outputs, entries) {
                let is_first = self.is_first(&mut begun, "side packet", entry, written);
                let side = is_first.then(|| self.side(name));
                if let Some(side) = side {
                    self.plan.sides[side].from = Some((node, place));
                }
                self.nodes[node].side_outputs.push(side);
            }
        }
        for entry in &self.spec.side_inputs {
            let Some(port) = &entry.port else { continue };
            let name = port.name.as_str();
            if let Some(first) = begun.get(name) {
                let (line, column) = self.found.lines.place(*first);
                let message = format!("the side packet \"{name}\" is produced twice");
                let hint = format!("a node produces it at {line}:{column}");
                self.found.wiring(None, entry.at, message, Some(hint));
            }
        }
        for entry in &self.spec.side_outputs {
            let Some(port) = &entry.port else { continue };
            let name = port.name.as_str();
            if !begun.contains_key(name) {
                let message =
                    format!("the side packet \"{name}\" of the graph is produced by no node");
                let hint = like(name, begun.keys().copied());
                self.found.wiring(None, entry.at, message, hint);
            }
        }
    }

    /// Checks that instances of a pool have their side packets: they start without a request.
    pub(super) fn pooled_sides(&self) {
        if !self.spec.pool.is_kept() {
            return;
        }
        let known = self.plan.sides.iter();
        for side in known.filter(|side| side.from.is_none() && side.name != PYTHON_RESOURCES) {
            for &(node, place) in &side.to {
                let contract = self.nodes[node].contract.as_ref();
                let needed = contract.and_then(|contract| contract.side_inputs.get(place));
                if needed.is_some_and(|(_, is_optional)| !is_optional) {
                    let entry = &self.spec.nodes[node];
                    let port = &entry.spec.side_inputs[place];
                    let message = format!(
                        "Side packet \"{}\" is required but was not provided. No node produces it, and with \
                         OVMS_GRAPH_QUEUE_MAX_SIZE no request gives it",
                        side.name
                    );
                    let hint = "produce it in a node, or leave out OVMS_GRAPH_QUEUE_MAX_SIZE";
                    let at = entry.written.side_inputs[port.written].at;
                    let node = Some(&*entry.spec.name);
                    self.found.wiring(node, at, message, Some(hint.to_owned()));
                }
            }
        }
    }

    fn side(&mut self, name: &'a str) -> usize {
        *self.sides_by_name.entry(name).or_insert_with(|| {
            self.plan.sides.push(SidePacketPlan {
                name: name.to_owned(),
                from: None,
                to: Vec::new(),
            });
            self.plan.sides.len() - 1
        })
    }

    /// Connects consumers of side packets. Those that no node produces come from requests or from
    /// the server: they are never missing here.
    fn side_consumers(&mut self) {
        for (node, entry) in self.spec.nodes.iter().enumerate() {
            let spec: &'a _ = entry.spec.as_ref();
            for (place, port) in spec.side_inputs.iter().enumerate() {
                let side = self.side(&port.name);
                self.plan.sides[side].to.push((node, place));
                self.nodes[node].side_inputs.push(side);
            }
        }
    }
}
