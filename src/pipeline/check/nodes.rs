//! Each node for itself: rules 6 to 14, and 24.

use std::collections::HashSet;

use super::draft::{Draft, Gathers, one_of, or_meant};
use crate::{
    pipeline::{dims::common, plan::Count, rules, sources::TensorSource},
    tensor::{DataType, Dim},
};

impl Draft<'_> {
    /// Validates a node without its connections.
    pub(super) fn node(&mut self, index: usize) {
        let Some(config) = self.nodes[index].config else {
            return;
        };
        if let Some(failure) = self.nodes[index].failure.take() {
            self.fail(index, failure);
        }
        self.settings(index);
        self.strings(index);
        self.split_outputs(index);
        self.gather(index);

        for (at, output) in config.outputs.iter().enumerate() {
            let later = &config.outputs[at + 1..];
            if later.iter().any(|later| later.alias == output.alias) {
                let text = format!(
                    "the alias `{}` comes again further down; that one counts",
                    output.alias
                );
                self.warn(&output.place, text);
            }
        }
    }

    /// Rule 7.
    fn settings(&mut self, index: usize) {
        let node = &self.nodes[index];
        let (auto, stateful) = (node.auto, node.stateful);
        if auto {
            let found = "a model whose batch size or shape is auto";
            let message = (found, "a fixed shape, -1 or a range");
            let next = "change batch_size or shape of the model, for example to -1";
            self.error(index, rules::AUTO_MODEL, "model_name", message, next);
        }
        if stateful {
            let message = ("a stateful model", "a model without state");
            let next = "send requests to the stateful model directly";
            self.error(index, rules::STATEFUL_MODEL, "model_name", message, next);
        }
    }

    /// Rule 8.
    fn strings(&mut self, index: usize) {
        let node = &self.nodes[index];
        let is_string = |tensor: &&TensorSource| tensor.dtype == Some(DataType::String);
        let inputs = node.facts.iter().flat_map(|facts| &facts.inputs);
        let split = node.count.is_some() && node.is_model();
        let own = inputs.clone().find(is_string).filter(|_| split);
        let fed = |tensor: &&TensorSource| {
            let mut connections = node.connections.iter();
            connections.any(|from| {
                from.name == tensor.name && self.names.get(&*from.node_name) == Some(&0)
            })
        };
        let entry = self.nodes[0].count.is_some();
        let fed = inputs.clone().filter(is_string).find(fed).filter(|_| entry);
        let own = own.map(|input| {
            let found = format!("the string input `{}` of a demultiplexer", input.name);
            ("demultiply_count", found)
        });
        let fed = fed.map(|input| {
            let name = &input.name;
            let found = format!("the string input `{name}`, fed by a request that is split");
            ("inputs", found)
        });
        for (key, found) in [own, fed].into_iter().flatten() {
            let message = (found, "numbers where there is a demultiply_count");
            let next = "take the demultiply_count away";
            self.error(index, rules::SPLIT_STRINGS, key, message, next);
        }
    }

    /// Rules 11 and 12.
    fn split_outputs(&mut self, index: usize) {
        let node = &self.nodes[index];
        let (Some(count), Some(facts)) = (node.count, &node.facts) else {
            return;
        };
        let key = "demultiply_count";
        let place = node.place(key).clone();
        for output in facts.outputs.clone() {
            let name = &output.name;
            let dims = &output.shape.0;
            if dims.len() < 2 {
                let found = format!("the output `{name}` of shape {}", output.shape);
                let expected = "at least 2 dimensions in every output of a demultiplexer";
                let next =
                    "take the demultiply_count away, or let the node give one dimension more";
                self.error(index, rules::RANK, key, (found, expected), next);
                continue;
            }
            if output.dtype == Some(DataType::String) {
                let text = format!("the output `{name}` has strings, which cannot be split");
                self.warn(&place, text);
            }
            let Count::Fixed(count) = count else {
                continue;
            };
            if common(dims[0], Dim::Fixed(count)).is_none() {
                let found = format!("{count}, and the output `{name}` of shape {}", output.shape);
                let expected = format!("{}, as the first dimension says", dims[0]);
                let next = "make them equal, or set demultiply_count to -1";
                self.error(index, rules::COUNT_MISMATCH, key, (found, expected), next);
            } else if dims[0] != Dim::Fixed(count) {
                let text = format!(
                    "requests fail where the first dimension of the output `{name}`, which is \
                     {}, is not {count}",
                    dims[0]
                );
                self.warn(&place, text);
            }
        }
    }

    /// Rules 13 and 14.
    fn gather(&mut self, index: usize) {
        let config = self.nodes[index].config;
        let Some(name) = config.and_then(|config| config.gather_from_node.as_deref()) else {
            return;
        };
        let demultiplexers = self.nodes.iter().filter(|node| node.count.is_some());
        let demultiplexers: Vec<&str> = demultiplexers.map(|node| node.name).collect();
        let (rule, found) = match self.names.get(name).copied() {
            Some(from) if self.nodes[from].count.is_some() => {
                self.nodes[index].gathers = Gathers::From(from);
                return;
            }
            Some(_) => (
                rules::PLAIN_GATHER,
                format!("`{name}`, which has no demultiply_count"),
            ),
            None => (rules::MISSING_GATHER, format!("`{name}`, which is no node")),
        };
        self.nodes[index].gathers = Gathers::Error;
        let expected = one_of("a node with demultiply_count", &demultiplexers);
        let next = "change gather_from_node, or give that node a demultiply_count";
        let next = or_meant(name, &demultiplexers, next);
        self.error(index, rule, "gather_from_node", (found, expected), next);
    }

    /// Warns of outputs that do not exist, where nobody uses them.
    pub(super) fn unused_outputs(&mut self) {
        let connections = self.nodes.iter().flat_map(|node| node.connections);
        let used: HashSet<(&str, &str)> = connections
            .map(|from| (&*from.node_name, &*from.data_item))
            .collect();
        let mut found = Vec::new();
        for node in &self.nodes {
            let (Some(config), Some(facts)) = (node.config, &node.facts) else {
                continue;
            };
            if facts.is_open {
                continue;
            }
            for output in &config.outputs {
                let exists = facts
                    .outputs
                    .iter()
                    .any(|real| real.name == output.data_item);
                if !exists && !used.contains(&(node.name, &*output.alias)) {
                    let text = format!(
                        "what the node `{}` runs has no output `{}`, which nothing uses",
                        node.name, output.data_item
                    );
                    found.push((output.place.clone(), text));
                }
            }
        }
        for (place, text) in found {
            self.warn(&place, text);
        }
    }

    /// Rule 24.
    pub(super) fn open_inputs(&mut self, index: usize) {
        let node = &self.nodes[index];
        let connected = |input: &&TensorSource| {
            let mut connections = node.connections.iter();
            connections.any(|connection| connection.name == input.name)
        };
        let inputs = node.facts.iter().flat_map(|facts| &facts.inputs);
        let open: Vec<String> = inputs
            .filter(|input| !connected(input))
            .map(|input| input.name.clone())
            .collect();
        let known = |name: &str| {
            let mut inputs = node.facts.iter().flat_map(|facts| &facts.inputs);
            inputs.any(|input| input.name == name)
        };
        let strangers = node.connections.iter().filter(|it| !known(&it.name));
        // Those that were meant are connected under other names, which was reported.
        if strangers.count() >= open.len() {
            return;
        }
        for input in open {
            let found = format!("no source for the input `{input}`");
            let next = format!("add {{\"{input}\": {{\"node_name\": …, \"data_item\": …}}}}");
            let message = (found, "one for each input");
            self.error(index, rules::OPEN_INPUT, "inputs", message, next);
        }
    }
}
