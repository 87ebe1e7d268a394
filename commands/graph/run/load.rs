//! Graph with what it uses.

use std::path::Path;

use ovms::{
    client::{ModelMetadata, TensorMetadata},
    config::{Defaults, FileConfig, GraphConfig, ModelEntry},
    engine::Servable,
    graph::{GraphDefinition, GraphPlan, GraphPort},
    tensor::PartialShape,
};

use crate::{
    error::Failure,
    graph::{
        note_waived, show,
        source::{self, AdjacentConfig},
    },
    local::{self, LocalServable},
    ui,
};

/// Datatype of inputs and outputs in the metadata of graphs.
const NO_TYPE: &str = "INVALID";

/// Graph that is ready to run.
pub(super) type LocalGraph = LocalServable<GraphDefinition>;

/// Finds a graph, with its parts of the configuration file, and opens the runtime if it is needed.
pub(super) fn read(path: &Path, name: Option<&str>) -> Result<(String, FileConfig), Failure> {
    let mut found = source::find(path, name, &local::defaults())?;
    let adjacent = found.take_adjacent_config(&local::defaults())?;
    let [graph] = &found.graphs[..] else {
        let text = format!("{} has several graphs: name one", path.display());
        let failure = Failure::usage(text);
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
    if let AdjacentConfig::Used(path) = adjacent
        && !config.models.is_empty()
    {
        ui::note(&format!("note: models are those of {}", path.display()));
    }
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
    let loaded = LocalServable::load("graph", name, config, definition).await?;
    note_waived(loaded.definition.waived_timeout());
    Ok(loaded)
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
            inputs: self.plan().inputs.iter().map(tensor).collect(),
            outputs: self.plan().outputs.iter().map(tensor).collect(),
            ..ModelMetadata::default()
        }
    }
}

/// Removes all entries from a file that a graph does not use.
fn used(mut config: FileConfig, graph: &GraphConfig) -> FileConfig {
    let own = source::models_of_graphs(&config, Some(&graph.name), &Defaults::default());
    config.models.extend(own);
    let spec = show::spec(graph);
    let nodes = spec.iter().flat_map(|spec| &spec.nodes);
    let names: Vec<String> = nodes.filter_map(|node| node.spec.servable()).collect();
    let of_pipelines = config.pipelines.iter().any(|it| names.contains(&it.name));
    // What a pipeline uses is not looked for.
    if !of_pipelines {
        config.pipelines.clear();
        config.custom_node_libraries.clear();
        let is_used = |entry: &ModelEntry| names.iter().any(|name| name == entry.name());
        config.models.retain(is_used);
    }
    config.graphs = vec![graph.clone()];
    config.refused.clear();
    config.warnings.clear();
    config
}
