//! From what is configured to a [`Plan`], or to every fault of it.
//!
//! The order is that of the rules: names and libraries, the nodes one by one, cycles, the order of
//! levels, and what the pipeline as a whole takes. Where something is not known because of a
//! fault, what depends on it is not judged, so that one mistake is told once.

mod build;
mod connections;
mod draft;
mod metadata;
mod nodes;
mod order;

use draft::Draft;

use super::{Fault, Faults, Plan, Rule, Sources};
use crate::config::{PipelineConfig, Warning};

/// A pipeline that can be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// How.
    pub plan: Plan,
    /// What may not be as meant.
    pub warnings: Vec<Warning>,
}

/// Checks a pipeline.
///
/// # Errors
///
/// Fails with every fault; the status text of the pipeline is that of the first.
pub fn check(config: &PipelineConfig, sources: &impl Sources) -> Result<Checked, Faults> {
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
    if !draft.faults.is_empty() {
        return Err(Faults {
            faults: draft.faults,
            warnings: draft.warnings,
        });
    }
    Ok(Checked {
        plan: draft.plan(&order, &stacks, inputs),
        warnings: draft.warnings,
    })
}

impl Draft<'_> {
    /// Rule 1.
    fn name(&mut self, sources: &impl Sources) {
        let name = &self.config.name;
        if sources.name_taken(name) {
            self.faults.push(Fault {
                rule: Rule::NameTaken,
                node: None,
                place: self.config.places.of("name").clone(),
                found: format!("the name `{name}`, which a model or graph has"),
                expected: "a name of its own".to_owned(),
                next: "rename the pipeline".to_owned(),
            });
        }
    }

    /// Rule 4.
    fn demultiplexers(&mut self) {
        use super::Count::Dynamic;
        let mut demultiplexers = self.nodes.iter().filter(|node| node.count.is_some());
        let number = demultiplexers.clone().count();
        let Some(dynamic) = demultiplexers.find(|node| node.count == Some(Dynamic)) else {
            return;
        };
        if number > 1 {
            let fault = Fault {
                rule: Rule::DynamicAmongSeveral,
                node: Some(dynamic.name.to_owned()),
                place: dynamic.place("demultiply_count").clone(),
                found: format!("a demultiply_count of -1, and {number} demultiplexers in all"),
                expected: "one demultiplexer, since one of them is dynamic".to_owned(),
                next: "give each a fixed demultiply_count, or leave only this one".to_owned(),
            };
            self.faults.push(fault);
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
            self.faults.push(Fault {
                rule: Rule::DuplicateNode,
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
