//! Rules 5 to 11: the inputs and outputs of the graph.

use std::collections::HashMap;

use super::{Found, rules};
use crate::{
    diagnostic::Rule,
    graph::{
        calculators::packet::{PacketType, TensorKind},
        file::{GraphSpec, PortEntry},
    },
};

/// Tag prefix of tensors that clients cannot send.
const TFLITE: &str = "TFLITE_TENSOR";

/// Returns the form of an input or output to clients.
pub(super) fn form(entry: &PortEntry, is_input: bool) -> PacketType {
    match (PacketType::of_tag(entry.tag()), is_input) {
        // Only inputs are requests, and only outputs responses.
        (PacketType::Request, false) | (PacketType::Response, true) => {
            PacketType::Tensor(TensorKind::OpenVino)
        }
        (form, _) => form,
    }
}

/// Returns whether an input or output has a form unavailable to clients.
pub(super) fn is_tflite(entry: &PortEntry) -> bool {
    entry.tag().starts_with(TFLITE)
}

/// Checks the inputs and outputs of a graph.
pub(super) fn validate(spec: &GraphSpec, found: &Found<'_>) {
    repeated(&spec.inputs, rules::INPUT_NAME, "inputs", found);
    repeated(&spec.outputs, rules::OUTPUT_NAME, "outputs", found);
    let missing = match (spec.inputs.is_empty(), spec.outputs.is_empty()) {
        (true, true) => Some("input_stream and output_stream"),
        (true, false) => Some("input_stream"),
        (false, true) => Some("output_stream"),
        (false, false) => None,
    };
    if let Some(missing) = missing {
        let message =
            format!("a graph having less than one input or output is disallowed: no {missing}");
        let hint =
            "these lines stand outside of the nodes, such as `input_stream: \"OVTENSOR:in\"`";
        found.add(found.error(rules::NO_PORTS, 0, message).hint(hint));
    }
    for (ports, kind) in [(&spec.inputs, "input"), (&spec.outputs, "output")] {
        for entry in ports.iter().filter(|entry| is_tflite(entry)) {
            let message = format!(
                "the {kind} \"{}\" of the graph has the tag prefix {TFLITE}, which is not supported there",
                entry.text
            );
            let error = found.error(rules::TF_LITE, entry.at, message);
            found.add(error.hint("use OVTENSOR, and convert within the graph"));
        }
    }
    requests(spec, found);
}

fn repeated(ports: &[PortEntry], rule: Rule, kind: &str, found: &Found<'_>) {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for entry in ports {
        let name = entry.name();
        let first = *seen.entry(name).or_insert(entry.at);
        if first != entry.at {
            let (line, column) = found.lines.place(first);
            let message = format!("two {kind} of the graph have the name \"{name}\"");
            let error = found.error(rule, entry.at, message).about(name);
            found.add(error.hint(format!("the other is at {line}:{column}; rename one")));
        }
    }
}

/// Checks rules 9 to 11.
fn requests(spec: &GraphSpec, found: &Found<'_>) {
    let (mut inputs, mut outputs) = (spec.inputs.iter(), spec.outputs.iter());
    let request = inputs.find(|entry| form(entry, true) == PacketType::Request);
    let response = outputs.find(|entry| form(entry, false) == PacketType::Response);
    match (request, response) {
        (Some(request), None) => {
            let message = format!(
                "the input \"{}\" takes whole requests, but no output has the tag RESPONSE",
                request.text
            );
            let error = found.error(rules::NO_RESPONSE, request.at, message);
            found.add(error.hint("tag the output RESPONSE:…"));
        }
        (None, Some(response)) => {
            let message = format!(
                "the output \"{}\" gives whole responses, but no input has the tag REQUEST",
                response.text
            );
            let error = found.error(rules::NO_REQUEST, response.at, message);
            found.add(error.hint("tag the input REQUEST:…"));
        }
        (Some(_), Some(_)) => {
            let counted = [
                (rules::REQUEST_OUTPUTS, &spec.outputs, "output"),
                (rules::REQUEST_INPUTS, &spec.inputs, "input"),
            ];
            for (rule, ports, kind) in counted {
                if let Some(second) = ports.get(1) {
                    let count = ports.len();
                    let message =
                        format!("a graph of whole requests has one {kind}, this one has {count}");
                    found.add(found.error(rule, second.at, message));
                }
            }
        }
        (None, None) => {}
    }
}
