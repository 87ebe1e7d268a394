//! Input of the check of a pipeline: the current models and libraries, and the custom nodes that are made
//! for it.

use std::{
    cell::{OnceCell, RefCell},
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use tokio::sync::Semaphore;

use super::code::{Code, Opened};
use crate::{
    config::{NodeConfig, NodeKind, PipelineConfig},
    custom_node::{Library, Node, NodeError},
    metrics::Reporter,
    model::{Model, VersionState},
    pipeline::{
        CustomError, CustomFacts, CustomNode, MissingModel, ModelFacts, PythonNode, Sources,
        python::names,
    },
    python::{HandlerLoad, WorkerGroup, WorkerOptions},
};

/// A custom node of a pipeline's node.
#[derive(Clone)]
pub(super) struct Made {
    of: Of,
    pub(super) node: CustomNode,
}

/// Code of a custom node. One of a library has no business with the names and the workers.
#[derive(Clone)]
struct Of {
    code: Arc<Code>,
    params: Vec<(String, String)>,
    names: Option<(Vec<String>, Vec<String>)>,
    workers: Option<WorkerOptions>,
}

/// A custom node for the next check. A Python node is only there for as long as a definition has it, as
/// it is finalized with the last of them.
#[derive(Clone)]
pub(super) struct Kept {
    of: Of,
    node: KeptNode,
}

#[derive(Clone)]
enum KeptNode {
    Native(CustomNode),
    Python(Weak<PythonNode>),
}

impl Of {
    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.code, &other.code)
            && self.params == other.params
            && self.names == other.names
            && self.workers == other.workers
    }
}

impl Made {
    /// Returns what the next check needs.
    pub(super) fn keep(&self) -> Kept {
        Kept {
            of: self.of.clone(),
            node: match &self.node {
                CustomNode::Python(node) => KeptNode::Python(Arc::downgrade(node)),
                native @ CustomNode::Native(..) => KeptNode::Native(native.clone()),
            },
        }
    }
}

impl Kept {
    /// Returns what the node is made of.
    pub(super) fn code(&self) -> Arc<Code> {
        Arc::clone(&self.of.code)
    }

    /// Returns the node, if it is made of this.
    fn made(&self, of: &Of) -> Option<CustomNode> {
        match &self.node {
            _ if !self.of.is_same(of) => None,
            KeptNode::Native(node) => Some(node.clone()),
            // Without a definition it is finalized.
            KeptNode::Python(node) => {
                let node = node.upgrade().filter(|node| node.is_used());
                node.map(CustomNode::Python)
            }
        }
    }
}

/// The models and libraries of the moment.
#[derive(Default)]
pub(super) struct Facts {
    /// Indicates that a model has the name of the pipeline. Then there is nothing else.
    pub(super) is_taken: bool,
    pub(super) models: Arc<BTreeMap<String, Arc<Model>>>,
    /// Reasons why models of the file are refused, by name.
    pub(super) refused: Arc<BTreeMap<String, String>>,
    pub(super) libraries: BTreeMap<String, Opened>,
    /// The custom nodes that the pipeline has.
    pub(super) kept: BTreeMap<String, Kept>,
    /// The custom nodes that it is to have, by the names of its nodes.
    pub(super) made: RefCell<BTreeMap<String, Made>>,
    /// Answers about custom nodes, of which each is asked once, since that may make it.
    pub(super) described: RefCell<Vec<(NodeConfig, Result<CustomFacts, CustomError>)>>,
    pub(super) custom_runs: usize,
    pub(super) is_silent: bool,
    /// The figures of the pipeline.
    pub(super) reporter: Arc<Reporter>,
    /// The name of the pipeline, and the options of the workers of its Python nodes.
    pub(super) pipeline: (String, WorkerOptions),
    /// The load of those that are made.
    pub(super) load: HandlerLoad,
    /// Workers for those that are made.
    pub(super) workers: OnceCell<Arc<WorkerGroup>>,
}

impl Facts {
    /// Keeps all Python nodes of a pipeline as they are, or none: new code does not run in the workers
    /// that serve.
    pub(super) fn of_pipeline(mut self, config: &PipelineConfig) -> Self {
        self.pipeline = (config.name.clone(), config.workers.clone());
        let python = config.nodes.iter().filter_map(|node| match &node.kind {
            NodeKind::Custom { library_name, .. } => {
                let code = self.libraries.get(library_name)?.as_ref().ok()?;
                matches!(**code, Code::Python(_)).then_some((node, code))
            }
            NodeKind::Model { .. } => None,
        });
        let kept = python.map(|(node, code)| {
            let of = self.of(node, code);
            let made = self.kept.get(&node.name)?.made(&of)?;
            Some((node.name.clone(), Made { of, node: made }))
        });
        let kept: Option<BTreeMap<_, _>> = kept.collect();
        self.made = RefCell::new(kept.unwrap_or_default());
        self
    }

    fn of(&self, node: &NodeConfig, code: &Arc<Code>) -> Of {
        let is_python = matches!(**code, Code::Python(_));
        Of {
            code: Arc::clone(code),
            params: node.params().to_vec(),
            names: is_python.then(|| names(node)),
            workers: is_python.then(|| self.pipeline.1.clone()),
        }
    }

