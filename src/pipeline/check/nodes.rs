//! Each node for itself: rules 6 to 14, and 24.

use std::collections::HashSet;

use super::draft::{Draft, DraftNode, Failure, Gathers, one_of, or_meant};
use crate::{
    config::NodeKind,
    pipeline::{
        dims::common,
        error::PipelineRule,
        plan::Count,
        sources::{CustomError, MissingModel, TensorSource},
    },
    tensor::{DataType, Dim},
};

impl Draft<'_> {
    /// Validates a node without its connections.
    pub(super) fn node(&mut self, index: usize) {
        let Some(config) = self.nodes[index].config else {
            return;
        };
        match self.nodes[index].failure.take() {
            Some(Failure::Model(missing)) => self.missing_model(index, missing),
            Some(Failure::Custom(error)) => {
                self.strings(index);
                self.metadata(index, &error);
            }
            None => {
                self.settings(index);
                self.strings(index);
            }
        }
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

    /// Rule 6.
    fn missing_model(&mut self, index: usize, missing: MissingModel) {
        let config = self.nodes[index].config;
        let Some(NodeKind::Model {
            model_name: name, ..
        }) = config.map(|config| &config.kind)
        else {
            return;
        };
        let runs_it = |node: &DraftNode<'_>| {
            let kind = node.config.map(|config| &config.kind);
            matches!(kind, Some(NodeKind::Model { model_name, .. }) if *model_name == *name)
        };
        let is_unknown = matches!(missing, MissingModel::Unknown(_));
        if is_unknown && self.nodes[..index].iter().any(runs_it) {
            // Reported for the first of them.
            return;
        }
        let (key, found, expected, next) = match missing {
            MissingModel::Unknown(known) => (
                "model_name",
                format!("the model `{name}`, which is not there"),
                one_of("a model of model_config_list", &known),
                or_meant(name, &known, "add the model to model_config_list"),
            ),
            MissingModel::Version(versions) => {
                let versions: Vec<String> = versions.iter().map(ToString::to_string).collect();
                (
                    "version",
                    format!("a version that the model `{name}` does not have"),
                    one_of("a version that it has", &versions),
                    "change the version, or leave it out for the default one".to_owned(),
                )
            }
            MissingModel::NotAvailable(reason) => (
                "model_name",
                format!("the model `{name}`, which is not available: {reason}"),
                "a model that is available".to_owned(),
                "fix that first".to_owned(),
            ),
            // Reported as not validated.
            MissingModel::NotLooked { .. } => return,
        };
        self.error(
            index,
            PipelineRule::MissingModel,
            key,
            found,
            expected,
            next,
        );
    }

    /// Rule 7.
    fn settings(&mut self, index: usize) {
        let node = &self.nodes[index];
        let (auto, stateful) = (node.auto, node.stateful);
        if auto {
            self.error(
                index,
                PipelineRule::AutoModel,
                "model_name",
                "a model whose batch size or shape is auto".to_owned(),
                "a fixed shape, -1 or a range".to_owned(),
                "change batch_size or shape of the model, for example to -1".to_owned(),
            );
        }
        if stateful {
            self.error(
                index,
                PipelineRule::StatefulModel,
                "model_name",
                "a stateful model".to_owned(),
                "a model without state".to_owned(),
                "send requests to the stateful model directly".to_owned(),
            );
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
        let mut found = Vec::new();
        if let Some(input) = own {
            found.push((
                "demultiply_count",
                format!("the string input `{}` of a demultiplexer", input.name),
            ));
        }
        if let Some(input) = fed {
            found.push((
                "inputs",
                format!(
                    "the string input `{}`, fed by a request that is split",
                    input.name
                ),
            ));
        }
        for (key, found) in found {
            self.error(
                index,
                PipelineRule::SplitStrings,
                key,
                found,
                "numbers where there is a demultiply_count".to_owned(),
                "take the demultiply_count away".to_owned(),
            );
        }
    }

    /// Rules 9 and 10.
    fn metadata(&mut self, index: usize, error: &CustomError) {
        let (rule, found, expected) = match error {
            CustomError::Metadata(call, code) => (
                PipelineRule::MetadataCall,
                format!("{code} from `{call}`"),
                "0".to_owned(),
            ),
            CustomError::Handle(call) => (
                PipelineRule::MetadataHandle,
                format!("no list from `{call}`"),
                "a list of tensors".to_owned(),
            ),
            CustomError::Count(call, count) => (
                PipelineRule::MetadataCount,
                format!("{count} tensors from `{call}`"),
                "at least 1".to_owned(),
            ),
            // Reported before, where libraries are asked.
            CustomError::Library(_)
            | CustomError::NotOpen(_)
            | CustomError::Parameter(_)
            | CustomError::Initialize(_)
            | CustomError::Handler(_)
            | CustomError::NotLooked(_) => return,
        };
        let next = "see the node's params, and what the library prints".to_owned();
        self.error(index, rule, "library_name", found, expected, next);
    }

    /// Rules 11 and 12.
    fn split_outputs(&mut self, index: usize) {
        let node = &self.nodes[index];
        let (Some(count), Some(facts)) = (node.count, &node.facts) else {
            return;
        };
        for output in facts.outputs.clone() {
            let name = &output.name;
            let dims = &output.shape.0;
            if dims.len() < 2 {
                self.error(
                    index,
                    PipelineRule::Rank,
                    "demultiply_count",
                    format!("the output `{name}` of shape {}", output.shape),
                    "at least 2 dimensions in every output of a demultiplexer".to_owned(),
                    "take the demultiply_count away, or let the node give one dimension more"
                        .to_owned(),
                );
                continue;
            }
            if output.dtype == Some(DataType::String) {
                let place = self.nodes[index].place("demultiply_count").clone();
                let text = format!("the output `{name}` has strings, which cannot be split");
                self.warn(&place, text);
            }
            let Count::Fixed(count) = count else {
                continue;
            };
            if common(dims[0], Dim::Fixed(count)).is_none() {
                self.error(
                    index,
                    PipelineRule::CountMismatch,
                    "demultiply_count",
                    format!("{count}, and the output `{name}` of shape {}", output.shape),
                    format!("{}, as the first dimension says", dims[0]),
                    "make them equal, or set demultiply_count to -1".to_owned(),
                );
            } else if dims[0] != Dim::Fixed(count) {
                let place = self.nodes[index].place("demultiply_count").clone();
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
                PipelineRule::PlainGather,
                format!("`{name}`, which has no demultiply_count"),
            ),
            None => (
                PipelineRule::MissingGather,
                format!("`{name}`, which is no node"),
            ),
        };
        self.nodes[index].gathers = Gathers::Error;
        self.error(
            index,
            rule,
            "gather_from_node",
            found,
            one_of("a node with demultiply_count", &demultiplexers),
            or_meant(
                name,
                &demultiplexers,
                "change gather_from_node, or give that node a demultiply_count",
            ),
        );
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
            self.error(
                index,
                PipelineRule::OpenInput,
                "inputs",
                format!("no source for the input `{input}`"),
                "one for each input".to_owned(),
                format!("add {{\"{input}\": {{\"node_name\": …, \"data_item\": …}}}}"),
            );
        }
    }
}
