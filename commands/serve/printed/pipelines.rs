//! Pipelines of the file in place of ensembles, and of models of Triton's Python backend.

use std::path::PathBuf;

use ovms::engine::reload::{
    TritonPipeline, TritonSource, TritonStep, triton_parameters, triton_pipeline,
};
use serde_json::json;

use super::{Entry, object};

/// A model of a repository that has no entry among the models.
#[derive(Debug)]
pub(super) struct Unserved {
    pub(super) name: String,
    pub(super) base_path: PathBuf,
    /// Marks a model of Triton's Python backend; an ensemble otherwise.
    pub(super) is_python: bool,
    /// Reason why no server serves it.
    pub(super) reason: String,
}

/// Entries of pipelines, and of the handlers of their nodes.
#[derive(Debug, Default)]
pub(super) struct Pipelines {
    pub(super) pipelines: Vec<String>,
    pub(super) handlers: Vec<String>,
    /// Next steps for handlers, and reasons of those that have no pipeline.
    pub(super) warnings: Vec<String>,
}

/// Writes the pipelines of all that can be one: its nodes are models of the file, or handlers in Python.
pub(super) fn write(unserved: &[Unserved], models: &[String]) -> Pipelines {
    let found: Vec<Option<TritonPipeline>> = unserved
        .iter()
        .map(|it| triton_pipeline(&it.name, &it.base_path))
        .collect();
    let is_handler = |name: &str| {
        let mut all = unserved.iter().zip(&found);
        all.any(|(it, found)| it.is_python && it.name == name && found.is_some())
    };
    let mut written = Pipelines::default();
    for (it, pipeline) in unserved.iter().zip(&found) {
        let name = &it.name;
        let is_known = |step: &TritonStep| models.contains(&step.model) || is_handler(&step.model);
        let Some(pipeline) = pipeline.as_ref().filter(|it| it.nodes.iter().all(is_known)) else {
            let reason = &it.reason;
            written
                .warnings
                .push(format!("`{name}` is not in it: {reason}"));
            continue;
        };
        written.pipelines.push(text(name, pipeline, |model| {
            let of_handler = unserved.iter().find(|it| it.is_python && it.name == model);
            of_handler.map(|it| triton_parameters(&it.base_path))
        }));
        if it.is_python {
            written.handlers.push(handler(name));
            written.warnings.push(format!(
                "`{name}` is a pipeline in it, and its handler has to be written: `ovms pipeline new \
                 --python-node {name}` in the folder of the file makes {}, for the code of model.py (docs/triton.md)",
                handler_file(name)
            ));
        }
    }
    written
}

fn handler_file(name: &str) -> String {
    format!("{name}/{name}.py")
}

fn handler(name: &str) -> String {
    let entry: Entry = vec![
        ("name".to_owned(), json!(name)),
        ("base_path".to_owned(), json!(handler_file(name))),
    ];
    object(&entry)
}

/// Writes a pipeline, with a line for each node; `params` has those of a model that is a handler.
fn text(
    name: &str,
    pipeline: &TritonPipeline,
    params: impl Fn(&str) -> Option<Vec<(String, String)>>,
) -> String {
    let nodes = pipeline.nodes.iter();
    let nodes: Vec<String> = nodes.map(|it| node(it, params(&it.model))).collect();
    let outputs = connections(&pipeline.outputs);
    format!(
        "{{\"name\": {}, \"inputs\": {}, \"nodes\": [\n            {}\n        ], \"outputs\": {outputs}}}",
        json!(name),
        json!(pipeline.inputs),
        nodes.join(",\n            ")
    )
}

fn node(step: &TritonStep, params: Option<Vec<(String, String)>>) -> String {
    let name = json!(step.name);
    let model = json!(step.model);
    let of = match params {
        None => {
            let version = step
                .version
                .map(|version| format!(", \"version\": {version}"));
            let version = version.unwrap_or_default();
            format!("\"type\": \"DL model\", \"model_name\": {model}{version}")
        }
        Some(params) => {
            let params: Vec<String> = params
                .iter()
                .map(|(key, value)| format!("{}: {}", json!(key), json!(value)))
                .collect();
            let params = match params.is_empty() {
                true => String::new(),
                false => format!(", \"params\": {{{}}}", params.join(", ")),
            };
            format!("\"type\": \"custom\", \"library_name\": {model}{params}")
        }
    };
    let outputs = step.outputs.iter().map(|name| {
        let name = json!(name);
        format!("{{\"data_item\": {name}, \"alias\": {name}}}")
    });
    let outputs: Vec<String> = outputs.collect();
    format!(
        "{{\"name\": {name}, {of}, \"inputs\": {}, \"outputs\": [{}]}}",
        connections(&step.inputs),
        outputs.join(", ")
    )
}

/// Writes where inputs of a node, or outputs of a pipeline, come from.
fn connections(sources: &[(String, TritonSource)]) -> String {
    let sources = sources.iter().map(|(name, source)| {
        format!(
            "{{{}: {{\"node_name\": {}, \"data_item\": {}}}}}",
            json!(name),
            json!(source.node),
            json!(source.output)
        )
    });
    format!("[{}]", sources.collect::<Vec<_>>().join(", "))
}
