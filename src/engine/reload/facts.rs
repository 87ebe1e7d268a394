//! Input of the check of a pipeline: the current models and libraries, and the custom nodes that are made
//! for it.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use tokio::sync::Semaphore;

use super::code::{Code, Opened};
use crate::{
    config::NodeConfig,
    custom_node::{Node, NodeError},
    model::{Model, VersionState},
    pipeline::{
        CustomError, CustomFacts, CustomNode, MissingModel, ModelFacts, PythonNode, Sources,
        python::names,
    },
};

/// A custom node of a pipeline's node.
#[derive(Clone)]
pub(super) struct Made {
    of: Of,
    pub(super) node: CustomNode,
}

/// Code of a custom node. One of a library has no business with the names.
#[derive(Clone)]
struct Of {
    code: Arc<Code>,
    params: Vec<(String, String)>,
    names: Option<(Vec<String>, Vec<String>)>,
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
        let is_same = Arc::ptr_eq(&self.of.code, &of.code)
            && self.of.params == of.params
            && self.of.names == of.names;
        match &self.node {
            _ if !is_same => None,
            KeptNode::Native(node) => Some(node.clone()),
            KeptNode::Python(node) => node.upgrade().map(CustomNode::Python),
        }
    }
}

/// The models and libraries of the moment.
pub(super) struct Facts {
    /// The name of the pipeline, if a model has it.
    taken: Option<String>,
    models: Arc<BTreeMap<String, Arc<Model>>>,
    libraries: BTreeMap<String, Opened>,
    /// The custom nodes that the pipeline has.
    kept: BTreeMap<String, Kept>,
    /// Those that it is to have.
    made: Mutex<BTreeMap<String, Made>>,
    custom_runs: usize,
    is_silent: bool,
}

impl Facts {
    pub(super) fn new(
        models: Arc<BTreeMap<String, Arc<Model>>>,
        libraries: BTreeMap<String, Opened>,
        kept: BTreeMap<String, Kept>,
        custom_runs: usize,
        is_silent: bool,
    ) -> Self {
        Self {
            taken: None,
            models,
            libraries,
            kept,
            made: Mutex::default(),
            custom_runs,
            is_silent,
        }
    }

    /// Only says that a name is taken.
    pub(super) fn taken(name: String) -> Self {
        let nothing = Self::new(Arc::default(), BTreeMap::new(), BTreeMap::new(), 1, false);
        Self {
            taken: Some(name),
            ..nothing
        }
    }

    /// Returns the custom nodes, by the names of the pipeline's nodes.
    pub(super) fn into_made(self) -> BTreeMap<String, Made> {
        self.made
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn made(&self) -> MutexGuard<'_, BTreeMap<String, Made>> {
        // An insertion cannot be left half done.
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the custom node of a node: that which it has, if it is made of the same.
    fn node(
        &self,
        node: &NodeConfig,
        code: &Arc<Code>,
        params: &[(String, String)],
    ) -> Result<CustomNode, CustomError> {
        let of = Of {
            code: Arc::clone(code),
            params: params.to_vec(),
            names: match **code {
                Code::Native(_) => None,
                Code::Python(_) => Some(names(node)),
            },
        };
        let kept = self.kept.get(&node.name);
        let made = match kept.and_then(|kept| kept.made(&of)) {
            Some(made) => made,
            None => self.make(node, code, params)?,
        };
        let kept = made.clone();
        self.made()
            .insert(node.name.clone(), Made { of, node: kept });
        Ok(made)
    }

    fn make(
        &self,
        node: &NodeConfig,
        code: &Code,
        params: &[(String, String)],
    ) -> Result<CustomNode, CustomError> {
        match code {
            Code::Native(library) => {
                let pairs = params.iter().map(|(key, value)| (&**key, &**value));
                let node = Node::initialize(library, pairs).map_err(error)?;
                let most = self.custom_runs.clamp(1, Semaphore::MAX_PERMITS);
                Ok(CustomNode::Native(node, Arc::new(Semaphore::new(most))))
            }
            Code::Python(script) => {
                let node = PythonNode::load(node, params, &script.path, self.is_silent)?;
                Ok(CustomNode::Python(Arc::new(node)))
            }
        }
    }
}

impl Sources for Facts {
    fn name_taken(&self, name: &str) -> bool {
        self.taken.as_deref() == Some(name)
    }

    fn model(&self, name: &str, version: Option<i64>) -> Result<ModelFacts, MissingModel> {
        let serving = || {
            let models = self.models.values();
            let serving = models.filter(|model| model.version(None).is_ok());
            serving.map(|model| model.name().to_owned()).collect()
        };
        let Some(model) = self.models.get(name) else {
            return Err(MissingModel::Unknown(serving()));
        };
        let Ok(found) = model.version(version) else {
            let versions = model.versions();
            let serving = versions.iter().filter(|version| version.is_loaded());
            let numbers: Vec<i64> = serving.map(|version| version.number()).collect();
            return Err(match (version, versions.last()) {
                (Some(_), _) => MissingModel::Version(numbers),
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
            Err(_) => Err(MissingModel::NotAvailable(state(&found.status()))),
        }
    }

    fn custom(
        &self,
        node: &NodeConfig,
        library: &str,
        params: &[(String, String)],
    ) -> Result<CustomFacts, CustomError> {
        let code = match self.libraries.get(library) {
            Some(Ok(code)) => code,
            Some(Err(reason)) => return Err(CustomError::NotOpen(reason.clone())),
            None => {
                let known = self.libraries.keys().cloned().collect();
                return Err(CustomError::Library(known));
            }
        };
        let node = match self.node(node, code, params)? {
            CustomNode::Native(node, _) => node,
            CustomNode::Python(_) => {
                return Ok(CustomFacts {
                    is_open: true,
                    ..CustomFacts::default()
                });
            }
        };
        let (inputs, outputs) = (
            node.inputs().map_err(error)?,
            node.outputs().map_err(error)?,
        );
        Ok(CustomFacts {
            inputs: inputs.into_iter().map(Into::into).collect(),
            outputs: outputs.into_iter().map(Into::into).collect(),
            is_open: false,
        })
    }

    fn is_python(&self, library: &str) -> bool {
        let code = self.libraries.get(library);
        code.is_some_and(|code| matches!(code.as_deref(), Ok(Code::Python(_))))
    }
}

/// Facts that ask for each custom node once, since asking may make it, and say the same again to
/// whoever draws.
pub(super) struct Heard<'a> {
    facts: &'a Facts,
    custom: RefCell<Vec<(NodeConfig, Result<CustomFacts, CustomError>)>>,
}

impl<'a> Heard<'a> {
    pub(super) fn new(facts: &'a Facts) -> Self {
        let custom = RefCell::default();
        Self { facts, custom }
    }
}

impl Sources for Heard<'_> {
    fn name_taken(&self, name: &str) -> bool {
        self.facts.name_taken(name)
    }

    fn model(&self, name: &str, version: Option<i64>) -> Result<ModelFacts, MissingModel> {
        self.facts.model(name, version)
    }

    fn custom(
        &self,
        node: &NodeConfig,
        library: &str,
        params: &[(String, String)],
    ) -> Result<CustomFacts, CustomError> {
        let mut custom = self.custom.borrow_mut();
        if let Some((_, heard)) = custom.iter().find(|(known, _)| known == node) {
            return heard.clone();
        }
        let heard = self.facts.custom(node, library, params);
        custom.push((node.clone(), heard.clone()));
        heard
    }

    fn is_python(&self, library: &str) -> bool {
        self.facts.is_python(library)
    }
}

/// Says what a version that does not serve is doing.
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