    /// Returns the custom node of a node: that which it has, if it is made of the same.
    fn node(&self, node: &NodeConfig, code: &Arc<Code>) -> Result<CustomNode, CustomError> {
        let of = self.of(node, code);
        let stays = self.made.borrow().get(&node.name).cloned();
        if let Some(stays) = stays.filter(|stays| stays.of.is_same(&of)) {
            return Ok(stays.node);
        }
        let made = match &**code {
            Code::Native(library) => {
                let kept = self.kept.get(&node.name);
                match kept.and_then(|kept| kept.made(&of)) {
                    Some(made) => made,
                    None => self.initialized(node, library)?,
                }
            }
            Code::Python(script) => {
                let workers = self.workers.get_or_init(|| {
                    let (name, options) = &self.pipeline;
                    let of = format!("pipeline {name}");
                    WorkerGroup::new(of, options.clone(), self.reporter.workers(), &self.load)
                });
                let (params, path) = (node.params(), &script.path);
                let made = PythonNode::load(workers, node, params, path, self.is_silent)?;
                CustomNode::Python(Arc::new(made))
            }
        };
        let kept = Made {
            of,
            node: made.clone(),
        };
        self.made.borrow_mut().insert(node.name.clone(), kept);
        Ok(made)
    }

    fn initialized(
        &self,
        node: &NodeConfig,
        library: &Arc<Library>,
    ) -> Result<CustomNode, CustomError> {
        let pairs = node.params().iter();
        let pairs = pairs.map(|(key, value)| (&**key, &**value));
        let node = Node::initialize(library, pairs).map_err(error)?;
        let most = self.custom_runs.clamp(1, Semaphore::MAX_PERMITS);
        Ok(CustomNode::Native(node, Arc::new(Semaphore::new(most))))
    }

    fn describe(&self, node: &NodeConfig, library: &str) -> Result<CustomFacts, CustomError> {
        let code = match self.libraries.get(library) {
            Some(Ok(code)) => code,
            Some(Err(reason)) => return Err(CustomError::NotOpen(reason.clone())),
            None => {
                let known = self.libraries.keys().cloned().collect();
                return Err(CustomError::Library(known));
            }
        };
        let node = match self.node(node, code)? {
            CustomNode::Native(node, _) => node,
            CustomNode::Python(_) => {
                return Ok(CustomFacts {
                    is_open: true,
                    ..CustomFacts::default()
                });
            }
        };
        Ok(CustomFacts {
            inputs: node.inputs().map_err(error)?,
            outputs: node.outputs().map_err(error)?,
            is_open: false,
        })
    }
}

impl Sources for Facts {
    fn name_taken(&self, _name: &str) -> bool {
        self.is_taken
    }

    fn model(&self, name: &str, version: Option<i64>) -> Result<ModelFacts, MissingModel> {
        let serving = || {
            let models = self.models.values();
            let serving = models.filter(|model| model.version(None).is_ok());
            serving.map(|model| model.name().to_owned()).collect()
        };
        let refused = self.refused.get(name);
        // One that serves goes on though its entry is refused by now.
        let goes_on = |model: &&Arc<Model>| refused.is_none() || model.version(None).is_ok();
        let Some(model) = self.models.get(name).filter(goes_on) else {
            return Err(match refused {
                Some(reason) => MissingModel::NotAvailable(reason.clone()),
                None => MissingModel::Unknown(serving()),
            });
        };
        let numbers = || -> Vec<i64> {
            let versions = model.versions();
            let serving = versions.iter().filter(|version| version.is_loaded());
            serving.map(|version| version.number()).collect()
        };
        let Ok(found) = model.version(version) else {
            return Err(match (version, model.versions().last()) {
                (Some(_), _) => MissingModel::Version(numbers()),
                (None, Some(last)) => MissingModel::NotAvailable(state(&last.status())),
                (None, None) => MissingModel::NotAvailable("it has no version".to_owned()),
            });
        };
        match found.loaded() {
            Ok(loaded) => Ok(ModelFacts {
                info: loaded.info.clone(),
                stateful: loaded.is_stateful(),
                auto: loaded.is_auto(),
            }),
            Err(_) => {
                let status = found.status();
                let is_retired = version.is_some() && status.state >= VersionState::Unloading;
                // A version that is retired is refused like one that is not there, with those that serve.
                let others = is_retired.then(numbers).filter(|it| !it.is_empty());
                let gone = || MissingModel::NotAvailable(state(&status));
                Err(others.map_or_else(gone, MissingModel::Version))
            }
        }
    }

    fn custom(&self, node: &NodeConfig, library: &str) -> Result<CustomFacts, CustomError> {
        let mut described = self.described.borrow_mut();
        if let Some((_, known)) = described.iter().find(|(known, _)| known == node) {
            return known.clone();
        }
        let facts = self.describe(node, library);
        described.push((node.clone(), facts.clone()));
        facts
    }

    fn is_python(&self, library: &str) -> bool {
        let code = self.libraries.get(library);
        code.is_some_and(|code| matches!(code.as_deref(), Ok(Code::Python(_))))
    }
}

/// Describes the state of a version that does not serve.
fn state(status: &crate::model::Status) -> String {
    match (status.state, &status.failure) {
        (_, Some(failure)) => failure.to_string(),
        (VersionState::Unloading | VersionState::End, None) => "it is retired".to_owned(),
        (_, None) if status.code == crate::model::VersionErrorCode::Ok => {
            "it is loading".to_owned()
        }
        (_, None) => "its load failed".to_owned(),
    }
}

/// Logs why a custom node cannot be used, and says it to the check.
fn error(error: NodeError) -> CustomError {
    tracing::error!("{error}");
    error.into()
}
