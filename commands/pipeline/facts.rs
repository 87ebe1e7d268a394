//! Properties of the models and custom nodes of a configuration file, found without serving them.
//!
//! Models are read and not compiled; libraries are opened, and their nodes initialized and queried.
//! All of this is lazy, and each model is read once.

use std::{
    cell::{OnceCell, RefCell},
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
};

use ovms::{
    config::{FileConfig, ModelConfig, ModelEntry, NodeConfig, VersionPolicy},
    custom_node::{Library, LibraryError, Node},
    diagnostic::FilePosition,
    error::chain,
    model::{self, VersionFailure, mapping, repository, storage, wanted},
    openvino::{Inspected, ModelLoadError, runtime},
    pipeline::{
        CustomError, CustomFacts, MissingModel, ModelFacts, PythonNode, Sources, python::is_handler,
    },
    python::{self, HandlerLoad, NodeFacts, PythonHandler, WorkerGroup, WorkerOptions},
};

use crate::{graph, places, serve::load_hints::of_load};

/// Facts of a configuration file.
pub(crate) struct ConfigurationFacts<'a> {
    file: &'a FileConfig,
    /// Allows code of custom node libraries to run.
    pub(crate) runs_custom_nodes: bool,
    /// Enables the reading of models.
    pub(crate) reads_models: bool,
    /// Covers everything in the file, by a check of its own: handlers of Python nodes are
    /// imported with the packages configured already, and no objects of them are created; the
    /// consequences in pipelines of errors that have been reported are left out.
    pub(crate) is_of_all: bool,
    /// Virtual environment with the packages of handlers, if one is named.
    pub(crate) environment: Option<PathBuf>,
    /// Presence of a runtime; if there is none, the reason.
    runtime: OnceCell<Result<(), String>>,
    models: RefCell<HashMap<(String, i64), VersionLookup>>,
    libraries: RefCell<HashMap<String, Result<Arc<Library>, String>>>,
    notes: RefCell<Vec<String>>,
    /// Set once the packages of handlers are configured.
    python: OnceCell<()>,
    /// Models and libraries with a reported error.
    reported: RefCell<BTreeSet<Reported>>,
}

/// Item with a reported error.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reported {
    Model(String),
    Library(String),
}

/// Reason for skipping an item with a reported error.
pub(crate) const REPORTED: &str = "its error is reported elsewhere";

/// Result of reading a version.
#[derive(Debug, Clone)]
pub(crate) enum VersionLookup {
    /// Inputs and outputs, and what a load would warn of.
    Info(Inspected),
    /// Error, and the next step.
    Error {
        reason: String,
        hint: Option<String>,
        /// Key of the model that it is about.
        key: &'static str,
    },
    /// Reason why it could not be read.
    Unknown(String),
}

/// Key of what is about no other one.
const BASE_PATH: &str = "base_path";

impl VersionLookup {
    /// Returns the error of the files of a version.
    fn of_files(reason: String) -> Self {
        let (hint, key) = (None, BASE_PATH);
        Self::Error { reason, hint, key }
    }
}

/// Returns the key of a model that the error of its load is about.
fn key_of(error: &ModelLoadError) -> &'static str {
    match error {
        ModelLoadError::UnknownProperty { .. } | ModelLoadError::Property { .. } => "plugin_config",
        ModelLoadError::Device { .. } => "target_device",
        ModelLoadError::Reshape { .. } => "shape",
        _ => BASE_PATH,
    }
}

impl<'a> ConfigurationFacts<'a> {
    /// Creates the facts of a file; nothing is read yet.
    pub(crate) fn new(file: &'a FileConfig) -> Self {
        Self {
            file,
            runs_custom_nodes: true,
            reads_models: true,
            is_of_all: false,
            environment: None,
            runtime: OnceCell::new(),
            models: RefCell::default(),
            libraries: RefCell::default(),
            notes: RefCell::default(),
            python: OnceCell::new(),
            reported: RefCell::default(),
        }
    }

    /// Leaves out the consequences of an error of this item from now on.
    pub(crate) fn report(&self, what: Reported) {
        self.reported.borrow_mut().insert(what);
    }

    /// Returns whether an error of this item has been reported; remembers it in any case.
    fn was_reported(&self, what: Reported) -> bool {
        let is_new = self.reported.borrow_mut().insert(what);
        self.is_of_all && !is_new
    }

    /// Returns whether a runtime was searched for and not found.
    pub(crate) fn lacks_runtime(&self) -> bool {
        self.runtime.get().is_some_and(Result::is_err)
    }

