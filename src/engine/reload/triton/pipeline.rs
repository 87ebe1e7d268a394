//! Ensembles, and models of Triton's Python backend, as pipelines of a configuration file.

use std::path::Path;

use super::{file_of, read};
use crate::graph::OutlineField;

/// Name of the node that stands for the request.
const REQUEST: &str = "request";

/// Steps of an ensemble.
const STEP: &str = "ensemble_scheduling.step";

/// A pipeline that does what an ensemble does, or a model of the Python backend.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TritonPipeline {
    /// Its inputs.
    pub inputs: Vec<String>,
    /// Its nodes, one for each step.
    pub nodes: Vec<TritonStep>,
    /// Its outputs, and where they come from.
    pub outputs: Vec<(String, TritonSource)>,
}

/// A step of an ensemble.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TritonStep {
    /// Name of the node.
    pub name: String,
    /// Name of the model.
    pub model: String,
    /// Version of the model, if it is given.
    pub version: Option<u32>,
    /// Inputs of the model, and where they come from.
    pub inputs: Vec<(String, TritonSource)>,
    /// Outputs of the model.
    pub outputs: Vec<String>,
}

/// Output of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TritonSource {
    /// Name of the node.
    pub node: String,
    /// Name of the output.
    pub output: String,
}

/// Parameters of a model of the Python backend, with their texts. Blocks.
pub fn triton_parameters(base_path: &Path) -> Vec<(String, String)> {
    let Some(Ok(fields)) = read(&file_of(base_path)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut key = None;
    for field in &fields {
        match (&*field.path, field.value()) {
            ("parameters.key", value) => key = value,
            ("parameters.value.string_value", Some(value)) => {
                found.extend(key.take().map(|key| (key.to_owned(), value.to_owned())));
            }
            _ => {}
        }
    }
    found
}

/// Reads the pipeline of an ensemble, or of a model of the Python backend with one answer to each request; `None` if
/// that is not all there. Blocks.
pub fn triton_pipeline(name: &str, base_path: &Path) -> Option<TritonPipeline> {
    let fields = read(&file_of(base_path))?.ok()?;
    let names = |path: &'static str| {
        let named = fields.iter().filter(move |field| field.path == path);
        named.filter_map(|field| field.value().map(str::to_owned))
    };
    let inputs: Vec<String> = names("input.name").collect();
    let outputs: Vec<String> = names("output.name").collect();
    if inputs.is_empty() || outputs.is_empty() {
        return None;
    }
    let steps = steps(&fields)?;
    if steps.is_empty() {
        let is_streamed = names("model_transaction_policy.decoupled").any(|value| value == "true");
        return (!is_streamed).then(|| of_model(name, inputs, outputs));
    }
    pipeline(inputs, &outputs, steps)
}

/// A step with the tensors of the ensemble that it takes and gives.
#[derive(Debug, Default)]
struct Step {
    model: Option<String>,
    version: Option<u32>,
    /// Names within the model, and those within the ensemble.
    inputs: Vec<(String, String)>,
    outputs: Vec<(String, String)>,
}

/// Reads the steps of an ensemble; none if it is no ensemble.
fn steps(fields: &[OutlineField]) -> Option<Vec<Step>> {
    let mut steps: Vec<(usize, Step)> = Vec::new();
    let mut key = None;
    for field in fields {
        let Some(name) = field.path.strip_prefix(STEP) else {
            continue;
        };
        let (Some(name), [_, number, ..]) = (name.strip_prefix('.'), &field.chain[..]) else {
            continue;
        };
        if steps.last().is_none_or(|(last, _)| last != number) {
            steps.push((*number, Step::default()));
        }
        let (_, step) = steps.last_mut()?;
        match name {
            "model_name" => step.model = Some(field.value()?.to_owned()),
            "model_version" => step.version = field.value()?.parse().ok(),
            "input_map.key" | "output_map.key" => key = field.value(),
            "input_map.value" => step
                .inputs
                .push((key.take()?.to_owned(), field.value()?.to_owned())),
            "output_map.value" => step
                .outputs
                .push((key.take()?.to_owned(), field.value()?.to_owned())),
            _ => {}
        }
    }
    Some(steps.into_iter().map(|(_, step)| step).collect())
}

/// Makes the pipeline of a model alone.
fn of_model(name: &str, inputs: Vec<String>, outputs: Vec<String>) -> TritonPipeline {
    let source = |node: &str, output: &String| TritonSource {
        node: node.to_owned(),
        output: output.clone(),
    };
    let node = format!("{name}_node");
    let taken = inputs.iter().map(|it| (it.clone(), source(REQUEST, it)));
    let given = outputs.iter().map(|it| (it.clone(), source(&node, it)));
    TritonPipeline {
        outputs: given.collect(),
        nodes: vec![TritonStep {
            inputs: taken.collect(),
            name: node.clone(),
            model: name.to_owned(),
            version: None,
            outputs,
        }],
        inputs,
    }
}

