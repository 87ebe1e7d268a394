//! Checks of Python nodes without Python: rule 13, and the requirements of generative ones.

use std::collections::HashMap;

use super::{Draft, Found, GraphRule, New};
use crate::{
    graph::{
        file::{GraphSpec, NodeEntry, tag_index},
        node::{LOOPBACK, Port},
        plan::PoolSize,
    },
    proto::mediapipe::PythonExecutorCalculatorOptions,
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
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for entry in spec.nodes.iter().filter(|entry| entry.spec.is_python()) {
        let name = entry.spec.name.as_str();
        let add = |rule: GraphRule, message: String, hint: String| {
            let error = New::of(rule, entry.at, message).hint(hint);
            found.add(
                error
                    .node(name)
                    .about(entry.given.as_deref().unwrap_or(name)),
            );
        };
        let options: Option<PythonExecutorCalculatorOptions> = entry.spec.options.get();
        match options {
            None => add(
                GraphRule::PythonOptions,
                "the Python node has no options".to_owned(),
                "add `node_options: { [type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions]: { \
                 handler_path: \"…\" } }`"
                    .to_owned(),
            ),
            Some(options) if options.handler_path.is_empty() => add(
                GraphRule::PythonPath,
                "handler_path is empty".to_owned(),
                "name the Python file".to_owned(),
            ),
            Some(_) => {}
        }
        match &entry.given {
            None => add(
                GraphRule::PythonName,
                "the Python node has no name".to_owned(),
                "add `name: \"…\"`".to_owned(),
            ),
            Some(given) => {
                let first = *seen.entry(given).or_insert(entry.at);
                if first != entry.at {
                    let (line, column) = found.lines.place(first);
                    add(
                        GraphRule::PythonRepeated,
                        format!("two Python nodes have the name \"{given}\""),
                        format!("the other is at {line}:{column}; rename one"),
                    );
                }
            }
        }
        let mut inputs = entry.written.inputs.iter();
        let loopback = inputs.find(|input| input.text.starts_with(LOOPBACK));
        if let (Some(loopback), true) = (loopback, spec.pool != PoolSize::Off) {
            let message =
                "PythonExecutorCalculator with LOOPBACK stream is incompatible with graph queue";
            let error = New::of(GraphRule::Pool, loopback.at, message).node(name);
            found.add(error.hint("remove the line OVMS_GRAPH_QUEUE_MAX_SIZE, or set it to 0"));
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
        let add = |at: usize, message: String, hint: &str| {
            let error = New::wiring(at, message).node(&spec.name);
            self.found.add(error.hint(hint));
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
                    "If LOOPBACK is used, it must be defined on both input and output of the node"
                        .to_owned(),
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
                format!(
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
                     LOOPBACK:0 is not marked as a back edge"
                        .to_owned(),
                    hint,
                );
            }
        }
    }
}
