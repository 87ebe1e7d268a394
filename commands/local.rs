//! Engine in this process with one pipeline or graph, loaded as a server loads it: the target of dry
//! runs.

use std::{sync::Arc, time::Duration};

use ovms::{
    config::{Defaults, FileConfig, Flags},
    engine::{
        Engine, Servable,
        reload::{ReloadError, Reloader},
    },
    error::chain,
    model::{Status, VersionErrorCode, VersionState},
    openvino::runtime,
    request::{
        ApiFamily, Data, Declared, InferRequest, InputTensor, Interface, Parameters, RequestOrigin,
    },
    tensor::TensorMap,
};

use crate::{error::Failure, places, setup, ui};

/// Origin of requests from this process; it is not shown.
pub(crate) const ORIGIN: RequestOrigin = RequestOrigin {
    api: ApiFamily::KServe,
    interface: Interface::Grpc,
};

/// Time limit for custom nodes and handlers to finish; the server gives a handler as much.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// Pipeline or graph that is ready to run.
pub(crate) struct LocalServable<D> {
    pub(crate) name: String,
    pub(crate) engine: Arc<Engine>,
    pub(crate) definition: Arc<D>,
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

impl<D> LocalServable<D> {
    /// Loads a configuration, with a bar on a terminal, and finds the `kind` of a name: pipeline or
    /// graph, as the subcommand that checks it is called.
    pub(crate) async fn load(
        kind: &str,
        name: String,
        config: FileConfig,
        definition: impl Fn(Servable) -> Option<Arc<D>>,
    ) -> Result<Self, Failure> {
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
        let Some(definition) = engine.servable(&name).ok().and_then(definition) else {
            close(&engine, CLOSE_LIMIT).await;
            return Err(refused(kind, &name, &errors));
        };
        // A model that a graph lacks fails when its session is opened; this says why.
        for error in errors {
            ui::warn(&format!("warning: {}", chain(&error)));
        }
        Ok(Self {
            name,
            engine,
            definition,
        })
    }

    /// Waits for custom nodes and handlers to finish, within a limit or 10 s.
    pub(crate) async fn close(self, limit: Option<Duration>) {
        drop(self.definition);
        close(&self.engine, limit.unwrap_or(CLOSE_LIMIT)).await;
    }
}

/// Creates a request of tensors.
pub(crate) fn request(tensors: &TensorMap, parameters: Parameters) -> InferRequest {
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

/// Converts to microseconds; nanoseconds are the resolution of the clock.
pub(crate) fn microseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e9).round() / 1e3
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
