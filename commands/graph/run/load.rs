//! Graph with what it uses.

use std::path::Path;

use ovms::{
    client::{ModelMetadata, TensorMetadata},
    config::{FileConfig, GraphConfig, ModelEntry},
    engine::Servable,
    graph::{GraphDefinition, GraphNodeKind, GraphOutline, GraphPlan, GraphPort, calculators},
    tensor::PartialShape,
};

use crate::{
    error::{Failure, FailureKind},
    graph::source,
    local::{self, LocalServable},
};

/// Datatype of inputs and outputs in the metadata of graphs.
const NO_TYPE: &str = "INVALID";

/// Graph that is ready to run.
pub(super) type LocalGraph = LocalServable<GraphDefinition>;

/// Finds a graph, with its parts of the configuration file, and opens the runtime if it is needed.
pub(super) fn read(path: &Path, name: Option<&str>) -> Result<(String, FileConfig), Failure> {
    let found = source::find(path, name, &local::defaults())?;
    let [graph] = &found.graphs[..] else {
        let text = format!("{} has several graphs: name one", path.display());
        let failure = Failure::new(FailureKind::Usage, text);
        let graphs = found.graphs.iter();
        return Err(graphs.fold(failure, |failure, graph| failure.detail(&graph.name)));
    };
    // Handlers get their location as from the server.
    let mut graph = graph.clone();
    for path in [
        &mut graph.base_path,
        &mut graph.graph_path,
        &mut graph.subconfig,
    ] {
        *path = std::path::absolute(&*path)?;
    }
    let config = used(found.file.unwrap_or_default(), &graph);
    if !config.models.is_empty() || graph.subconfig.is_file() {
        local::open_runtime()?;
    }
    Ok((graph.name, config))
}

/// Loads models, pipelines and the graph.
pub(super) async fn load(name: String, config: FileConfig) -> Result<LocalGraph, Failure> {
    let definition = |servable| match servable {
        Servable::Graph(graph) => graph.definition().ok(),
        _ => None,
    };
    LocalServable::load("graph", name, config, &local::defaults(), definition).await
}

impl LocalGraph {
    pub(super) fn plan(&self) -> &GraphPlan {
        self.definition.plan()
    }

    /// Describes inputs and outputs as servers do.
    pub(super) fn metadata(&self) -> ModelMetadata {
        let tensor = |port: &GraphPort| TensorMetadata {
            name: port.port.name.clone(),
            datatype: NO_TYPE.to_owned(),
            shape: PartialShape(Vec::new()),
        };
        ModelMetadata {
            name: self.name.clone(),
            versions: Vec::new(),
            platform: String::new(),
            inputs: self.plan().inputs.iter().map(tensor).collect(),
            outputs: self.plan().outputs.iter().map(tensor).collect(),
        }
    }
}

/// Removes all entries from a file that a graph does not use.
fn used(mut config: FileConfig, graph: &GraphConfig) -> FileConfig {
    let own = source::models_of_graphs(&config, Some(&graph.name));
    config.models.extend(own);
    let path = graph.graph_path.display().to_string();
    let text = source::read(graph).unwrap_or_default();
    let outline = GraphOutline::read(&graph.name, &text, &path, calculators::all(), &|_| true);
    let nodes = outline.map(|outline| outline.nodes).unwrap_or_default();
    let sessions = nodes
        .into_iter()
        .filter(|node| node.kind == GraphNodeKind::Model);
    let names: Vec<String> = sessions.filter_map(|node| node.runs).collect();
    let of_pipelines = config.pipelines.iter().any(|it| names.contains(&it.name));
    // What a pipeline uses is not looked for.
    if !of_pipelines {
        config.pipelines.clear();
        config.custom_node_libraries.clear();
        config.models.retain(|entry| match entry {
            ModelEntry::Model(model) => names.contains(&model.name),
            ModelEntry::Refused { name, .. } => names.contains(name),
        });
    }
    config.graphs = vec![graph.clone()];
    config.refused.clear();
    config.warnings.clear();
    config
}
