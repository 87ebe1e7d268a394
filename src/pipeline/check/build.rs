//! Conversion of a pipeline without errors to its plan.

use std::collections::HashMap;

use super::{
    draft::{Draft, Gathers, Link},
    metadata::{dim, info, prepend},
    order::Stack,
};
use crate::{
    config::EmptyResults,
    pipeline::{
        adapt::Adapter,
        plan::{Count, Input, Level, PipelinePlan, PipelinePlanNode, PlanOutput},
    },
    servable::{ServableInfo, TensorInfo},
    tensor::Dim,
};

impl Draft<'_> {
    /// Makes the plan. There are no errors, so that every link is complete.
    pub(super) fn plan(
        &self,
        order: &[usize],
        stacks: &[Stack],
        inputs: Vec<TensorInfo>,
    ) -> PipelinePlan {
        let (levels, level_of) = self.plan_levels(order, stacks);
        let mut nodes: Vec<PipelinePlanNode> = self
            .nodes
            .iter()
            .zip(stacks)
            .map(|(node, stack)| PipelinePlanNode {
                name: node.name.to_owned(),
                kind: node.config.map(|config| config.kind.clone()),
                levels: (stack.iter().flatten().map(|node| level_of[node])).collect(),
                ..PipelinePlanNode::default()
            })
            .collect();
        nodes[0].outputs = inputs.iter().map(|input| output(&input.name)).collect();
        for (node, level) in &level_of {
            nodes[*node].opens = Some(*level);
        }
        for (index, node) in self.nodes.iter().enumerate() {
            for link in &node.links {
                self.plan_link(&mut nodes, index, *link);
            }
            if let Gathers::From(from) = node.gathers {
                nodes[index].gathers = vec![level_of[&from]];
            }
        }
        let exit = nodes.len() - 1;
        if let Some(first) = nodes[exit].inputs.first() {
            let source = &nodes[first.source];
            nodes[exit].gathers = source.levels.iter().copied().chain(source.opens).collect();
        }
        let outputs = self.plan_outputs(&nodes, &levels);
        PipelinePlan {
            name: self.config.name.clone(),
            nodes,
            levels,
            allows_empty: self.allows_empty(),
            info: ServableInfo::new(inputs, outputs),
        }
    }

    /// Returns the levels, and which one each demultiplexer opens.
    fn plan_levels(
        &self,
        order: &[usize],
        stacks: &[Stack],
    ) -> (Vec<Level>, HashMap<usize, usize>) {
        let mut levels = Vec::new();
        let mut level_of = HashMap::new();
        for &node in order {
            if let Some(count) = self.nodes[node].count {
                let around = stacks[node].as_ref().and_then(|stack| stack.last());
                let parent = around.map(|around| level_of[around]);
                level_of.insert(node, levels.len());
                levels.push(Level {
                    node,
                    count,
                    parent,
                });
            }
        }
        (levels, level_of)
    }

    /// Connects an input with its source.
    fn plan_link(&self, nodes: &mut [PipelinePlanNode], node: usize, link: Link) {
        let Some(which) = link.output else {
            return;
        };
        let source = &self.nodes[link.source];
        let tensor = source.output(which);
        let name = match (tensor, source.config) {
            (Some(tensor), _) => &tensor.name,
            (None, Some(config)) => &config.outputs[which].data_item,
            (None, None) => &self.config.inputs[which],
        };
        let outputs = &mut nodes[link.source].outputs;
        let place = outputs.iter().position(|output| output.name == *name);
        let place = place.unwrap_or_else(|| {
            outputs.push(output(name));
            outputs.len() - 1
        });
        outputs[place].tensor = tensor.cloned();

        let (consumer, from) = (node, link.source);
        let input = nodes[node].inputs.len();
        nodes[link.source].outputs[place]
            .consumers
            .push((consumer, input));
        let target = &self.nodes[node];
        let taken = link.input.and_then(|input| target.input(input));
        let connection = self.connection(node, link);
        let converted = taken.filter(|_| connection.convert && link.source != 0);
        nodes[node].inputs.push(Input {
            name: connection.name.clone(),
            source: from,
            output: place,
            tensor: taken.cloned(),
            convert: converted.and_then(|taken| match tensor {
                Some(given) => {
                    let gathers = target.gathers != Gathers::Nothing;
                    Adapter::between(given, source.count.is_some(), taken, gathers)
                }
                None => Adapter::of_any(taken),
            }),
        });
        if !nodes[node].sources.contains(&from) {
            nodes[node].sources.push(from);
            nodes[link.source].consumers.push(consumer);
        }
    }

    /// Returns the outputs of the pipeline.
    fn plan_outputs(&self, nodes: &[PipelinePlanNode], levels: &[Level]) -> Vec<TensorInfo> {
        let exit = &nodes[nodes.len() - 1];
        let front: Vec<Dim> = exit
            .gathers
            .iter()
            .map(|level| self.level_dim(&levels[*level]))
            .collect();
        let outputs = exit.inputs.iter().enumerate().map(|(port, input)| {
            let source = &nodes[input.source];
            let tensor = source.outputs[input.output].tensor.as_ref();
            let mut output = info(&input.name, tensor, port);
            if tensor.is_some() && source.opens.is_some() {
                output.shape.0.remove(0);
            }
            prepend(&mut output, &front);
            output
        });
        outputs.collect()
    }

    fn allows_empty(&self) -> bool {
        self.config.empty_results == EmptyResults::Allow
    }

    /// Returns the dimension that a level adds to an output of the pipeline.
    fn level_dim(&self, level: &Level) -> Dim {
        let node = &self.nodes[level.node];
        match (level.count, &node.facts) {
            (Count::Dynamic, Some(facts)) if !node.is_model() => {
                let first = facts.outputs.iter().min_by(|a, b| a.name.cmp(&b.name));
                let dim = first.and_then(|first| first.shape.0.first().copied());
                // Metadata says what clients may get.
                dim.filter(|dim| !self.allows_empty() || dim.allows(0))
                    .unwrap_or(Dim::Any)
            }
            (count, _) => dim(count),
        }
    }
}

fn output(name: &str) -> PlanOutput {
    PlanOutput {
        name: name.to_owned(),
        ..PlanOutput::default()
    }
}
