//! Conversion of the configuration to a [`PipelinePlan`], or to all its errors.
//!
//! The order is that of the rules: names and libraries, the nodes one by one, cycles, the order of
//! levels, and what the pipeline as a whole takes. Where something is not known because of a
//! error, what depends on it is not validated, so that one mistake is reported once. The same goes for
//! what could not be looked at. Where a node's inputs and outputs are not known, for whichever
//! reason, that is reported beside the errors.

mod build;
mod connections;
mod draft;
pub(super) mod failure;
mod metadata;
mod nodes;
mod order;
mod rows;

use draft::Draft;

use super::{plan::PipelinePlan, rules, sources::Sources};
use crate::{
    config::PipelineConfig,
    diagnostic::{Diagnostic, Diagnostics, Rule},
};

/// A pipeline that can be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedPipeline {
    /// Plan of its runs.
    pub plan: PipelinePlan,
    /// Warnings.
    pub warnings: Vec<Diagnostic>,
}

/// Checks a pipeline as far as there is something to validate by.
///
/// # Errors
///
/// Fails with every error, in the order of the rules, and every node that was not examined, in the order
/// of the file.
pub fn check(
    config: &PipelineConfig,
    sources: &impl Sources,
) -> Result<CheckedPipeline, Diagnostics> {
    let mut draft = Draft::new(config);
    draft.name(sources);
    draft.describe(sources);
    draft.demultiplexers();
    draft.names();
    for node in 0..draft.nodes.len() {
        draft.node(node);
        draft.connections(node);
        draft.open_inputs(node);
    }
    draft.unused_outputs();
    let order = draft.cycles();
    let reached = draft.unconnected();
    let stacks = draft.levels(&order, &reached);
    draft.batches(&stacks);
    let inputs = draft.inputs();
    draft.rows(&order);
    draft.leave_out_consequences();
    if !draft.found.errors.is_empty() || !draft.found.unchecked.is_empty() {
        return Err(draft.found);
    }
    Ok(CheckedPipeline {
        plan: draft.plan(&order, &stacks, inputs),
        warnings: draft.found.warnings,
    })
}

/// Checks a pipeline for its findings alone.
pub fn survey(config: &PipelineConfig, sources: &impl Sources) -> Diagnostics {
    let of_warnings = |checked: CheckedPipeline| Diagnostics::of_warnings(checked.warnings);
    check(config, sources).map_or_else(|found| found, of_warnings)
}

/// Returns the error of a pipeline with the name of another servable.
pub fn name_taken(config: &PipelineConfig) -> Diagnostic {
    let found = format!("the name `{}`, which a model or graph has", config.name);
    Diagnostic::error(rules::NAME_TAKEN, (found, "a name of its own"))
        .at(config.places.of("name").clone())
        .hint("rename the pipeline")
}

impl Draft<'_> {
    /// Returns whether one of some rules is broken.
    fn breaks(&self, rules: &[Rule]) -> bool {
        let mut broken = self.found.errors.iter().filter_map(|error| error.rule);
        broken.any(|rule| rules.contains(&rule))
    }

    /// Rule 1.
    fn name(&mut self, sources: &impl Sources) {
        if sources.name_taken(&self.config.name) {
            self.found.errors.push(name_taken(self.config));
        }
    }

    /// Leaves out what only follows from a connection to something that is not there: one typo is one
    /// error.
    fn leave_out_consequences(&mut self) {
        if self.breaks(&[rules::MISSING_NODE, rules::RESPONSE_AS_SOURCE]) {
            let errors = &mut self.found.errors;
            errors.retain(|error| error.rule != Some(rules::UNCONNECTED));
        }
    }

    /// Rule 4.
    fn demultiplexers(&mut self) {
        use super::plan::Count::Dynamic;
        let number = self.nodes.iter().filter(|node| node.count.is_some());
        let number = number.count();
        let mut nodes = self.nodes.iter();
        let dynamic = nodes.position(|node| node.count == Some(Dynamic));
        if let Some(dynamic) = dynamic.filter(|_| number > 1) {
            let found = format!("a demultiply_count of -1, and {number} demultiplexers in all");
            let message = (found, "one demultiplexer, since one of them is dynamic");
            let next = "give each a fixed demultiply_count, or leave only this one";
            let (rule, key) = (rules::DYNAMIC_AMONG_SEVERAL, "demultiply_count");
            self.error(dynamic, rule, key, message, next);
        }
    }

    /// Rule 5.
    fn names(&mut self) {
        let last = self.nodes.len() - 1;
        for index in 1..last {
            let first = self.names[self.nodes[index].name];
            if first == index {
                continue;
            }
            let found = match first == 0 || first == last {
                true => "a name that every pipeline has itself",
                false => "the name of another node",
            };
            let expected = "a name of its own; `request` and `response` are taken";
            let next = "rename the node, and what refers to it";
            self.error(
                index,
                rules::DUPLICATE_NODE,
                "name",
                (found, expected),
                next,
            );
        }
    }
}

#[cfg(test)]
mod tests;