    /// Returns notes, such as about a skipped version.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.notes.borrow().clone()
    }

    /// Finds a model of the file.
    fn entry(&self, name: &str) -> Result<&'a ModelConfig, MissingModel> {
        let mut refused = None;
        for entry in self.file.models.iter().filter(|it| it.name() == name) {
            match entry {
                ModelEntry::Model(model) => return Ok(model),
                ModelEntry::Refused(entry) => refused = Some(&entry.reason),
            }
        }
        Err(match refused {
            Some(reason) => MissingModel::NotAvailable(reason.to_string()),
            None => MissingModel::Unknown(sorted(self.names())),
        })
    }

    fn names(&self) -> impl Iterator<Item = &'a str> {
        self.file.models.iter().map(ModelEntry::name)
    }

    /// Chooses the version that a server would serve, and reads it.
    fn version(
        &self,
        model: &ModelConfig,
        pinned: Option<i64>,
    ) -> Result<VersionLookup, MissingModel> {
        let base_path = &model.base_path;
        if !self.reads_models {
            let reason = "models are not read";
            return Ok(VersionLookup::Unknown(reason.to_owned()));
        }
        if storage::is_remote(base_path) {
            let reason = format!("its files are in the cloud, at {base_path}");
            return Ok(VersionLookup::Unknown(reason));
        }
        let versions = repository::versions(Path::new(base_path));
        let versions = versions.map_err(|error| MissingModel::NotAvailable(error.to_string()))?;
        let mut existing: BTreeMap<i64, PathBuf> = versions.into_iter().collect();
        let mut failure = None;
        loop {
            let numbers: Vec<i64> = existing.keys().copied().collect();
            let chosen = wanted::choose(&model.policy, &numbers);
            if let Some(number) = pinned
                && chosen.contains(&number)
            {
                return Ok(self.looked(model, number, &existing[&number]));
            }
            // The server takes the next lower version in the place of one that it cannot load.
            let validated = match (&model.policy, pinned) {
                (_, None) => chosen.last().copied().into_iter().collect(),
                (VersionPolicy::Latest(_), Some(_)) => chosen.clone(),
                _ => Vec::new(),
            };
            let mut failed = None;
            for number in validated.into_iter().rev() {
                match self.looked(model, number, &existing[&number]) {
                    VersionLookup::Error { reason, .. } => {
                        failed = Some((number, reason));
                        break;
                    }
                    looked if pinned.is_none() => return Ok(looked),
                    _ => {}
                }
            }
            match failed {
                Some((number, reason)) => {
                    existing.remove(&number);
                    self.pass_over(model, number, &reason, existing.is_empty());
                    failure.get_or_insert(format!("version {number}: {reason}"));
                }
                None if pinned.is_some() && !chosen.is_empty() => {
                    return Err(MissingModel::Version(chosen));
                }
                None => {
                    let nothing = || format!("there is no version to serve in {base_path}");
                    return Err(MissingModel::NotAvailable(failure.unwrap_or_else(nothing)));
                }
            }
        }
    }

    /// Notes that a version is skipped for a lower one, if there is one.
    fn pass_over(&self, model: &ModelConfig, number: i64, reason: &str, last: bool) {
        let note = format!(
            "version {number} of the model `{}` cannot be loaded, so a lower one is served: \
             {reason}",
            model.name
        );
        let mut notes = self.notes.borrow_mut();
        if !last && !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// Reads a version, once.
    pub(crate) fn looked(&self, model: &ModelConfig, number: i64, folder: &Path) -> VersionLookup {
        let key = (model.name.clone(), number);
        if let Some(known) = self.models.borrow().get(&key) {
            return known.clone();
        }
        let looked = self.look(model, folder);
        self.models.borrow_mut().insert(key, looked.clone());
        looked
    }

    fn look(&self, model: &ModelConfig, folder: &Path) -> VersionLookup {
        let files = match repository::files(folder) {
            Ok(files) => files,
            Err(error) => return VersionLookup::of_files(chain(&error)),
        };
        // Without a runtime, nothing else reads it.
        let beside = files.folder();
        if let Err(error) = mapping::read(beside) {
            let path = mapping::path(beside);
            return VersionLookup::of_files(format!("{}: {}", path.display(), chain(&error)));
        }
        let opened = self.runtime.get_or_init(|| {
            let opened = runtime::open(&places::all());
            opened.map(|_| ()).map_err(|error| error.to_string())
        });
        if let Err(reason) = opened {
            return VersionLookup::Unknown(reason.clone());
        }
        match model::inspect(&model.name, folder, &model.load) {
            Ok(inspected) => VersionLookup::Info(inspected),
            Err(error @ VersionFailure::Load(ModelLoadError::Runtime(_))) => {
                VersionLookup::Unknown(chain(&error))
            }
            Err(error) => {
                let (hint, key) = match &error {
                    VersionFailure::Load(error) => (of_load(error), key_of(error)),
                    _ => (None, BASE_PATH),
                };
                let reason = chain(&error);
                VersionLookup::Error { reason, hint, key }
            }
        }
    }

    /// Opens a library, once.
    pub(crate) fn library(&self, name: &str, path: &Path) -> Result<Arc<Library>, CustomError> {
        let mut libraries = self.libraries.borrow_mut();
        let opened = libraries
            .entry(name.to_owned())
            .or_insert_with(|| Library::open(name, path).map_err(LibraryError::into_reason));
        opened.clone().map_err(CustomError::NotOpen)
    }
}

