//! Connections of nodes: rules 15 to 23.

use super::draft::{Draft, Gathers, Link, one_of, or_meant, text};
use crate::{
    config::Connection,
    pipeline::{
        adapt,
        dims::{agree, common, common_shape, letters},
        plan::Count,
        rules::{
            COUNT_MISMATCH, DUPLICATE_INPUT, MISSING_INPUT, MISSING_NODE, MISSING_OUTPUT,
            MISSING_SOURCE, PRECISION, RESPONSE_AS_SOURCE, SHAPE, STRINGS,
        },
        sources::TensorSource,
    },
    tensor::{DataType, Dim},
};

impl Draft<'_> {
    /// Validates the connections of a node.
    pub(super) fn connections(&mut self, node: usize) {
        for index in 0..self.nodes[node].connections.len() {
            let connection = &self.nodes[node].connections[index];
            let source = self.source(node, connection);
            let input = self.target(node, index, connection);
            let Some(source) = source else {
                continue;
            };
            let link = Link {
                connection: index,
                source,
                input,
                output: self.item(node, source, connection),
            };
            self.nodes[node].links.push(link);
            let idle = if source == 0 {
                Some("the request is sent as the node takes it")
            } else if self.nodes[node].is_open() {
                Some("a Python node takes what comes as it is")
            } else {
                None
            };
            if let Some(why) = idle.filter(|_| connection.convert) {
                let name = &connection.name;
                let text = format!("convert has no effect on the input `{name}`: {why}");
                self.warn(&connection.place, text);
            }
            self.matching(node, link);
        }
    }

    /// Rules 15 and 16.
    fn source(&mut self, node: usize, connection: &Connection) -> Option<usize> {
        let last = self.nodes.len() - 1;
        let name = connection.node_name.as_str();
        let (rule, found) = match self.names.get(name).copied() {
            Some(source) if source == last => (RESPONSE_AS_SOURCE, "`response`".to_owned()),
            Some(source) => return Some(source),
            None => (MISSING_NODE, format!("`{name}`, which is no node")),
        };
        let known: Vec<&str> = self.nodes[..last].iter().map(|node| node.name).collect();
        let expected = one_of("a node that gives something", &known);
        let next = or_meant(name, &known, "change node_name");
        self.error_at(node, rule, connection, (found, expected), next);
        None
    }

    /// Rules 17 and 18. Returns which input of the node is meant.
    fn target(&mut self, node: usize, index: usize, connection: &Connection) -> Option<usize> {
        let name = &connection.name;
        let mut input = None;
        if let Some(facts) = &self.nodes[node].facts
            && !facts.is_open
        {
            input = facts.inputs.iter().position(|input| input.name == *name);
            if input.is_none() {
                let known: Vec<&str> = facts.inputs.iter().map(|i| i.name.as_str()).collect();
                let expected = one_of("an input of what it runs", &known);
                let next = or_meant(name, &known, "take it away, or rename it");
                let found = format!("the input `{name}`");
                self.error_at(node, MISSING_INPUT, connection, (found, expected), next);
            }
        }
        let mut before = self.nodes[node].connections[..index].iter();
        if before.any(|before| before.name == *name) {
            let found = format!("`{name}` again");
            let expected = "one source for each input";
            let next = "take one of them away";
            self.error_at(node, DUPLICATE_INPUT, connection, (found, expected), next);
        }
        input
    }

    /// Rules 19 and 20. Returns which output of the source is meant.
    fn item(&mut self, node: usize, source: usize, connection: &Connection) -> Option<usize> {
        let item = connection.data_item.as_str();
        let from = &self.nodes[source];
        let Some(config) = from.config else {
            let inputs = &self.config.inputs;
            let found = inputs.iter().position(|input| input == item);
            if found.is_none() {
                let expected = one_of("an input of the pipeline", inputs);
                let next = or_meant(item, inputs, "add it to the inputs of the pipeline");
                let found = format!("the data_item `{item}` of `request`");
                self.error_at(node, MISSING_SOURCE, connection, (found, expected), next);
            }
            return found;
        };
        let name = from.name;
        let Some(output) = config.outputs.iter().rev().find(|o| o.alias == item) else {
            let known: Vec<&str> = config.outputs.iter().map(|o| o.alias.as_str()).collect();
            let expected = one_of("an alias of its outputs", &known);
            let next = or_meant(item, &known, "add it to the outputs of that node");
            let found = format!("the data_item `{item}` of `{name}`");
            self.error_at(node, MISSING_SOURCE, connection, (found, expected), next);
            return None;
        };
        let facts = from.facts.as_ref()?;
        if facts.is_open {
            return config.outputs.iter().rposition(|o| o.alias == item);
        }
        let real = &output.data_item;
        let index = facts.outputs.iter().position(|output| output.name == *real);
        if index.is_none() {
            let known: Vec<&str> = facts.outputs.iter().map(|o| o.name.as_str()).collect();
            let expected = one_of("an output of what that node runs", &known);
            let next = or_meant(real, &known, "change data_item in the outputs of that node");
            let found = format!("the alias `{item}` of `{name}`, which stands for `{real}`");
            self.error_at(node, MISSING_OUTPUT, connection, (found, expected), next);
        }
        index
    }

    /// Rules 21 to 23, and 12 where a node gathers.
    fn matching(&mut self, node: usize, link: Link) {
        let (Some(input), Some(_)) = (link.input, link.output) else {
            return;
        };
        let Some(input) = self.nodes[node].input(input).cloned() else {
            return;
        };
        let Some(taken) = self.gathered(node, link, &input) else {
            return;
        };
        let source = &self.nodes[link.source];
        let split = source.count.is_some();
        let Some(output) = link.output.and_then(|output| source.output(output)) else {
            return;
        };
        let output = output.clone();
        let name = source.name;
        let connection = self.connection(node, link);
        let from = format!("{} from `{name}`", text(&output));
        let dims = &output.shape.0[..];
        if split && dims.len() < 2 {
            // Checked as an output of a demultiplexer.
            return;
        }
        let convert = connection.convert;
        let gathers = taken.len() < input.shape.0.len();
        let axes = adapt::axes(&output, split, &input, gathers).filter(|_| convert);
        let mut given = dims[usize::from(split)..].to_vec();
        if let Some(axes) = &axes {
            given = axes.iter().map(|axis| given[*axis]).collect();
        }
        if common_shape(taken, &given).is_none() {
            let mut expected = input.shape.to_string();
            if gathers {
                expected.push_str(", of which the first dimension is what is gathered");
            }
            let mut found = from.clone();
            if split {
                found.push_str(", of which the first dimension is split off");
            }
            if axes.is_some() {
                found = format!(
                    "{found}, converted from {} to {}",
                    output.layout, input.layout
                );
            }
            let next = "connect an output of the same shape, or put a node between";
            self.error_at(node, SHAPE, connection, (found, expected), next);
        }
        let strings = [&input, &output]
            .iter()
            .any(|tensor| tensor.dtype == Some(DataType::String));
        if input.dtype != output.dtype && (strings || !convert) {
            let expected = text(&input);
            let next = match (strings, input.dtype.and(output.dtype)) {
                (false, Some(_)) => {
                    "connect an output of the same type, put a node between, or set convert to \
                     true in the connection"
                }
                _ => "connect an output of the same type, or put a node between",
            };
            self.error_at(node, PRECISION, connection, (from, expected), next);
        }
        if strings {
            let found = format!("strings from `{name}`");
            let expected = "numbers between nodes";
            let next = "connect strings to the request or the response only";
            self.error_at(node, STRINGS, connection, (found, expected), next);
        }
        let rank = |tensor: &TensorSource| letters(&tensor.layout, tensor.shape.0.len());
        let ours = &rank(&input)[input.shape.0.len() - taken.len()..];
        let theirs = &rank(&output)[usize::from(split)..];
        if axes.is_none() && ours.len() == theirs.len() && !agree(ours, theirs) {
            let why = if convert {
                "they have not the same axes, so that nothing is transposed"
            } else {
                "axes are not transposed"
            };
            let text = format!(
                "the input has the layout {}, what comes from `{name}` has {}; {why}",
                input.layout, output.layout
            );
            self.warn(&connection.place, text);
        }
    }

    /// Returns the dimensions of an input without the one that is gathered.
    fn gathered<'t>(
        &mut self,
        node: usize,
        link: Link,
        input: &'t TensorSource,
    ) -> Option<&'t [Dim]> {
        let dims = &input.shape.0[..];
        let from = match self.nodes[node].gathers {
            Gathers::Nothing => return Some(dims),
            Gathers::Error => return None,
            Gathers::From(from) => from,
        };
        let count = self.nodes[from].count;
        let connection = self.connection(node, link);
        let name = &input.name;
        let Some((first, rest)) = dims.split_first() else {
            let found = format!("the input `{name}` without dimensions");
            let expected = "a first dimension, for what is gathered";
            let next = "take gather_from_node away, or change the model";
            self.error_at(node, SHAPE, connection, (found, expected), next);
            return None;
        };
        match (count, first) {
            (Some(Count::Fixed(count)), first) if common(*first, Dim::Fixed(count)).is_none() => {
                let found = format!("the input `{name}` of shape {}", input.shape);
                let expected = format!(
                    "{count} in front: as many as `{}` gives",
                    self.nodes[from].name
                );
                let next = "make the first dimension and demultiply_count equal";
                self.error_at(node, COUNT_MISMATCH, connection, (found, expected), next);
            }
            (Some(Count::Fixed(count)), Dim::Any | Dim::Range(..)) => {
                let text =
                    format!("the input `{name}` takes {first} parts, and is always given {count}");
                self.warn(&connection.place, text);
            }
            (Some(Count::Dynamic), Dim::Fixed(_) | Dim::Range(..)) => {
                let text = format!(
                    "requests fail where `{}` gives another number of parts than {first}, which \
                     the input `{name}` takes",
                    self.nodes[from].name
                );
                self.warn(&connection.place, text);
            }
            _ => {}
        }
        Some(rest)
    }
}
