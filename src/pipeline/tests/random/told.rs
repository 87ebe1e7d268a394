//! A random pipeline as the configuration and its models and libraries tell it.

use super::{Node, Port, Random};
use crate::{
    config::{Connection, NodeConfig, NodeKind, NodeOutput, PipelineConfig},
    pipeline::{CustomFacts, CustomFault, MissingModel, ModelFacts, NodeTensor, Sources},
    servable::{ServableInfo, TensorInfo},
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
        let connection = |name: String, (node, output): Port| Connection {
            name,
            node_name: self::name(node),
            data_item: format!("z{output}"),
            convert: false,
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
                    .enumerate()
                    .map(|(input, port)| connection(format!("i{input}"), *port))
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
                .map(|(label, port)| connection(format!("o{label}"), *port))
                .collect(),
            demultiply_count: count(&self.nodes[0]),
            empty_results: self.empty_results,
            places: Default::default(),
        }
    }

    fn facts(&self, text: &str) -> Option<CustomFacts> {
        let node: usize = text.strip_prefix('n')?.parse().ok()?;
        let described = self.nodes.get(node)?;
        let tensor = |name: String, parts: Option<usize>, shape: &[usize]| {
            let dim = |length: usize| {
                if described.fixed {
                    Dim::Fixed(length)
                } else {
                    Dim::Any
                }
            };
            let parts = parts.map(|count| if count == 0 { Dim::Any } else { dim(count) });
            let dims: Vec<Dim> = parts
                .into_iter()
                .chain(shape.iter().copied().map(dim))
                .collect();
            NodeTensor {
                name,
                dtype: Some(DataType::I64),
                layout: Layout::unspecified(dims.len()),
                shape: PartialShape(dims),
            }
        };
        let parts = described.gathers.and_then(|from| self.nodes[from].split);
        let inputs = described.sources.iter().enumerate();
        let outputs = described.shapes.iter().enumerate();
        Some(CustomFacts {
            inputs: inputs
                .map(|(input, (from, output))| {
                    tensor(
                        format!("i{input}"),
                        parts,
                        &self.nodes[*from].shapes[*output],
                    )
                })
                .collect(),
            outputs: outputs
                .map(|(output, shape)| tensor(format!("out{output}"), described.split, shape))
                .collect(),
        })
    }
}

impl Sources for Random {
    fn name_taken(&self, _name: &str) -> bool {
        false
    }

    fn model(&self, name: &str, _version: Option<i64>) -> Result<ModelFacts, MissingModel> {
        let facts = self.facts(name).ok_or(MissingModel::Unknown(Vec::new()))?;
        let infos = |tensors: Vec<NodeTensor>| {
            let info = |(port, tensor): (usize, NodeTensor)| TensorInfo {
                name: tensor.name,
                dtype: DataType::I64,
                shape: tensor.shape,
                layout: tensor.layout,
                port,
            };
            tensors.into_iter().enumerate().map(info).collect()
        };
        Ok(ModelFacts {
            info: ServableInfo::new(infos(facts.inputs), infos(facts.outputs)),
            stateful: false,
            auto: false,
        })
    }

    fn custom(
        &self,
        _node: &str,
        library: &str,
        _params: &[(String, String)],
    ) -> Result<CustomFacts, CustomFault> {
        self.facts(library).ok_or(CustomFault::Library(Vec::new()))
    }
}
