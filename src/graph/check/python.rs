//! Checks of Python nodes without Python: rule 13, and the requirements of generative ones.

use std::collections::HashMap;

use super::{Draft, Found, rules};
use crate::{
    diagnostic::{FilePosition, Rule},
    graph::{
        calculators::node::{LOOPBACK, Port},
        file::{GraphSpec, NodeEntry, PoolSize, WorkerOptionEntry, tag_index},
    },
    proto::mediapipe::PythonExecutorCalculatorOptions,
    python::WorkerOptions,
};

/// Returns whether a Python node lacks the options for its class.
pub(super) fn is_faulty(entry: &NodeEntry) -> bool {
    let options: Option<PythonExecutorCalculatorOptions> = entry.spec.options.get();
    entry.spec.is_python()
        && (entry.given.is_none() || options.is_none_or(|options| options.handler_path.is_empty()))
}

/// Returns whether a Python node triggers itself by an input; errors in it are reported once, with
/// the node.
pub(super) fn is_loopback(entry: &NodeEntry, port: &Port) -> bool {
    entry.spec.is_python() && entry.is_sound && port.at.tag == LOOPBACK && port.at.index == 0
}

/// Checks names and options, and whether instances may be pooled.
pub(super) fn validate(spec: &GraphSpec, found: &Found<'_>) {
    workers(spec, found);
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for entry in spec.nodes.iter().filter(|entry| entry.spec.is_python()) {
        let name = entry.spec.name.as_str();
        let subject = entry.given.as_deref().unwrap_or(name);
        let add = |rule: Rule, message: &str, hint: &str| {
            let error = found.error(rule, entry.at, message).node(name);
            found.add(error.about(subject).hint(hint));
        };
        let options: Option<PythonExecutorCalculatorOptions> = entry.spec.options.get();
        match options {
            None => add(
                rules::PYTHON_OPTIONS,
                "the Python node has no options",
                "add `node_options: { [type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions]: { \
                 handler_path: \"…\" } }`",
            ),
            Some(options) if options.handler_path.is_empty() => add(
                rules::PYTHON_PATH,
                "handler_path is empty",
                "name the Python file",
            ),
            Some(_) => {}
        }
        match &entry.given {
            None => add(
                rules::PYTHON_NAME,
                "the Python node has no name",
                "add `name: \"…\"`",
            ),
            Some(given) => {
                let first = *seen.entry(given).or_insert(entry.at);
                if first != entry.at {
                    let (line, column) = found.lines.place(first);
                    add(
                        rules::PYTHON_REPEATED,
                        &format!("two Python nodes have the name \"{given}\""),
                        &format!("the other is at {line}:{column}; rename one"),
                    );
                }
            }
        }
        let mut inputs = entry.written.inputs.iter();
        let loopback = inputs.find(|input| input.text.starts_with(LOOPBACK));
        if let (Some(loopback), true) = (loopback, spec.pool != PoolSize::Off) {
            let message =
                "PythonExecutorCalculator with LOOPBACK stream is incompatible with graph queue";
            let error = found.error(rules::POOL, loopback.at, message).node(name);
            found.add(error.hint("remove the line OVMS_GRAPH_QUEUE_MAX_SIZE, or set it to 0"));
        }
    }
}

/// Checks the options of workers, which the nodes have in common.
fn workers(spec: &GraphSpec, found: &Found<'_>) {
    let mut seen: HashMap<&str, &WorkerOptionEntry> = HashMap::new();
    for node in &spec.nodes {
        for entry in &node.workers {
            let WorkerOptionEntry { option, value, .. } = entry;
            let add = |message: String, hint: &str| {
                let error = found.error(rules::PYTHON_WORKERS, entry.at, message);
                found.add(error.node(&node.spec.name).hint(hint));
            };
            let (least, most) = WorkerOptions::bounds(option);
            let is_number = *option != "python_environment";
            let number = value
                .parse()
                .ok()
                .filter(|number| (least..=most).contains(number));
            if is_number && number.is_none() {
                let message = format!("{option} is {value}; expected {least} to {most}");
                add(message, "change the number");
            }
            let first = seen.entry(option).or_insert(entry);
            if first.value != *value {
                let FilePosition { line, column, .. } = first.place;
                let message = format!(
                    "{option} is {value} here and {} at {line}:{column}, and the nodes of a graph share its workers",
                    first.value
                );
                add(message, "give it once");
            }
        }
    }
}

impl Draft<'_> {
    /// Checks the loopbacks of Python nodes.
    pub(super) fn loopbacks(&mut self) {
        for (place, entry) in self.spec.nodes.iter().enumerate() {
            if entry.spec.is_python() && entry.is_sound {
                self.loopback(place, entry);
            }
        }
    }

    fn loopback(&mut self, place: usize, entry: &NodeEntry) {
        let spec = &entry.spec;
        let node = &mut self.nodes[place];
        let input = spec.inputs.find(LOOPBACK, 0);
        let output = spec.outputs.find(LOOPBACK, 0);
        let add = |at: usize, message: &str, hint: &str| {
            let hint = Some(hint.to_owned());
            self.found.wiring(Some(&spec.name), at, message, hint);
        };
        let at = |input: usize| entry.written.inputs[spec.inputs[input].written].at;
        let (input, output) = match (input, output) {
            (None, None) => return,
            (Some(input), Some(output)) => (input, output),
            (input, output) => {
                node.is_loopback_wrong = true;
                let at = input.map(at).or_else(|| {
                    let port = &spec.outputs[output?];
                    Some(entry.written.outputs[port.written].at)
                });
                let missing = if input.is_some() {
                    "add `output_stream: \"LOOPBACK:…\"` of the same name"
                } else {
                    "add `input_stream: \"LOOPBACK:…\"` of the same name"
                };
                add(
                    at.unwrap_or(entry.at),
                    "If LOOPBACK is used, it must be defined on both input and output of the node",
                    missing,
                );
                return;
            }
        };
        let (from, to) = (&spec.outputs[output].name, &spec.inputs[input].name);
        if from != to {
            node.is_loopback_wrong = true;
            add(
                at(input),
                &format!(
                    "LOOPBACK must be one stream, but the input is \"{to}\" and the output \"{from}\""
                ),
                "give both the same name",
            );
            return;
        }
        if !node.back_edges.get(input).is_some_and(|marked| *marked) {
            node.is_loopback_wrong = true;
            let mut infos = entry.infos.iter();
            let info = infos.find(|info| {
                tag_index(&info.tag_index).is_ok_and(|known| known == spec.inputs[input].at)
            });
            if !node.are_infos_wrong {
                let (at, hint) = match info {
                    Some(info) => (info.at, "write `back_edge: true`"),
                    None => (
                        at(input),
                        "add `input_stream_info: { tag_index: \"LOOPBACK:0\" back_edge: true }`",
                    ),
                };
                add(
                    at,
                    "Generator side packet cycle or calculator stream cycle detected: the input \
                     LOOPBACK:0 is not marked as a back edge",
                    hint,
                );
            }
        }
    }
}
