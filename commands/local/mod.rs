//! Backend of the client in this process: an engine with one pipeline or graph, loaded as a server loads it.
//!
//! A [`LocalBackend`] has what the client has of a server: metadata, one response to a [`Request`]
//! ([`infer`](LocalBackend::infer)), and a stream of them ([`open`](LocalBackend::open)). Beside that it reports the
//! times of nodes, which is what dry runs are for.

mod definition;
mod times;

use std::{path::Path, sync::Arc, time::Duration};

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
    /// Loads a configuration, with a bar on a terminal, and finds the pipeline or graph of a name; `packages` is the
    /// virtual environment that was named.
    pub(crate) async fn load(
        name: String,
        config: FileConfig,
        packages: Option<&Path>,
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
        let Some(definition) = engine.servable(&name).ok().and_then(D::of) else {
            close(&engine, CLOSE_LIMIT).await;
            return Err(refused(D::KIND, &name, &errors, packages));
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

/// Returns the failure of a servable that cannot run, with the check that shows why.
pub(crate) fn refused(
    kind: &str,
    name: &str,
    errors: &[ReloadError],
    packages: Option<&Path>,
) -> Failure {
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
    let mut check = format!("ovms {kind} check");
    if errors.iter().any(is_of_object) {
        check.push_str(" --initialize");
    }
    if let Some(packages) = packages {
        let packages = packages.display().to_string();
        check.extend([" --python-environment ", &ui::shell_word(&packages)]);
    }
    let hint = format!("`{check}` shows each error with its place in the file");
    lines.fold(failure, Failure::detail).hint(hint)
}

/// Returns whether a graph was refused since no object of a handler could be made, which its check tries only if it is
/// asked to. That of pipelines always does.
fn is_of_object(error: &ReloadError) -> bool {
    let ReloadError::Graph { error, .. } = error else {
        return false;
    };
    match (&error.raised, &error.node) {
        (Some(raised), _) => is_behind_import(&raised.traceback),
        // Where a worker was that has died, it may be known no longer.
        (None, Some(_)) => error.log.iter().any(|line| line.contains(WORKER)),
        (None, None) => false,
    }
}

/// Part of the error of a handler whose worker has died while it was loaded.
const WORKER: &str = " - worker of graph ";

/// Returns whether a traceback is that of a call, and not of the import of a handler file or of its syntax.
fn is_behind_import(traceback: &str) -> bool {
    let mut lines = traceback.lines().map(str::trim);
    let first = lines.find(|line| line.starts_with("File \""));
    first.is_some_and(|frame| frame.contains(", in ") && !frame.ends_with(", in <module>"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ovms::{engine::reload::ReloadError, graph::LoadError, python::Raised};

    use super::refused;

    /// Returns the hint for a graph whose handler was not loaded.
    fn hint(raised: Option<Raised>, log: &str, packages: Option<&str>) -> String {
        let error = LoadError {
            status: "The Python Node state initialization failed".to_owned(),
            log: vec![log.to_owned()],
            node: Some("py".to_owned()),
            raised: raised.map(Box::new),
        };
        let name = "g".to_owned();
        let errors = [ReloadError::Graph { name, error }];
        let failure = refused("graph", "g", &errors, packages.map(Path::new));
        failure.hints().join("\n")
    }

    #[test]
    fn the_check_that_is_hinted_at_shows_the_error() {
        let raised = |frames: &str| {
            let mut raised = Raised::default();
            raised.traceback =
                format!("Traceback (most recent call last):\n{frames}\nValueError\n");
            Some(raised)
        };
        let plain = "`ovms graph check` shows each error with its place in the file";
        let whole = "`ovms graph check --initialize` shows each error with its place in the file";
        for (frames, expected) in [
            (
                "  File \"/g/h.py\", line 3, in initialize\n    raise",
                whole,
            ),
            (
                "  File \"/g/h.py\", line 3, in __init__\n    import x",
                whole,
            ),
            (
                "  File \"/g/h.py\", line 9, in initialize\n    import x\n  File \"/g/x.py\", line 1, in <module>",
                whole,
            ),
            (
                "  File \"/g/h.py\", line 1, in <module>\n    import x",
                plain,
            ),
            (
                "  File \"/g/h.py\", line 2\n    def execute(self inputs):",
                plain,
            ),
            ("", plain),
        ] {
            assert_eq!(hint(raised(frames), "raised", None), expected, "{frames}");
        }
        let died = "Error during python node initialization for handler_path: /g/h.py - worker of graph g ended with \
                    status 3 in node py";
        assert_eq!(hint(None, died, None), whole);
        assert_eq!(
            hint(None, "No OvmsPythonModel class found in /g/h.py", None),
            plain
        );
        assert_eq!(
            hint(None, died, Some("my env")),
            "`ovms graph check --initialize --python-environment 'my env'` shows each error with its place in the file"
        );
        let failure = refused("pipeline", "p", &[], Some(Path::new(".venv")));
        assert_eq!(
            failure.hints(),
            [
                "`ovms pipeline check --python-environment .venv` shows each error with its place in the file"
            ]
        );
    }
}
