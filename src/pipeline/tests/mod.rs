//! Requests on their way: what becomes ready when, splitting and gathering, and random pipelines
//! against a reading of them that knows no schedule.

mod empty;
mod flows;
mod property;
mod random;
mod schedules;
mod splitting;

use std::{path::Path, sync::Arc};

use super::{
    check,
    plan::PipelinePlan,
    sources::{CustomError, CustomFacts, MissingModel, ModelFacts, Sources, TensorSource},
};
use crate::{
    config::{Defaults, NodeConfig, PipelineConfig, parse},
    tensor::{DataType, Dim, Layout, PartialShape, Tensor},
};

/// Custom nodes of which the library says all: `1>2` takes one tensor of any two dimensions, `a`,
/// and gives one, `z`, of three if its outputs are split; see [`Any::shape`].
struct Any;

impl Any {
    /// Makes a tensor of so many open dimensions.
    fn tensor(name: &str, rank: usize) -> TensorSource {
        TensorSource {
            name: name.to_owned(),
            dtype: Some(DataType::I64),
            shape: PartialShape(vec![Dim::Any; rank]),
            layout: Layout::unspecified(rank),
        }
    }
}

impl Sources for Any {
    fn name_taken(&self, _name: &str) -> bool {
        false
    }

    fn model(&self, _name: &str, _version: Option<i64>) -> Result<ModelFacts, MissingModel> {
        Err(MissingModel::Unknown(Vec::new()))
    }

    /// Reads ranks from the name of the library: those of `a`, `b`, … before `>`, that of `z`
    /// behind it.
    fn custom(&self, _node: &NodeConfig, library: &str) -> Result<CustomFacts, CustomError> {
        let (inputs, output) = library.split_once('>').unwrap();
        let rank = |digit: char| digit.to_digit(10).unwrap() as usize;
        let inputs = inputs.chars().zip(["a", "b", "c", "d"]);
        Ok(CustomFacts {
            inputs: inputs
                .map(|(digit, name)| Self::tensor(name, rank(digit)))
                .collect(),
            outputs: vec![Self::tensor("z", rank(output.chars().next().unwrap()))],
            is_open: false,
        })
    }
}

/// Makes a plan of nodes written `name library source,source [split n] [gather x]`, where a source
/// is the name of a node. The pipeline has one input, and the outputs of the nodes in `outputs`.
pub(super) fn plan(split: Option<i32>, nodes: &[&str], outputs: &[&str]) -> Arc<PipelinePlan> {
    let source = |node: &str| {
        let item = if node == "request" { "i" } else { "z" };
        format!(r#"{{"node_name": "{node}", "data_item": "{item}"}}"#)
    };
    let nodes = nodes.iter().map(|text| {
        let mut words = text.split(' ');
        let mut word = || words.next().unwrap_or_default();
        let (name, library, sources) = (word(), word(), word());
        let sources = sources.split(',').zip(["a", "b", "c", "d"]);
        let inputs: Vec<String> = sources
            .map(|(from, input)| format!(r#"{{"{input}": {}}}"#, source(from)))
            .collect();
        let mut settings = Vec::new();
        while let (key, Some(value)) = (words.next(), words.next()) {
            match key {
                Some("split") => {
                    settings.push(format!(r#", "demultiply_count": {value}"#));
                }
                _ => settings.push(format!(r#", "gather_from_node": "{value}""#)),
            }
        }
        format!(
            r#"{{"name": "{name}", "type": "custom", "library_name": "{library}",
                "inputs": [{}], "outputs": [{{"data_item": "z", "alias": "z"}}]{}}}"#,
            inputs.join(", "),
            settings.concat()
        )
    });
    let nodes: Vec<String> = nodes.collect();
    let outputs: Vec<String> = outputs
        .iter()
        .enumerate()
        .map(|(index, node)| format!(r#"{{"o{index}": {}}}"#, source(node)))
        .collect();
    let split = split.map_or(String::new(), |n| format!(r#", "demultiply_count": {n}"#));
    let json = format!(
        r#"{{"model_config_list": [], "pipeline_config_list": [{{"name": "p", "inputs": ["i"],
            "nodes": [{}], "outputs": [{}]{split}}}]}}"#,
        nodes.join(", "),
        outputs.join(", ")
    );
    Arc::new(
        check(&read(&json), &Any)
            .unwrap_or_else(|f| panic!("{f}"))
            .plan,
    )
}

fn read(json: &str) -> PipelineConfig {
    let parsed = parse(
        json.as_bytes(),
        Path::new("/config.json"),
        &Defaults::default(),
    );
    parsed.unwrap().pipelines.remove(0)
}

/// Makes a tensor of whole numbers that count up from one.
fn numbers(shape: &[usize], first: i64) -> Tensor {
    let count = shape.iter().product::<usize>();
    let values = (first..).take(count);
    integers(shape, values)
}

fn integers(shape: &[usize], values: impl IntoIterator<Item = i64>) -> Tensor {
    let bytes: Vec<u8> = values.into_iter().flat_map(i64::to_le_bytes).collect();
    Tensor::new(DataType::I64, shape.to_vec(), bytes.into()).unwrap()
}

fn values(tensor: &Tensor) -> Vec<i64> {
    let (chunks, _) = tensor.data().as_chunks::<8>();
    chunks
        .iter()
        .map(|chunk| i64::from_le_bytes(*chunk))
        .collect()
}
