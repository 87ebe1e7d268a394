//! From what is configured to a [`PipelinePlan`], or to all its errors.
//!
//! The order is that of the rules: names and libraries, the nodes one by one, cycles, the order of
//! levels, and what the pipeline as a whole takes. Where something is not known because of a
//! error, what depends on it is not validated, so that one mistake is reported once. The same goes for
//! what could not be looked at. Where a node's inputs and outputs are not known, for whichever
//! reason, [`survey`] reports that beside the errors.

mod build;
mod connections;
mod draft;
mod metadata;
mod nodes;
mod order;

use draft::Draft;

use super::{
    error::{PipelineError, PipelineErrors, PipelineRule},
    plan::PipelinePlan,
    sources::Sources,
};
use crate::config::{FilePosition, PipelineConfig, Warning};

/// A pipeline that can be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedPipeline {
    /// How.
    pub plan: PipelinePlan,
    /// Warnings.
    pub warnings: Vec<Warning>,
}

/// A node of which not everything could be validated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unchecked {
    /// The node.
    pub node: String,
    /// The first rule that was not validated, and that all later ones need as well; `None` if it was
    /// validated, and the error is reported.
    pub rule: Option<PipelineRule>,
    /// Where in the file.
    pub place: FilePosition,
    /// Why not.
    pub reason: String,
}

/// Findings for a pipeline that could not be examined completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineSurvey {
    /// How to serve it, if there is no error and everything was looked at.
    pub plan: Option<PipelinePlan>,
    /// Every error that was found, in the order of the rules.
    pub errors: Vec<PipelineError>,
    /// Warnings.
    pub warnings: Vec<Warning>,
    /// Parts that were not examined, in the order of the nodes.
    pub unchecked: Vec<Unchecked>,
}

/// Checks a pipeline.
///
/// # Errors
///
/// Fails with every error; the status text of the pipeline is that of the first. What was not
/// looked at is an error here.
pub fn check(
    config: &PipelineConfig,
    sources: &impl Sources,
) -> Result<CheckedPipeline, PipelineErrors> {
    let PipelineSurvey {
        plan,
        mut errors,
        warnings,
        unchecked,
    } = survey(config, sources);
    match plan {
        Some(plan) => Ok(CheckedPipeline { plan, warnings }),
        None => {
            errors.extend(unchecked.into_iter().filter_map(Unchecked::into_error));
            Err(PipelineErrors { errors, warnings })
        }
    }
}

/// Checks a pipeline as far as there is something to validate by.
pub fn survey(config: &PipelineConfig, sources: &impl Sources) -> PipelineSurvey {
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
    draft.leave_out_consequences();
    let complete = draft.errors.is_empty() && draft.unchecked.is_empty();
    PipelineSurvey {
        plan: complete.then(|| draft.plan(&order, &stacks, inputs)),
        errors: draft.errors,
        warnings: draft.warnings,
        unchecked: draft.unchecked,
    }
}

impl Unchecked {
    fn into_error(self) -> Option<PipelineError> {
        Some(PipelineError {
            rule: self.rule?,
            node: Some(self.node),
            place: self.place,
            found: format!("what was not looked at: {}", self.reason),
            expected: "what can be looked at".to_owned(),
            next: "fix that first".to_owned(),
        })
    }
}

impl Draft<'_> {
    /// Rule 1.
    fn name(&mut self, sources: &impl Sources) {
        let name = &self.config.name;
        if sources.name_taken(name) {
            self.errors.push(PipelineError {
                rule: PipelineRule::NameTaken,
                node: None,
                place: self.config.places.of("name").clone(),
                found: format!("the name `{name}`, which a model or graph has"),
                expected: "a name of its own".to_owned(),
                next: "rename the pipeline".to_owned(),
            });
        }
    }

    /// Leaves out what only follows from a connection to something that is not there: one typo is one
    /// error.
    fn leave_out_consequences(&mut self) {
        let is_dangling = |error: &PipelineError| {
            matches!(
                error.rule,
                PipelineRule::MissingNode | PipelineRule::ResponseAsSource
            )
        };
        if self.errors.iter().any(is_dangling) {
            self.errors
                .retain(|error| error.rule != PipelineRule::Unconnected);
        }
    }

    /// Rule 4.
    fn demultiplexers(&mut self) {
        use super::plan::Count::Dynamic;
        let mut demultiplexers = self.nodes.iter().filter(|node| node.count.is_some());
        let number = demultiplexers.clone().count();
        let Some(dynamic) = demultiplexers.find(|node| node.count == Some(Dynamic)) else {
            return;
        };
        if number > 1 {
            let error = PipelineError {
                rule: PipelineRule::DynamicAmongSeveral,
                node: Some(dynamic.name.to_owned()),
                place: dynamic.place("demultiply_count").clone(),
                found: format!("a demultiply_count of -1, and {number} demultiplexers in all"),
                expected: "one demultiplexer, since one of them is dynamic".to_owned(),
                next: "give each a fixed demultiply_count, or leave only this one".to_owned(),
            };
            self.errors.push(error);
        }
    }

    /// Rule 5.
    fn names(&mut self) {
        let last = self.nodes.len() - 1;
        for index in 1..last {
            let node = &self.nodes[index];
            if self.names[node.name] == index {
                continue;
            }
            let found = match self.names[node.name] {
                first if first == 0 || first == last => "a name that every pipeline has itself",
                _ => "the name of another node",
            };
            self.errors.push(PipelineError {
                rule: PipelineRule::DuplicateNode,
                node: Some(node.name.to_owned()),
                place: node.place("name").clone(),
                found: found.to_owned(),
                expected: "a name of its own; `request` and `response` are taken".to_owned(),
                next: "rename the node, and what refers to it".to_owned(),
            });
        }
    }
}

#[cfg(test)]
mod tests;
