//! Backend of the client in this process: an engine with one pipeline or graph, loaded as a server loads it.
//!
//! A [`LocalBackend`] has what the client has of a server: metadata, one response to a [`Request`]
//! ([`infer`](LocalBackend::infer)), and a stream of them ([`open`](LocalBackend::open)). Beside that it reports the
//! times of nodes, which is what dry runs are for.

mod definition;
mod times;

use std::{sync::Arc, time::Duration};

use ovms::{
    client::{ClientResponse, ModelMetadata, Request},
    config::{Defaults, FileConfig, Flags},
    engine::{
        Engine,
        reload::{ReloadError, Reloader},
    },
    error::{Result, chain},
    graph::{Env, GraphDefinition, GraphObserver, GraphSession},
    model::{Loaded, Status, VersionErrorCode, VersionState},
    openvino::runtime,
    pipeline::{PipelineDefinition, Trace},
    request::{
        ApiFamily, Data, Declared, InferRequest, InputTensor, Interface, Parameters, RequestOrigin,
    },
    tensor::TensorMap,
};

pub(crate) use self::{
    definition::LocalDefinition,
    times::{median, microseconds, percentile, ratio, share, time},
};
use crate::{error::Failure, graph, places, setup, ui};

/// Origin of requests from this process; it is not shown.
const ORIGIN: RequestOrigin = RequestOrigin {
    api: ApiFamily::KServe,
    interface: Interface::Grpc,
};

/// Time limit for custom nodes and handlers to finish; the server gives a handler as much.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// Pipeline or graph that is ready to run.
pub(crate) struct LocalBackend<D> {
    pub(crate) name: String,
    pub(crate) definition: Arc<D>,
    engine: Arc<Engine>,
}

/// Returns the limits of a server with default flags.
pub(crate) fn defaults() -> Defaults {
    let flags = Flags {
        max_graph_runs: 16,
        ..Flags::default()
    };
    Defaults {
        flags: Arc::new(flags),
        ..Defaults::default()
    }
}

/// Opens the runtime.
pub(crate) fn open_runtime() -> Result<(), Failure> {
    let opened = runtime::open(&places::all());
    opened.map(drop).map_err(|error| setup::explain(&error))
}

impl<D: LocalDefinition> LocalBackend<D> {
    /// Loads a configuration, with a bar on a terminal, and finds the pipeline or graph of a name.
    pub(crate) async fn load(name: String, config: FileConfig) -> Result<Self, Failure> {
        let models = config.models.len();
        let engine = Engine::new(Duration::ZERO, 1);
        let mut reloader = Reloader::given(engine.clone(), config, &defaults());
        let errors = {
            let bar = ui::loading((models > 0).then_some(models));
            let mut load = std::pin::pin!(reloader.load());
            let mut ticks = tokio::time::interval(ui::BAR_STEP);
            loop {
                tokio::select! {
                    errors = &mut load => break errors,
                    _ = ticks.tick() => bar.show(settled(&engine)),
                }
            }
        };
        let Some(definition) = engine.servable(&name).ok().and_then(D::of) else {
            close(&engine, CLOSE_LIMIT).await;
            return Err(refused(D::KIND, &name, &errors));
        };
        // A model that a graph lacks fails when its session is opened; this says why.
        for error in errors {
            ui::warn(&format!("warning: {}", chain(&error)));
        }
        graph::note_waived(definition.waived_timeout());
        Ok(Self {
            name,
            definition,
            engine,
        })
    }

    /// Describes inputs and outputs as servers do.
    pub(crate) fn metadata(&self) -> ModelMetadata {
        ModelMetadata {
            name: self.name.clone(),
            inputs: self.definition.inputs(),
            outputs: self.definition.outputs(),
            ..ModelMetadata::default()
        }
    }

