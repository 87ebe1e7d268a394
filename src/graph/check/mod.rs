//! Validation of a graph file: all errors with rule and location, or a [`GraphPlan`].
//!
//! Parts that are unknown because of an error are not checked, so that one mistake is
//! reported once.

mod handlers;
mod order;
pub(super) mod plan;
mod ports;
mod python;
mod settings;
#[cfg(test)]
mod tests;
mod types;
mod wiring;

use std::collections::HashMap;

use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    error::nearest,
    graph::{
        calculators::{self, calculator::Factory, contract::Contract},
        file::{
            GraphSpec,
            rules::{self, Found},
        },
    },
};

use plan::{GraphPlan, GraphPlanNode, InputHandler};

/// Graph that breaks no rule.
#[derive(Debug)]
pub struct CheckedGraph {
    /// Plan to run.
    pub plan: GraphPlan,
    /// Contents of the file.
    pub spec: GraphSpec,
    /// Warnings.
    pub warnings: Vec<Diagnostic>,
}

/// Validates the text of a graph file.
///
/// # Errors
///
/// Returns all errors that can be detected from the text alone.
pub fn check(
    text: &str,
    file: &str,
    factories: &[&'static Factory],
) -> Result<CheckedGraph, Diagnostics> {
    let found = Found::new(text, file);
    let checked = graph(text, &found, factories);
    let warnings = found.end()?;
    let Some((plan, spec)) = checked else {
        let error = Diagnostic::error(rules::TEXT, "the text makes no graph");
        return Err(error.file(file).into());
    };
    Ok(CheckedGraph {
        plan,
        spec,
        warnings,
    })
}

/// Checks a text; the result counts only if no error was found.
fn graph(
    text: &str,
    found: &Found<'_>,
    factories: &[&'static Factory],
) -> Option<(GraphPlan, GraphSpec)> {
    if text.trim().is_empty() {
        let error = found.error(rules::EMPTY, 0, "the file has nothing in it");
        found.add(error.hint("write at least an input_stream, an output_stream and a node"));
        return None;
    }
    let spec = GraphSpec::new(found)?;
    ports::validate(&spec, found);
    python::validate(&spec, found);
    let executors = settings::executors(&spec, found);
    let max_queue = settings::max_queue(&spec, found);
    let mut draft = Draft::new(&spec, found, factories);
    draft.connect();
    draft.loopbacks();
    draft.contracts();
    draft.pooled_sides();
    draft.cycles();
    // Types differ as well if whole requests come without whole responses.
    if !found.has(rules::NO_RESPONSE) && !found.has(rules::NO_REQUEST) {
        draft.types();
    }
    let mut nodes = Vec::with_capacity(draft.nodes.len());
    for (place, entry) in spec.nodes.iter().enumerate() {
        settings::executor(&executors, entry, found);
        let handler = draft.handler(place);
        settings::max_in_flight(entry, found);
        let node = &mut draft.nodes[place];
        // A missing factory has been reported as an error.
        if let (Some(factory), Some(handler)) = (node.factory, handler) {
            let mut contract = std::mem::take(&mut node.contract).unwrap_or_default();
            if matches!(handler, InputHandler::FixedSize { .. }) {
                // Calls ahead of their turn would empty the queues from which it drops.
                contract.pipelined = None;
            }
            // A generator goes on before anything else begins.
            let given = entry.spec.max_in_flight;
            let given = given.filter(|_| !entry.spec.is_generator());
            nodes.push(GraphPlanNode {
                spec: entry.spec.clone(),
                factory,
                max_in_flight: given.or(contract.pipelined).unwrap_or(1).max(1),
                contract,
                inputs: node.inputs.iter().filter_map(|stream| *stream).collect(),
                back_edges: std::mem::take(&mut node.back_edges),
                outputs: node.outputs.iter().filter_map(|stream| *stream).collect(),
                side_inputs: std::mem::take(&mut node.side_inputs),
                side_outputs: node.side_outputs.iter().filter_map(|side| *side).collect(),
                handler,
            });
        }
    }
    let plan = GraphPlan {
        nodes,
        max_queue,
        report_deadlock: spec.report_deadlock,
        pool: spec.pool,
        ..draft.plan
    };
    Some((plan, spec))
}

/// Graph being validated.
struct Draft<'a> {
    spec: &'a GraphSpec,
    found: &'a Found<'a>,
    nodes: Vec<DraftNode>,
    /// Plan, so far without nodes and settings.
    plan: GraphPlan,
    by_name: HashMap<&'a str, usize>,
    sides_by_name: HashMap<&'a str, usize>,
}

/// Node being validated. `None` means unknown because of an error.
#[derive(Default)]
struct DraftNode {
    factory: Option<&'static Factory>,
    contract: Option<Contract>,
    inputs: Vec<Option<usize>>,
    back_edges: Vec<bool>,
    outputs: Vec<Option<usize>>,
    side_inputs: Vec<usize>,
    side_outputs: Vec<Option<usize>>,
    /// Indicates that its loopback is invalid, which is reported.
    is_loopback_wrong: bool,
    /// Indicates that its input details are invalid, which is reported.
    are_infos_wrong: bool,
}

impl<'a> Draft<'a> {
    fn new(spec: &'a GraphSpec, found: &'a Found<'a>, factories: &[&'static Factory]) -> Self {
        let known: HashMap<&str, &'static Factory> = factories
            .iter()
            .map(|factory| (factory.name, *factory))
            .collect();
        let nodes = spec.nodes.iter().map(|entry| {
            let factory = known.get(entry.spec.calculator.as_str()).copied();
            if factory.is_none() && !found.is_full(rules::WIRING) {
                let calculator = &entry.spec.calculator;
                let message = format!("Unable to find Calculator \"{calculator}\"");
                let hint = if calculator.is_empty() {
                    Some("add `calculator: \"…\"`".to_owned())
                } else if let Some(what) = calculators::absent(calculator) {
                    Some(format!(
                        "graphs for {what} are absent from this server on purpose; docs/moving.md \
                         lists what is"
                    ))
                } else {
                    let near = nearest(calculator, known.keys().copied());
                    near.map(|name| format!("did you mean {name}?"))
                };
                found.wiring(Some(&entry.spec.name), entry.calculator_at, message, hint);
            }
            DraftNode {
                factory,
                ..DraftNode::default()
            }
        });
        Self {
            nodes: nodes.collect(),
            plan: GraphPlan::default(),
            by_name: HashMap::new(),
            sides_by_name: HashMap::new(),
            spec,
            found,
        }
    }

    /// Queries the contract of each node.
    fn contracts(&mut self) {
        for (entry, node) in self.spec.nodes.iter().zip(&mut self.nodes) {
            let Some(factory) = node.factory else {
                continue;
            };
            if !entry.is_sound || node.is_loopback_wrong || python::is_faulty(entry) {
                continue;
            }
            match factory.check(&entry.spec) {
                Ok(contract) => node.contract = Some(contract),
                Err(message) => {
                    let name = &entry.spec.name;
                    self.found.wiring(Some(name), entry.at, message, None);
                }
            }
        }
    }
}