impl ConfigurationFacts<'_> {
    /// Returns the file of a library.
    pub(crate) fn path(&self, library: &str) -> Option<&Path> {
        let mut known = self.file.custom_node_libraries.iter();
        let config = known.find(|known| known.name == library)?;
        Some(&config.base_path)
    }

    /// Returns the position of a key of a model in the file, or that of its base path if it does not have the key.
    pub(crate) fn key(&self, model: &str, key: &str) -> Option<&FilePosition> {
        self.file.key(model, key)
    }

    /// Imports a handler that no node uses.
    pub(crate) fn import(&self, name: &str, path: &Path) -> Result<(), CustomError> {
        self.importable(path)?;
        let facts = NodeFacts {
            node_name: name.to_owned(),
            input_names: Vec::new(),
            outputs: Vec::new(),
            handler_path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            params: Some(Vec::new()),
        };
        PythonHandler::inspect(&facts, WorkerOptions::default())?;
        Ok(())
    }

    /// Checks that the handler file exists and that Python is available to import it.
    fn importable(&self, path: &Path) -> Result<(), CustomError> {
        if !path.is_file() {
            let reason = format!("{}: there is no such file", path.display());
            return Err(CustomError::NotOpen(reason));
        }
        if !python::AVAILABLE {
            let reason = "custom nodes in Python need a build with the feature `python`";
            return Err(CustomError::NotOpen(reason.to_owned()));
        }
        if !self.is_of_all {
            let environment = || graph::environment(self.environment.clone(), true);
            self.python.get_or_init(environment);
        }
        Ok(())
    }

    /// Creates the object of a Python node, as the server does, and drops it; or only imports its
    /// handler.
    fn handler(&self, node: &NodeConfig, path: &Path) -> Result<CustomFacts, CustomError> {
        self.importable(path)?;
        let mut pipelines = self.file.pipelines.iter();
        let pipeline = pipelines.find(|pipeline| pipeline.nodes.contains(node));
        let options = pipeline.map(|it| it.workers.clone()).unwrap_or_default();
        let params = node.params();
        if self.is_of_all {
            PythonNode::inspect(node, params, path, options)?;
        } else {
            let of = format!("node {}", node.name);
            let workers = WorkerGroup::new(of, options, Arc::default(), &HandlerLoad::default());
            let loaded = PythonNode::load(&workers, node, params, path, false)?;
            loaded.finalize();
            loaded.fits()?;
        }
        Ok(CustomFacts {
            is_open: true,
            ..CustomFacts::default()
        })
    }
}

impl Sources for ConfigurationFacts<'_> {
    fn name_taken(&self, name: &str) -> bool {
        self.names().any(|model| model == name)
            || self.file.graphs.iter().any(|graph| graph.name == name)
    }

    fn model(&self, name: &str, version: Option<i64>) -> Result<ModelFacts, MissingModel> {
        let found = self.entry(name);
        let (stateful, auto) = match &found {
            Ok(model) => (model.stateful.is_some(), model.load.is_auto()),
            Err(_) => (false, false),
        };
        let not_looked = |reason| MissingModel::NotLooked {
            reason,
            stateful,
            auto,
        };
        let reason = match found.and_then(|model| self.version(model, version)) {
            Ok(VersionLookup::Info(inspected)) => {
                return Ok(ModelFacts {
                    info: inspected.info,
                    stateful,
                    auto,
                });
            }
            Ok(VersionLookup::Unknown(reason)) => return Err(not_looked(reason)),
            Ok(VersionLookup::Error { reason, .. }) | Err(MissingModel::NotAvailable(reason)) => {
                reason
            }
            Err(missing) => return Err(missing),
        };
        Err(match self.was_reported(Reported::Model(name.to_owned())) {
            true => not_looked(REPORTED.to_owned()),
            false => MissingModel::NotAvailable(reason),
        })
    }

    fn custom(&self, node: &NodeConfig, library: &str) -> Result<CustomFacts, CustomError> {
        let known = &self.file.custom_node_libraries;
        let names = || sorted(known.iter().map(|known| known.name.as_str()));
        let path = self.path(library);
        let path = path.ok_or_else(|| CustomError::Library(names()))?;
        if !self.runs_custom_nodes {
            let reason = "custom nodes are not run";
            return Err(CustomError::NotLooked(reason.to_owned()));
        }
        if is_handler(path) {
            return self.handler(node, path);
        }
        let opened = self.library(library, path);
        if opened.is_err() && self.was_reported(Reported::Library(library.to_owned())) {
            return Err(CustomError::NotLooked(REPORTED.to_owned()));
        }
        let library = opened?;
        let params = node.params().iter();
        let params = params.map(|(key, value)| (&**key, &**value));
        let node = Node::initialize(&library, params)?;
        Ok(CustomFacts {
            inputs: node.inputs()?,
            outputs: node.outputs()?,
            is_open: false,
        })
    }

    fn is_python(&self, library: &str) -> bool {
        self.path(library).is_some_and(is_handler)
    }
}

/// Lists names as a server does: each once, sorted.
fn sorted<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let names: BTreeSet<&str> = names.collect();
    names.into_iter().map(str::to_owned).collect()
}
