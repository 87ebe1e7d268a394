//! Pipeline with its servables, loaded as the server loads it.

use std::{path::Path, sync::Arc, time::Duration};

use ovms::{
    client::{ModelMetadata, TensorMetadata},
    config::{self, Defaults, FileConfig, ModelEntry, NodeKind, PipelineConfig},
    engine::{
        Engine, Servable,
        reload::{ReloadError, Reloader},
    },
    error::chain,
    model::VersionState,
    openvino::runtime,
    pipeline::{PipelineDefinition, PipelinePlan, TensorDirection, python::is_handler},
    servable::TensorInfo,
};

use crate::{
    error::{Failure, FailureKind},
    graph,
    pipeline::unknown,
    places,
    serve::files,
    setup, ui,
};

/// Name of the datatype of a tensor that no node decides.
const OPEN_TYPE: &str = "UNDEFINED";

/// Pipeline before it is loaded.
pub(super) struct Loader {
    name: String,
    config: FileConfig,
    defaults: Defaults,
}

/// Pipeline that is ready to run.
pub(super) struct Loaded {
    pub(super) name: String,
    pub(super) engine: Arc<Engine>,
    definition: Arc<PipelineDefinition>,
}

impl Loader {
    /// Reads the pipeline's parts of the file, and opens the runtime.
    pub(super) fn new(path: &Path, name: &str) -> Result<Self, Failure> {
        let defaults = Defaults {
            most_waiting: 1024,
            most_custom_runs: 16,
            custom_load: Duration::from_secs(300),
            ..Defaults::default()
        };
        let mut config =
            config::read(path, &defaults).map_err(|error| files::explain(&error, "CONFIG"))?;
        if let Some(refused) = config.refused.iter().find(|refused| refused.name == name) {
            let text = format!("{}:{}: {}", path.display(), refused.place, refused.reason);
            return Err(Failure::new(FailureKind::Failed, text));
        }
        let known = config
            .pipelines
            .iter()
            .map(|pipeline| pipeline.name.as_str());
        let Some(pipeline) = config.pipelines.iter().find(|it| it.name == name).cloned() else {
            let known: Vec<&str> = known.collect();
            return Err(unknown(FailureKind::Usage, path, name, &known));
        };
        keep_used(&mut config, pipeline);
        runtime::open(&places::all()).map_err(|error| setup::explain(&error))?;
        let mut libraries = config.custom_node_libraries.iter();
        if libraries.any(|library| is_handler(&library.base_path)) {
            graph::environment(None);
        }
        Ok(Self {
            name: name.to_owned(),
            config,
            defaults,
        })
    }

    /// Loads models and custom nodes, with a bar on a terminal.
    pub(super) async fn load(self) -> Result<Loaded, Failure> {
        let models = self.config.models.len();
        let engine = Engine::new(Duration::ZERO, 1);
        let mut reloader = Reloader::given(engine.clone(), self.config, &self.defaults);
        let errors = {
            let bar = ui::steps(Some(models));
            bar.set_message("loading models");
            let mut load = std::pin::pin!(reloader.load());
            let mut ticks = tokio::time::interval(ui::BAR_STEP);
            loop {
                tokio::select! {
                    errors = &mut load => break errors,
                    _ = ticks.tick() => bar.set_position(settled(&engine)),
                }
            }
        };
        let servable = engine.servable(&self.name).ok();
        let definition = match servable {
            Some(Servable::Pipeline(pipeline)) => pipeline.definition().ok(),
            _ => None,
        };
        let Some(definition) = definition else {
            close(&engine).await;
            return Err(refused(&self.name, &errors));
        };
        Ok(Loaded {
            name: self.name,
            engine,
            definition,
        })
    }
}

impl Loaded {
    pub(super) fn plan(&self) -> &PipelinePlan {
        self.definition.plan()
    }

    /// Describes inputs and outputs as servers do.
    pub(super) fn metadata(&self) -> ModelMetadata {
        let info = self.definition.info();
        let tensor = |side: TensorDirection, tensor: &TensorInfo| TensorMetadata {
            name: tensor.name.clone(),
            datatype: if self.definition.is_open(side, &tensor.name) {
                OPEN_TYPE.to_owned()
            } else {
                tensor.dtype.kserve().to_owned()
            },
            shape: tensor.shape.clone(),
        };
        ModelMetadata {
            name: self.name.clone(),
            versions: Vec::new(),
            platform: String::new(),
            inputs: info
                .inputs
                .iter()
                .map(|it| tensor(TensorDirection::Input, it))
                .collect(),
            outputs: info
                .outputs
                .iter()
                .map(|it| tensor(TensorDirection::Output, it))
                .collect(),
        }
    }

    /// Returns the maximum number of runs of a node in flight, if it runs a model.
    pub(super) fn slots(&self, model: &str, version: Option<i64>) -> Option<usize> {
        let version = self.engine.model(model).ok()?.version(version).ok()?;
        Some(version.loaded().ok()?.slots())
    }

    /// Waits for the custom nodes to finish.
    pub(super) async fn close(self) {
        let Self {
            engine, definition, ..
        } = self;
        drop(definition);
        close(&engine).await;
    }
}

/// Waits for custom nodes to finish.
async fn close(engine: &Engine) {
    /// Time limit; a node that has not finished by then is abandoned.
    const LIMIT: Duration = Duration::from_secs(1);
    drop(tokio::time::timeout(LIMIT, engine.close()).await);
}

/// Removes all entries from a file that a pipeline does not use.
fn keep_used(config: &mut FileConfig, pipeline: PipelineConfig) {
    let uses_model = |name: &str| {
        pipeline.nodes.iter().any(
            |node| matches!(&node.kind, NodeKind::Model { model_name, .. } if model_name == name),
        )
    };
    let uses_library = |name: &str| {
        pipeline.nodes.iter().any(|node| {
            matches!(&node.kind, NodeKind::Custom { library_name, .. } if library_name == name)
        })
    };
    config.models.retain(|entry| match entry {
        ModelEntry::Model(model) => uses_model(&model.name),
        ModelEntry::Refused { name, .. } => uses_model(name),
    });
    config
        .custom_node_libraries
        .retain(|library| uses_library(&library.name));
    config.graphs.clear();
    config.refused.clear();
    config.warnings.clear();
    config.pipelines = vec![pipeline];
}

/// Returns the number of models that are loaded or have failed to load.
fn settled(engine: &Engine) -> u64 {
    let models = engine.models();
    let settled = models.iter().filter(|model| {
        let versions = model.versions();
        versions.iter().any(|version| {
            let status = version.status();
            status.state > VersionState::Loading || status.code != ovms::model::VersionErrorCode::Ok
        })
    });
    settled.count() as u64
}

/// Returns the failure of a pipeline that cannot run.
fn refused(name: &str, errors: &[ReloadError]) -> Failure {
    let mut failure = Failure::new(
        FailureKind::Failed,
        format!("the pipeline `{name}` cannot run"),
    );
    for error in errors {
        match error {
            ReloadError::Pipeline { errors, .. } => {
                for error in &errors.errors {
                    failure = failure.detail(error.to_string());
                }
            }
            other => failure = failure.detail(chain(other)),
        }
    }
    failure.hint("`ovms pipeline check` shows each error with its place in the file")
}
