//! Graph in its file, with what it uses.

use std::path::Path;

use ovms::{
    config::{Defaults, FileConfig, GraphConfig, ModelEntry},
    graph::{GraphDefinition, GraphPlan},
};

use crate::{
    error::Failure,
    graph::{
        show,
        source::{self, AdjacentConfig},
    },
    local::{self, LocalBackend},
    ui,
};

/// Graph that is ready to run.
pub(super) type LocalGraph = LocalBackend<GraphDefinition>;

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

impl LocalGraph {
    pub(super) fn plan(&self) -> &GraphPlan {
        self.definition.plan()
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
