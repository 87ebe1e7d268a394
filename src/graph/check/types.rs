//! Types of streams and side packets, and whether both ends agree.

use super::{Draft, ports, rules};
use crate::graph::{
    packet::PacketType,
    plan::{PacketForm, StreamSource},
};

/// Side packet that the server gives to Python nodes.
const PYTHON_RESOURCES: &str = "py";

/// Type of a stream or side packet, direct or by reference to another.
enum Carried {
    Type(PacketType),
    Like(usize),
}

/// Resolves references until there is a type; each step at most once, however long the chain.
fn resolve(count: usize, carried: impl Fn(usize) -> Carried) -> Vec<PacketType> {
    let mut types: Vec<Option<PacketType>> = vec![None; count];
    for start in 0..count {
        let mut way = Vec::new();
        let mut at = start;
        let found = loop {
            // One that is on the way already is any.
            if let Some(known) = types[at].replace(PacketType::Any) {
                types[at] = Some(known.clone());
                break known;
            }
            way.push(at);
            match carried(at) {
                Carried::Type(kind) => break kind,
                Carried::Like(other) => at = other,
            }
        };
        for passed in way {
            types[passed] = Some(found.clone());
        }
    }
    let types = types.into_iter();
    types.map(|kind| kind.unwrap_or(PacketType::Any)).collect()
}

impl Draft<'_> {
    /// Resolves the types of all streams and side packets, and checks their consumers.
    pub(super) fn types(&mut self) {
        let sides = resolve(self.sides.len(), |side| self.of_side(side));
        let streams = resolve(self.streams.len(), |stream| self.of_stream(stream, &sides));
        for (stream, kind) in self.streams.iter_mut().zip(streams) {
            stream.carries = kind;
        }
        self.validate_inputs();
        self.validate_outputs();
        self.validate_sides(&sides);
    }

    fn of_stream(&self, stream: usize, sides: &[PacketType]) -> Carried {
        let (node, place) = match self.streams[stream].from {
            StreamSource::Graph(input) => {
                let port = &self.graph_inputs[input];
                let tag = &port.port.at.tag;
                let is_known = !tag.starts_with("TFLITE_TENSOR");
                return Carried::Type(if is_known {
                    port.form.carries()
                } else {
                    PacketType::Any
                });
            }
            StreamSource::Node(node, place) => (&self.nodes[node], place),
        };
        let contract = node.contract.as_ref();
        match contract.and_then(|contract| contract.outputs.get(place)) {
            Some(PacketType::SameAsInput(input)) => match node.inputs.get(*input) {
                Some(Some(stream)) => Carried::Like(*stream),
                Some(None) => Carried::Type(PacketType::Any),
                None => Carried::Type(
                    node.side_inputs
                        .get(*input)
                        .map_or(PacketType::Any, |side| sides[*side].clone()),
                ),
            },
            Some(kind) => Carried::Type(kind.clone()),
            None => Carried::Type(PacketType::Any),
        }
    }

    fn of_side(&self, side: usize) -> Carried {
        let side = &self.sides[side];
        let Some((node, place)) = side.from else {
            return Carried::Type(if side.name == PYTHON_RESOURCES {
                PacketType::PythonResources
            } else {
                PacketType::Any
            });
        };
        let node = &self.nodes[node];
        let contract = node.contract.as_ref();
        match contract.and_then(|contract| contract.side_outputs.get(place)) {
            Some(PacketType::SameAsInput(input)) => match node.side_inputs.get(*input) {
                Some(side) => Carried::Like(*side),
                None => Carried::Type(PacketType::Any),
            },
            Some(kind) => Carried::Type(kind.clone()),
            None => Carried::Type(PacketType::Any),
        }
    }

    fn validate_inputs(&self) {
        for stream in &self.streams {
            for (node, place) in &stream.to {
                let takes = self.input_type(*node, *place);
                if stream.carries.fits(&takes) || self.found.is_full(rules::WIRING) {
                    continue;
                }
                let entry = &self.spec.nodes[*node];
                let port = &entry.spec.inputs[*place];
                let written = &entry.written.inputs[port.written];
                let gives = match stream.from {
                    StreamSource::Graph(_) => "the input of the graph".to_owned(),
                    StreamSource::Node(from, _) => {
                        format!("node \"{}\"", self.spec.nodes[from].spec.name)
                    }
                };
                let message = format!(
                    "the input \"{}\" takes {takes}, but {gives} sends {}",
                    written.text, stream.carries
                );
                let hint = match stream.from {
                    StreamSource::Graph(_) => PacketForm::prefix(&takes).map(|prefix| {
                        format!("tag the input of the graph {prefix}:{}", stream.name)
                    }),
                    StreamSource::Node(..) => None,
                };
                let hint = hint.or_else(|| converter(&stream.carries, &takes));
                let name = &entry.spec.name;
                self.found.wiring(Some(name), written.at, message, hint);
            }
        }
    }

    fn validate_outputs(&self) {
        for output in &self.graph_outputs {
            let stream = &self.streams[output.stream];
            let takes = output.form.carries();
            let entry = &self.spec.outputs[output.port.written];
            if stream.carries.fits(&takes) || ports::is_tflite(entry) {
                continue;
            }
            let message = format!(
                "the output \"{}\" of the graph takes {takes}, but gets {}",
                entry.text, stream.carries
            );
            let hint = PacketForm::prefix(&stream.carries)
                .map(|prefix| format!("tag it {prefix}:{}", output.port.name))
                .or_else(|| Some(format!("clients cannot be sent {}", stream.carries)));
            self.found.wiring(None, entry.at, message, hint);
        }
    }

    fn validate_sides(&self, types: &[PacketType]) {
        for (side, gives) in self.sides.iter().zip(types) {
            for (node, place) in &side.to {
                let contract = self.nodes[*node].contract.as_ref();
                let takes = contract.and_then(|contract| contract.side_inputs.get(*place));
                let Some((takes, _)) = takes.filter(|(takes, _)| !gives.fits(takes)) else {
                    continue;
                };
                let entry = &self.spec.nodes[*node];
                let port = &entry.spec.side_inputs[*place];
                let written = &entry.written.side_inputs[port.written];
                let message = format!(
                    "the side packet \"{}\" takes {takes}, but is {gives}",
                    written.text
                );
                let name = &entry.spec.name;
                self.found.wiring(Some(name), written.at, message, None);
            }
        }
    }
}

/// Returns the hint about converters between a Python node and others.
fn converter(gives: &PacketType, takes: &PacketType) -> Option<String> {
    let is_python = |kind: &PacketType| *kind == PacketType::Python;
    (is_python(gives) != is_python(takes))
        .then(|| "put a PyTensorOvTensorConverterCalculator between them".to_owned())
}
