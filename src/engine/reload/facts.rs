//! What the check of a pipeline is told: the models and libraries of the moment, and the custom nodes
//! that are made for it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Semaphore;

use crate::{
    custom_node::{Library, Node, NodeError},
    model::{Model, State},
    pipeline::{CustomFacts, CustomFault, MissingModel, ModelFacts, Sources},
};

/// A custom node of a pipeline's node.
#[derive(Clone)]
pub(super) struct Made {
    library: Arc<Library>,
    params: Vec<(String, String)>,
    pub(super) node: Arc<Node>,
    /// Bounds its runs, whichever definition they are of.
    pub(super) gate: Arc<Semaphore>,
}

/// A library, or why it does not open.
pub(super) type Opened = Result<Arc<Library>, String>;

/// The models and libraries of the moment.
pub(super) struct Facts {
    /// The name of the pipeline, if a model has it.
    taken: Option<String>,
    models: Arc<BTreeMap<String, Arc<Model>>>,
    libraries: BTreeMap<String, Opened>,
    /// The custom nodes that the pipeline has.
    kept: BTreeMap<String, Made>,
    /// Those that it is to have.
    made: Mutex<BTreeMap<String, Made>>,
    custom_runs: usize,
}

impl Facts {
    pub(super) fn new(
        models: Arc<BTreeMap<String, Arc<Model>>>,
        libraries: BTreeMap<String, Opened>,
        kept: BTreeMap<String, Made>,
        custom_runs: usize,
    ) -> Self {
        Self {
            taken: None,
            models,
            libraries,
            kept,
            made: Mutex::default(),
            custom_runs,
        }
    }

    /// Only says that a name is taken.
    pub(super) fn taken(name: String) -> Self {
        let nothing = Self::new(Arc::default(), BTreeMap::new(), BTreeMap::new(), 1);
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
        name: &str,
        library: &Arc<Library>,
        params: &[(String, String)],
    ) -> Result<Made, CustomFault> {
        let kept = self.kept.get(name);
        let same = |made: &&Made| Arc::ptr_eq(&made.library, library) && made.params == params;
        if let Some(made) = kept.filter(same) {
            return Ok(made.clone());
        }
        let pairs = params
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()));
        let node = Node::initialize(library, pairs).map_err(fault)?;
        let most = self.custom_runs.clamp(1, Semaphore::MAX_PERMITS);
        Ok(Made {
            library: Arc::clone(library),
            params: params.to_vec(),
            node,
            gate: Arc::new(Semaphore::new(most)),
        })
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
        node: &str,
        library: &str,
        params: &[(String, String)],
    ) -> Result<CustomFacts, CustomFault> {
        let opened = match self.libraries.get(library) {
            Some(Ok(opened)) => opened,
            Some(Err(reason)) => return Err(CustomFault::NotOpen(reason.clone())),
            None => {
                let known = self.libraries.keys().cloned().collect();
                return Err(CustomFault::Library(known));
            }
        };
        let made = self.node(node, opened, params)?;
        self.made().insert(node.to_owned(), made.clone());
        Ok(CustomFacts {
            inputs: made
                .node
                .inputs()
                .map_err(fault)?
                .into_iter()
                .map(Into::into)
                .collect(),
            outputs: made
                .node
                .outputs()
                .map_err(fault)?
                .into_iter()
                .map(Into::into)
                .collect(),
        })
    }
}

/// Says what a version that does not serve is doing.
fn state(status: &crate::model::Status) -> String {
    match (status.state, &status.failure) {
        (_, Some(failure)) => failure.to_string(),
        (State::Unloading | State::End, None) => "it is retired".to_owned(),
        (_, None) if status.code == crate::model::Code::Ok => "it is loading".to_owned(),
        (_, None) => "its load failed".to_owned(),
    }
}

/// Logs why a custom node cannot be used, and says it to the check.
fn fault(error: NodeError) -> CustomFault {
    tracing::error!("{error}");
    error.into()
}
