//! Pipeline of a configuration file, with what it uses.

use std::path::Path;

use ovms::{
    client::{ModelMetadata, TensorMetadata},
    config::{self, FileConfig, NodeKind, PipelineConfig},
    engine::Servable,
    pipeline::{PipelineDefinition, PipelinePlan, python::is_handler},
    servable::TensorInfo,
    tensor::DataType,
};

use crate::{
    error::{Failure, FailureKind},
    graph,
    local::{self, LocalServable},
    pipeline::unknown,
    serve::files,
};

/// Name of the datatype of a tensor that no node decides.
const OPEN_TYPE: &str = "UNDEFINED";

/// Pipeline that is ready to run.
pub(super) type LocalPipeline = LocalServable<PipelineDefinition>;

/// Reads a pipeline's parts of a configuration file, and opens the runtime.
pub(super) fn read(path: &Path, name: &str) -> Result<FileConfig, Failure> {
    let config = config::read(path, &local::defaults());
    let mut config = config.map_err(|error| files::explain(&error, "CONFIG"))?;
    if let Some(refused) = config.refused.iter().find(|refused| refused.name == name) {
        let text = format!("{}:{}: {}", path.display(), refused.place, refused.reason);
        return Err(Failure::failed(text));
    }
    let mut pipelines = config.pipelines.iter();
    let Some(pipeline) = pipelines.find(|it| it.name == name).cloned() else {
        let known = config.pipelines.iter().map(|it| it.name.as_str());
        let known: Vec<&str> = known.collect();
        return Err(unknown(FailureKind::Usage, "pipeline", path, name, &known));
    };
    keep_used(&mut config, pipeline);
    local::open_runtime()?;
    let mut libraries = config.custom_node_libraries.iter();
    if libraries.any(|library| is_handler(&library.base_path)) {
        graph::environment(None);
    }
    Ok(config)
}

/// Loads models and custom nodes.
pub(super) async fn load(name: &str, config: FileConfig) -> Result<LocalPipeline, Failure> {
    let definition = |servable| match servable {
        Servable::Pipeline(pipeline) => pipeline.definition().ok(),
        _ => None,
    };
    LocalServable::load("pipeline", name.to_owned(), config, definition).await
}

impl LocalPipeline {
    pub(super) fn plan(&self) -> &PipelinePlan {
        &self.definition.plan
    }

    /// Describes inputs and outputs as servers do.
    pub(super) fn metadata(&self) -> ModelMetadata {
        let info = &self.definition.plan.info;
        let tensors = |all: &[TensorInfo]| {
            let tensor = |tensor: &TensorInfo| TensorMetadata {
                name: tensor.name.clone(),
                datatype: tensor
                    .decided()
                    .map_or(OPEN_TYPE, DataType::kserve)
                    .to_owned(),
                shape: tensor.shape.clone(),
            };
            all.iter().map(tensor).collect()
        };
        ModelMetadata {
            name: self.name.clone(),
            inputs: tensors(&info.inputs),
            outputs: tensors(&info.outputs),
            ..ModelMetadata::default()
        }
    }

    /// Returns the maximum number of runs of a node in flight, if it runs a model.
    pub(super) fn slots(&self, model: &str, version: Option<i64>) -> Option<usize> {
        let version = self.engine.model(model).ok()?.version(version).ok()?;
        Some(version.loaded().ok()?.slots())
    }
}

/// Removes all entries from a file that a pipeline does not use.
fn keep_used(config: &mut FileConfig, pipeline: PipelineConfig) {
    let (mut models, mut libraries) = (Vec::new(), Vec::new());
    for node in &pipeline.nodes {
        match &node.kind {
            NodeKind::Model { model_name, .. } => models.push(model_name.as_str()),
            NodeKind::Custom { library_name, .. } => libraries.push(library_name.as_str()),
        }
    }
    let known = &mut config.custom_node_libraries;
    known.retain(|library| libraries.contains(&&*library.name));
    config.models.retain(|entry| models.contains(&entry.name()));
    config.graphs.clear();
    config.refused.clear();
    config.warnings.clear();
    config.pipelines = vec![pipeline];
}
