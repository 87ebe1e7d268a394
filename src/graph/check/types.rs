//! Types of streams and side packets, and whether both ends agree.

use super::{Draft, plan::StreamSource, ports, rules};
use crate::graph::calculators::packet::{PYTHON_RESOURCES, PacketType};

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

/// Returns the type of an output by its contract, as far as known: its own, or that of an input.
fn carried(
    kinds: Option<&Vec<PacketType>>,
    place: usize,
    same: impl Fn(usize) -> Option<Carried>,
) -> Carried {
    let carried = match kinds.and_then(|kinds| kinds.get(place)) {
        Some(PacketType::SameAsInput(input)) => same(*input),
        Some(kind) => Some(Carried::Type(kind.clone())),
        None => None,
    };
    carried.unwrap_or(Carried::Type(PacketType::Any))
}

impl Draft<'_> {
    /// Resolves the types of all streams and side packets, and checks their consumers.
    pub(super) fn types(&mut self) {
        let sides = resolve(self.plan.sides.len(), |side| self.of_side(side));
        let streams = resolve(self.plan.streams.len(), |stream| {
            self.of_stream(stream, &sides)
        });
        for (stream, kind) in self.plan.streams.iter_mut().zip(streams) {
            stream.carries = kind;
        }
        self.validate_inputs();
        self.validate_outputs();
        self.validate_sides(&sides);
    }

    fn of_stream(&self, stream: usize, sides: &[PacketType]) -> Carried {
        match self.plan.streams[stream].from {
            StreamSource::Graph(input) => {
                let port = &self.plan.inputs[input];
                let is_known = !port.port.at.tag.starts_with("TFLITE_TENSOR");
                let kind = is_known.then(|| port.form.clone());
                Carried::Type(kind.unwrap_or(PacketType::Any))
            }
            StreamSource::Node(node, place) => {
                let node = &self.nodes[node];
                let kinds = node.contract.as_ref().map(|contract| &contract.outputs);
                let own = kinds.and_then(|kinds| kinds.get(place));
                if let Some(PacketType::SameAsSide(side)) = own {
                    let kind = node.side_inputs.get(*side).map(|side| sides[*side].clone());
                    return Carried::Type(kind.unwrap_or(PacketType::Any));
                }
                carried(kinds, place, |input| match node.inputs.get(input) {
                    Some(stream) => stream.map(Carried::Like),
                    None => Some(Carried::Type(sides[*node.side_inputs.get(input)?].clone())),
                })
            }
        }
    }

    fn of_side(&self, side: usize) -> Carried {
        let side = &self.plan.sides[side];
        match side.from {
            None if side.name == PYTHON_RESOURCES => Carried::Type(PacketType::PythonResources),
            None => Carried::Type(PacketType::parameter()),
            Some((node, place)) => {
                let node = &self.nodes[node];
                let contract = node.contract.as_ref();
                let kinds = contract.map(|contract| &contract.side_outputs);
                let same = |input| node.side_inputs.get(input).copied().map(Carried::Like);
                carried(kinds, place, same)
            }
        }
    }

    fn validate_inputs(&self) {
        for stream in &self.plan.streams {
            for (node, place) in &stream.to {
                let contract = self.nodes[*node].contract.as_ref();
                let takes = contract.and_then(|contract| contract.inputs.get(*place));
                let Some(takes) = takes.filter(|takes| !stream.carries.fits(takes)) else {
                    continue;
                };
                if self.found.is_full(rules::WIRING) {
                    return;
                }
                let entry = &self.spec.nodes[*node];
                let port = &entry.spec.inputs[*place];
                let written = &entry.written.inputs[port.written];
                let mut hint = None;
                let gives = match stream.from {
                    StreamSource::Graph(_) => {
                        let tag =
                            |prefix| format!("tag the input of the graph {prefix}:{}", stream.name);
                        hint = takes.prefix().map(tag);
                        "the input of the graph".to_owned()
                    }
                    StreamSource::Node(from, _) => {
                        format!("node \"{}\"", self.spec.nodes[from].spec.name)
                    }
                };
                let message = format!(
                    "the input \"{}\" takes {takes}, but {gives} sends {}",
                    written.text, stream.carries
                );
                let hint = hint.or_else(|| converter(&stream.carries, takes));
                let name = &entry.spec.name;
                self.found.wiring(Some(name), written.at, message, hint);
            }
        }
    }

    fn validate_outputs(&self) {
        for output in &self.plan.outputs {
            let stream = &self.plan.streams[output.stream];
            let takes = &output.form;
            let entry = &self.spec.outputs[output.port.written];
            if stream.carries.fits(takes) || ports::is_tflite(entry) {
                continue;
            }
            let (text, gets) = (&entry.text, &stream.carries);
            let message =
                format!("the output \"{text}\" of the graph takes {takes}, but gets {gets}");
            let hint = match gets.prefix() {
                Some(prefix) => format!("tag it {prefix}:{}", output.port.name),
                None => format!("clients cannot be sent {gets}"),
            };
            self.found.wiring(None, entry.at, message, Some(hint));
        }
    }

    fn validate_sides(&self, types: &[PacketType]) {
        let parameter = PacketType::parameter();
        for (side, gives) in self.plan.sides.iter().zip(types) {
            // What a request has to bring is reported when it does not.
            if *gives == parameter {
                continue;
            }
            for (node, place) in &side.to {
                let contract = self.nodes[*node].contract.as_ref();
                let takes = contract.and_then(|contract| contract.side_inputs.get(*place));
                let Some((takes, _)) = takes.filter(|(takes, _)| !gives.fits(takes)) else {
                    continue;
                };
                let entry = &self.spec.nodes[*node];
                let port = &entry.spec.side_inputs[*place];
                let written = &entry.written.side_inputs[port.written];
                let text = &written.text;
                let message = format!("the side packet \"{text}\" takes {takes}, but is {gives}");
                let name = &entry.spec.name;
                self.found.wiring(Some(name), written.at, message, None);
            }
        }
    }
}

/// Returns the hint about converters between a Python node and others.
fn converter(gives: &PacketType, takes: &PacketType) -> Option<String> {
    if *gives == PacketType::parameter() {
        return Some(
            "a request parameter is no tensor: have clients send it as an input of the graph"
                .to_owned(),
        );
    }
    let is_python = |kind: &PacketType| *kind == PacketType::Python;
    (is_python(gives) != is_python(takes))
        .then(|| "put a PyTensorOvTensorConverterCalculator between them".to_owned())
}