    /// Returns the failure of a run without inputs.
    pub(crate) fn no_inputs(&self) -> Failure {
        let (kind, name) = (D::KIND, &self.name);
        Failure::usage(format!("found no inputs for {kind} `{name}`"))
    }

    /// Waits for custom nodes and handlers to finish, within a limit or 10 s.
    pub(crate) async fn close(self, limit: Option<Duration>) {
        drop(self.definition);
        close(&self.engine, limit.unwrap_or(CLOSE_LIMIT)).await;
    }
}

impl LocalBackend<PipelineDefinition> {
    /// Answers a request, and traces its runs.
    ///
    /// # Errors
    ///
    /// Fails as the server answers.
    pub(crate) async fn infer(
        &self,
        request: &Request,
        trace: &Arc<Trace>,
    ) -> Result<ClientResponse> {
        let target = self.engine.find(&self.name, None, ORIGIN).await?;
        let target = target.traced(Arc::clone(trace));
        let response = target.infer(converted(&request.inputs, request.parameters.clone()));
        Ok(ClientResponse {
            model_name: self.name.clone(),
            model_version: String::new(),
            id: request.id.clone(),
            outputs: response.await?.outputs,
            opaque: Vec::new(),
        })
    }

    /// Returns a model that the pipeline uses, if it is loaded.
    pub(crate) fn model(&self, name: &str, version: Option<i64>) -> Option<Arc<Loaded>> {
        let version = self.engine.model(name).ok()?.version(version).ok()?;
        version.loaded().ok()
    }
}

impl LocalBackend<GraphDefinition> {
    /// Opens a stream for the parameters of its first request; the observer gets the times of the nodes.
    ///
    /// # Errors
    ///
    /// Fails as the server answers.
    pub(crate) fn open(
        &self,
        first: &Request,
        observer: Arc<dyn GraphObserver>,
    ) -> Result<GraphSession> {
        let env = Env::new(self.engine.sessions()).of(ORIGIN);
        self.definition.open(&first.parameters, env, Some(observer))
    }
}

/// Converts a request to the form that the engine takes.
pub(crate) fn converted(tensors: &TensorMap, parameters: Parameters) -> InferRequest {
    let inputs = tensors.iter().map(|(name, tensor)| InputTensor {
        name: name.to_owned(),
        datatype: Declared::Known(tensor.dtype()),
        // Lengths of what is in memory fit.
        shape: tensor.shape().iter().map(|&length| length as i64).collect(),
        data: Data::Raw(tensor.data().clone()),
    });
    InferRequest {
        inputs: inputs.collect(),
        parameters,
        ..InferRequest::default()
    }
}

/// Waits for everything that is loaded to finish, and abandons the rest at the limit.
async fn close(engine: &Engine, limit: Duration) {
    drop(tokio::time::timeout(limit, engine.close()).await);
}

/// Returns the number of models that are loaded or have failed to load.
fn settled(engine: &Engine) -> u64 {
    let is_settled = |status: Status| {
        status.state > VersionState::Loading || status.code != VersionErrorCode::Ok
    };
    let models = engine.models().into_iter();
    let settled = models.filter(|it| it.versions().iter().any(|it| is_settled(it.status())));
    settled.count() as u64
}

/// Returns the failure of a servable that cannot run.
pub(crate) fn refused(kind: &str, name: &str, errors: &[ReloadError]) -> Failure {
    let failure = Failure::failed(format!("the {kind} `{name}` cannot run"));
    let lines = errors.iter().flat_map(|error| match error {
        ReloadError::Pipeline { errors, .. } => {
            errors.errors.iter().map(ToString::to_string).collect()
        }
        // The worker has shown the traceback.
        ReloadError::Graph { error, .. } => {
            let lines = std::iter::once(&error.status).chain(&error.log);
            lines.cloned().collect()
        }
        other => vec![chain(other)],
    });
    let hint = format!("`ovms {kind} check` shows each error with its place in the file");
    lines.fold(failure, Failure::detail).hint(hint)
}
