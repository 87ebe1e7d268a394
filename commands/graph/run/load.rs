//! Graph with its servables, loaded as the server loads it.

use std::{path::Path, sync::Arc, time::Duration};

use ovms::{
    client::{ModelMetadata, TensorMetadata},
    config::{Defaults, FileConfig, GraphConfig, ModelEntry},
    engine::{
        Engine, Servable,
        reload::{ReloadError, Reloader},
    },
    error::chain,
    graph::{GraphDefinition, GraphNodeKind, GraphOutline, GraphPlan, GraphPort, calculators},
    openvino::runtime,
    tensor::PartialShape,
};

use crate::{
    error::{Failure, FailureKind},
    graph::source,
    places, setup, ui,
};

/// Datatype of inputs and outputs in the metadata of graphs.
const NO_TYPE: &str = "INVALID";

/// Time limit for handlers to finish.
const LIMIT: Duration = Duration::from_secs(5);

/// Graph before it is loaded.
pub(super) struct Loader {
    name: String,
    config: FileConfig,
    defaults: Defaults,
}

/// Graph that is ready to run.
pub(super) struct Loaded {
    pub(super) engine: Arc<Engine>,
    pub(super) definition: Arc<GraphDefinition>,
}

impl Loader {
    /// Finds the graph; keeps only its parts of the configuration file, and opens the runtime if it
    /// is needed.
    pub(super) fn new(path: &Path, name: Option<&str>) -> Result<Self, Failure> {
        let defaults = Defaults {
            most_waiting: 1024,
            most_custom_runs: 16,
            custom_load: Duration::from_secs(300),
            most_graph_runs: 16,
            graph_load: Duration::from_secs(300),
            ..Defaults::default()
        };
        let found = source::find(path, name, &defaults)?;
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
            runtime::open(&places::all()).map_err(|error| setup::explain(&error))?;
        }
        Ok(Self {
            name: graph.name,
            config,
            defaults,
        })
    }

    /// Loads models, pipelines and the graph.
    pub(super) async fn load(self) -> Result<Loaded, Failure> {
        let engine = Engine::new(Duration::ZERO, 1);
        let mut reloader = Reloader::given(engine.clone(), self.config, &self.defaults);
        let errors = {
            let bar = ui::steps(None);
            bar.set_message("loading");
            reloader.load().await
        };
        let servable = engine.servable(&self.name).ok();
        let definition = match servable {
            Some(Servable::Graph(graph)) => graph.definition().ok(),
            _ => None,
        };
        let Some(definition) = definition else {
            close(&engine, LIMIT).await;
            return Err(refused(&self.name, &errors));
        };
        // A model that is not there fails when its session is opened; this says why.
        for error in errors {
            ui::warn(&format!("warning: {}", chain(&error)));
        }
        Ok(Loaded { engine, definition })
    }
}

impl Loaded {
    pub(super) fn name(&self) -> &str {
        self.definition.name()
    }

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
            name: self.name().to_owned(),
            versions: Vec::new(),
            platform: String::new(),
            inputs: self.plan().inputs.iter().map(tensor).collect(),
            outputs: self.plan().outputs.iter().map(tensor).collect(),
        }
    }

    /// Waits for handlers and custom nodes to finish, within a limit or 5 s.
    pub(super) async fn close(self, limit: Option<Duration>) {
        let Self {
            engine, definition, ..
        } = self;
        drop(definition);
        close(&engine, limit.unwrap_or(LIMIT)).await;
    }
}

/// Waits for everything the graph has loaded to finish, and abandons the rest at the limit.
async fn close(engine: &Engine, limit: Duration) {
    drop(tokio::time::timeout(limit, engine.close()).await);
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

/// Returns the failure of a graph that cannot run.
fn refused(name: &str, errors: &[ReloadError]) -> Failure {
    let mut failure = Failure::new(
        FailureKind::Failed,
        format!("the graph `{name}` cannot run"),
    );
    for error in errors {
        match error {
            ReloadError::Graph { error, .. } => {
                failure = failure.detail(error.status.clone());
                for line in &error.log {
                    failure = failure.detail(line.clone());
                }
            }
            other => failure = failure.detail(chain(other)),
        }
    }
    failure.hint("`ovms graph check` shows each error with its place in the file")
}
