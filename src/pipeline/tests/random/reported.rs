//! A random pipeline as the configuration and its models and libraries report it.

use super::{Node, Port, Random};
use crate::{
    config::{Connection, NodeConfig, NodeKind, NodeOutput, PipelineConfig},
    pipeline::sources::{
        CustomError, CustomFacts, MissingModel, ModelFacts, Sources, TensorSource,
    },
    tensor::{DataType, Dim, Layout, PartialShape},
};

/// The name of a node.
fn name(node: usize) -> String {
    match node {
        0 => "request".to_owned(),
        node => format!("n{node}"),
    }
}

impl Random {
    /// Writes the pipeline as the configuration file's reader gives it.
    pub(in crate::pipeline::tests) fn config(&self) -> PipelineConfig {
        let connection = |name: String, (node, output): Port, convert: bool| Connection {
            name,
            node_name: self::name(node),
            data_item: format!("z{output}"),
            convert,
            place: Default::default(),
        };
        let count = |node: &Node| {
            let split = node.split?;
            Some(if split == 0 { -1 } else { split as i32 })
        };
        let nodes = self
            .nodes
            .iter()
            .enumerate()
            .skip(1)
            .map(|(index, node)| NodeConfig {
                name: name(index),
                kind: if node.is_model {
                    NodeKind::Model {
                        model_name: name(index),
                        version: None,
                    }
                } else {
                    NodeKind::Custom {
                        library_name: name(index),
                        params: Vec::new(),
                    }
                },
                inputs: node
                    .sources
                    .iter()
                    .zip(&node.converts)
                    .enumerate()
                    .map(|(input, (port, convert))| {
                        connection(format!("i{input}"), *port, convert.is_some())
                    })
                    .collect(),
                outputs: (0..node.shapes.len())
                    .map(|output| NodeOutput {
                        data_item: format!("out{output}"),
                        alias: format!("z{output}"),
                        place: Default::default(),
                    })
                    .collect(),
                demultiply_count: count(node),
                gather_from_node: node.gathers.map(name),
                places: Default::default(),
            });
        let outputs = self.outputs.iter().enumerate();
        PipelineConfig {
            name: "random".to_owned(),
            inputs: (0..self.request.len())
                .map(|input| format!("z{input}"))
                .collect(),
            nodes: nodes.collect(),
            outputs: outputs
                .map(|(label, port)| connection(format!("o{label}"), *port, false))
                .collect(),
            demultiply_count: count(&self.nodes[0]),
            empty_results: self.empty_results,
            workers: Default::default(),
            places: Default::default(),
        }
    }

    fn facts(&self, text: &str) -> Option<CustomFacts> {
        let node: usize = text.strip_prefix('n')?.parse().ok()?;
        let described = self.nodes.get(node)?;
        let dim = |length: usize| match described.fixed {
            true => Dim::Fixed(length),
            false => Dim::Any,
        };
        let tensor = |name: String, parts: Option<usize>, (dtype, shape, letters): Part| {
            let parts = parts.map(|count| if count == 0 { Dim::Any } else { dim(count) });
            let letters = letters.map(|letters| match parts {
                Some(_) => format!("?{letters}"),
                None => letters,
            });
            let shape = shape.iter().copied().map(dim);
            let dims: Vec<Dim> = parts.into_iter().chain(shape).collect();
            TensorSource {
                name,
                dtype: Some(dtype),
                layout: letters.map_or_else(
                    || Layout::unspecified(dims.len()),
                    |letters| Layout::parse(&letters).unwrap(),
                ),
                shape: PartialShape(dims),
            }
        };
        let parts = described.gathers.and_then(|from| self.nodes[from].split);
        let inputs = described.sources.iter().zip(&described.converts);
        let inputs = inputs
            .enumerate()
            .map(|(input, ((from, output), convert))| {
                let (mut dtype, mut shape, mut letters) = self.part(*from, *output);
                if let Some(convert) = convert {
                    dtype = convert.dtype;
                    if convert.reverse {
                        shape.reverse();
                        letters = letters.map(|letters| letters.chars().rev().collect());
                    }
                }
                tensor(format!("i{input}"), parts, (dtype, shape, letters))
            });
        let outputs = (0..described.shapes.len()).map(|output| {
            let part = self.part(node, output);
            tensor(format!("out{output}"), described.split, part)
        });
        Some(CustomFacts {
            inputs: inputs.collect(),
            outputs: outputs.collect(),
            is_open: false,
        })
    }

    /// Returns type, shape and letters of a part of an output.
    fn part(&self, node: usize, output: usize) -> Part {
        let node = &self.nodes[node];
        let shape = node.shapes[output].clone();
        let letters = node.named.then(|| "HWC"[..shape.len()].to_owned());
        (node.dtype, shape, letters)
    }
}

/// Type, shape and letters of the axes.
type Part = (DataType, Vec<usize>, Option<String>);

impl Sources for Random {
    fn name_taken(&self, _name: &str) -> bool {
        false
    }

    fn model(&self, name: &str, _version: Option<i64>) -> Result<ModelFacts, MissingModel> {
        let facts = self.facts(name).ok_or(MissingModel::Unknown(Vec::new()))?;
        Ok(ModelFacts::of(facts.inputs, facts.outputs))
    }

    fn custom(&self, _node: &NodeConfig, library: &str) -> Result<CustomFacts, CustomError> {
        self.facts(library).ok_or(CustomError::Library(Vec::new()))
    }
}
