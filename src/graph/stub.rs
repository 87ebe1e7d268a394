//! STUB, to be replaced: a graph that copies its inputs to its outputs.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{Env, Form, GraphPort, Plan, PoolSize, Ports, Servables};
use crate::{
    error::{Error, Result},
    metrics::{NodeTimes, Reporter},
    request::{Data, Declared, InferRequest, InferResponse},
    task,
    tensor::{Tensor, TensorMap},
};

/// The version that graphs say they have.
pub const VERSION: i64 = 1;

/// Looks at a graph file.
///
/// # Errors
///
/// Fails if it cannot be read.
pub fn examine(source: &GraphSource) -> Result<(), LoadFault> {
    let servables: Arc<dyn Servables> = Arc::new(NoServables);
    let reporter = Reporter::default();
    Definition::load(source, false, &servables, &reporter).map(drop)
}

struct NoServables;

impl Servables for NoServables {
    fn session(&self, _: &str, _: Option<i64>) -> Result<Arc<dyn super::Session>> {
        Err(Error::invalid("none"))
    }
}

/// What is to be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphSource {
    pub name: String,
    pub base_path: PathBuf,
    pub graph_path: PathBuf,
}

/// Why a graph is not loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{status}")]
pub struct LoadFault {
    pub status: String,
    pub log: Vec<String>,
}

/// What the files of a graph hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fingerprint(Vec<u8>);

impl Fingerprint {
    #[must_use]
    pub fn read(source: &GraphSource) -> Self {
        let mut all = std::fs::read(&source.graph_path).unwrap_or_default();
        let Ok(entries) = std::fs::read_dir(&source.base_path) else {
            return Self(all);
        };
        for entry in entries.flatten() {
            if entry.path().extension().is_some_and(|end| end == "py") {
                all.extend(std::fs::read(entry.path()).unwrap_or_default());
            }
        }
        Self(all)
    }
}

/// What is told of a run while it goes on, for figures.
pub trait Tally: Send + Sync {
    /// A request has put its packets in.
    fn accepted(&self) {}
    /// A request was refused before, or while, it did.
    fn rejected(&self) {}
    /// A response was made.
    fn responded(&self) {}
    /// The run has failed.
    fn failed(&self) {}
}

/// Sees what the nodes of a run do.
pub trait Watch: Send + Sync {}

pub struct Definition {
    source: GraphSource,
    fingerprint: Fingerprint,
    plan: Arc<Plan>,
    _times: Vec<Arc<NodeTimes>>,
}

impl Definition {
    /// Reads the graph and loads it.
    ///
    /// # Errors
    ///
    /// Fails with the first fault.
    pub fn load(
        source: &GraphSource,
        _is_silent: bool,
        _servables: &Arc<dyn Servables>,
        reporter: &Reporter,
    ) -> Result<Self, LoadFault> {
        let name = &source.name;
        let fault = |status: &str, log: String| LoadFault {
            status: status.to_owned(),
            log: vec![log],
        };
        let text = std::fs::read_to_string(&source.graph_path).map_err(|_| {
            fault(
                "File not found or cannot open",
                format!(
                    "Failed to open mediapipe graph definition: {name}, file: {}",
                    source.graph_path.display()
                ),
            )
        })?;
        if text.contains("hang: true") {
            std::thread::sleep(Duration::from_secs(20));
        }
        if text.trim().is_empty() || text.contains("unknown_field") {
            return Err(fault(
                "Failed to read protobuf graph configuration file",
                format!("Trying to parse mediapipe graph definition: {name} failed"),
            ));
        }
        let ports = |key: &str| -> Vec<GraphPort> {
            let begin = format!("{key}: \"");
            let lines = text.lines().filter_map(|line| line.strip_prefix(&begin));
            let texts: Vec<&str> = lines.map(|line| line.trim_end_matches('"')).collect();
            Ports::of(&texts)
                .iter()
                .map(|port| GraphPort {
                    port: port.clone(),
                    stream: 0,
                    form: Form::OvTensor,
                })
                .collect()
        };
        Ok(Self {
            fingerprint: Fingerprint::read(source),
            plan: Arc::new(Plan {
                nodes: Vec::new(),
                streams: Vec::new(),
                sides: Vec::new(),
                inputs: ports("input_stream"),
                outputs: ports("output_stream"),
                max_queue: None,
                report_deadlock: false,
                pool: PoolSize::Off,
            }),
            _times: vec![reporter.node("PassThroughCalculator")],
            source: source.clone(),
        })
    }

    #[must_use]
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    #[must_use]
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    #[must_use]
    pub fn base_path(&self) -> &Path {
        &self.source.base_path
    }

    /// Answers one request.
    ///
    /// # Errors
    ///
    /// Fails if the request does not fit.
    pub async fn infer(
        self: &Arc<Self>,
        _env: Env,
        request: InferRequest,
        tally: &dyn Tally,
        _watch: Option<Arc<dyn Watch>>,
    ) -> Result<InferResponse> {
        let mut outputs = TensorMap::default();
        for input in request.inputs {
            let Some(place) = self.plan.input(&input.name) else {
                tally.rejected();
                let text = format!("Unexpected input - {} is unexpected", input.name);
                return Err(Error::invalid(text));
            };
            let (Declared::Known(dtype), Data::Raw(data) | Data::Values { bytes: data, .. }) =
                (input.datatype, input.data)
            else {
                return Err(Error::invalid("Invalid input precision"));
            };
            let shape = input
                .shape
                .iter()
                .map(|&d| usize::try_from(d).unwrap_or(0))
                .collect();
            let tensor =
                Tensor::new(dtype, shape, data).map_err(|e| Error::invalid(e.to_string()))?;
            outputs.push(self.plan.outputs[place].port.name.clone(), tensor);
        }
        if outputs.len() < self.plan.inputs.len() {
            tally.rejected();
            return Err(Error::invalid(
                "Invalid number of inputs - Not all input packets created",
            ));
        }
        tally.accepted();
        tally.responded();
        Ok(InferResponse {
            model_name: self.source.name.clone(),
            model_version: 1,
            id: request.id,
            outputs,
            loose: Vec::new(),
            parameters: Vec::new(),
        })
    }

    /// Waits for the last run, then brings it to an end.
    pub async fn drain(self: Arc<Self>) {
        while Arc::strong_count(&self) > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        task::blocking("drop graph", move || drop(self)).await;
    }
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Definition").finish_non_exhaustive()
    }
}