/// Connects the steps; `None` if a tensor comes from nowhere.
fn pipeline(inputs: Vec<String>, outputs: &[String], steps: Vec<Step>) -> Option<TritonPipeline> {
    let mut names: Vec<String> = Vec::new();
    for step in &steps {
        let model = step.model.as_deref()?;
        let count = steps[..names.len()].iter();
        let count = count
            .filter(|other| other.model.as_deref() == Some(model))
            .count();
        names.push(match count {
            0 => format!("{model}_node"),
            count => format!("{model}_node_{}", count + 1),
        });
    }
    let source = |tensor: &String| -> Option<TritonSource> {
        if inputs.contains(tensor) {
            return Some(TritonSource {
                node: REQUEST.to_owned(),
                output: tensor.clone(),
            });
        }
        let mut given = names.iter().zip(&steps).flat_map(|(name, step)| {
            let outputs = step.outputs.iter();
            outputs.map(move |(output, tensor)| (name, output, tensor))
        });
        let (node, output, _) = given.find(|(_, _, given)| *given == tensor)?;
        Some(TritonSource {
            node: node.clone(),
            output: output.clone(),
        })
    };
    let outputs = outputs.iter().map(|it| Some((it.clone(), source(it)?)));
    let outputs = outputs.collect::<Option<_>>()?;
    let nodes = names.iter().zip(&steps).map(|(name, step)| {
        let taken = step.inputs.iter();
        let taken = taken.map(|(input, tensor)| Some((input.clone(), source(tensor)?)));
        Some(TritonStep {
            name: name.clone(),
            model: step.model.clone()?,
            version: step.version,
            inputs: taken.collect::<Option<_>>()?,
            outputs: step
                .outputs
                .iter()
                .map(|(output, _)| output.clone())
                .collect(),
        })
    });
    Some(TritonPipeline {
        nodes: nodes.collect::<Option<_>>()?,
        outputs,
        inputs: inputs.clone(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{TritonPipeline, triton_parameters, triton_pipeline};

    fn read(text: &str) -> (Option<TritonPipeline>, Vec<(String, String)>) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.pbtxt"), text).unwrap();
        (
            triton_pipeline("m", folder.path()),
            triton_parameters(folder.path()),
        )
    }

    /// Writes a pipeline in a line for each node.
    fn form(text: &str) -> String {
        let Some(pipeline) = read(text).0 else {
            return "none".to_owned();
        };
        let listed = |of: &[(String, super::TritonSource)]| {
            let of = of.iter();
            let of = of.map(|(name, source)| format!("{name}={}.{}", source.node, source.output));
            of.collect::<Vec<_>>().join(" ")
        };
        let mut lines = vec![pipeline.inputs.join(" ")];
        lines.extend(pipeline.nodes.iter().map(|node| {
            let (inputs, outputs) = (listed(&node.inputs), node.outputs.join(" "));
            let version = node.version.map_or(String::new(), |it| format!(":{it}"));
            format!(
                "{} {}{version} ({inputs}) -> {outputs}",
                node.name, node.model
            )
        }));
        lines.push(listed(&pipeline.outputs));
        lines.join("\n")
    }

    const ENDS: &str = "input [ { name: 'IN' } ] output [ { name: 'SUM' }, { name: 'B' } ]\n";

    #[test]
    fn steps_are_nodes() {
        let steps = r#"ensemble_scheduling { step [
            { input_map { key: "RAW" value: "IN" } output_map { key: "A" value: "a_t" }
              output_map { key: "B" value: "B" } model_name: "pre" model_version: -1 },
            { model_name: "simple" model_version: 2 input_map { key: "INPUT0" value: "a_t" }
              input_map: { key: "INPUT1" value: "B" } output_map { key: "OUT" value: "mid" } } ]
            step { model_name: "simple" input_map { key: "INPUT0" value: "mid" } output_map { key: "OUT" value: "SUM" } } }"#;
        insta::assert_snapshot!(form(&format!("{ENDS}{steps}")), @"
        IN
        pre_node pre (RAW=request.IN) -> A B
        simple_node simple:2 (INPUT0=pre_node.A INPUT1=pre_node.B) -> OUT
        simple_node_2 simple (INPUT0=simple_node.OUT) -> OUT
        SUM=simple_node_2.OUT B=pre_node.B
        ");
        let lost = steps.replace("\"mid\" } output_map", "\"nowhere\" } output_map");
        assert_eq!(form(&format!("{ENDS}{lost}")), "none");
    }

    #[test]
    fn a_model_alone_is_a_node_unless_it_streams() {
        let text = format!("{ENDS} parameters {{ key: 'factor' value: {{ string_value: '10' }} }}");
        insta::assert_snapshot!(form(&text), @"
        IN
        m_node m (IN=request.IN) -> SUM B
        SUM=m_node.SUM B=m_node.B
        ");
        assert_eq!(read(&text).1, [("factor".to_owned(), "10".to_owned())]);
        let streams = format!("{ENDS} model_transaction_policy {{ decoupled: true }}");
        assert_eq!((&*form(&streams), &*form("")), ("none", "none"));
    }
}
