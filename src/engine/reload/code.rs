//! Code of custom nodes: shared libraries, and Python handlers.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
    sync::{Arc, Weak},
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;
use tokio::time::timeout;

use super::{pass::PassReason, served::Trigger};
use crate::{
    config::{LibraryConfig, NodeKind, PipelineConfig},
    custom_node::{Library, LibraryError},
    graph::{Fingerprint, Written},
    pipeline::python::is_handler,
    python, task,
};

/// Code of a custom node.
pub(super) enum Code {
    /// A shared library, which is open.
    Native(Arc<Library>),
    /// A Python handler, of which each node runs the file anew.
    Python(Script),
}

/// A Python handler.
pub(super) struct Script {
    pub(super) path: PathBuf,
    /// Fingerprint of the file and of the modules beside it.
    files: Fingerprint,
    /// Modification times of these files, as far as known.
    written: Mutex<Written>,
}

/// Code, or why there is none.
pub(super) type Opened = Result<Arc<Code>, String>;

/// The libraries of a configuration file.
#[derive(Default)]
pub(super) struct Libraries(BTreeMap<String, Known>);

/// A library, as far as it could be opened.
struct Known {
    path: PathBuf,
    /// Size and modification time of the file.
    file: Option<(u64, SystemTime)>,
    code: Opened,
}

impl Libraries {
    /// Opens the libraries that are new or elsewhere, and tries those again that could not be opened:
    /// if somebody asks for it, or if the file is another one by now. Handlers that have changed
    /// become others; the watcher reads none whose files have the times that they had.
    pub(super) async fn open(
        &mut self,
        listed: &[LibraryConfig],
        why: PassReason,
        limit: Duration,
    ) {
        let is_listed = |name: &str| listed.iter().any(|library| library.name == name);
        let (kept, gone) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|(name, _)| is_listed(name));
        self.0 = kept;
        drop_elsewhere(gone);
        for library in listed {
            let known = self.0.get(&library.name);
            let known = known.filter(|known| known.path == library.base_path);
            let is_quiet = why.trigger == Trigger::Watch && !why.renewed;
            let before = known.and_then(|known| known.code.as_ref().ok()).cloned();
            if before.as_ref().is_some_and(|it| it.is_lasting()) {
                continue;
            }
            let failed = known.filter(|known| known.code.is_err());
            let failed = failed.map(|known| known.file);
            let (name, path) = (library.name.clone(), library.base_path.clone());
            let late = (!is_quiet || before.is_none()).then(|| Known {
                path: path.clone(),
                file: None,
                code: Err(format!("it took longer than {limit:?} to open")),
            });
            let opened = task::blocking("open custom node library", move || {
                let file = look(&path);
                let is_saved = before.as_ref().is_some_and(|it| it.is_saved());
                if is_quiet && !is_saved && (before.is_some() || failed == Some(file)) {
                    return None;
                }
                let code = Code::open(&name, &path);
                let is_same = |code: &Arc<Code>| before.is_some_and(|before| before.takes(code));
                if code.as_ref().is_ok_and(is_same) {
                    return None;
                }
                Some(Known { path, file, code })
            });
            let opened = timeout(limit, opened).await.unwrap_or_else(|_| {
                tracing::error!(
                    "library {}: took longer than {limit:?} to open",
                    library.name
                );
                // The watcher takes nothing away for that.
                late
            });
            if let Some(opened) = opened {
                drop_elsewhere(self.0.insert(library.name.clone(), opened));
            }
        }
    }

    /// Returns each library as it is at the moment.
    pub(super) fn all(&self) -> BTreeMap<String, Opened> {
        let all = self.0.iter();
        all.map(|(name, known)| (name.clone(), known.code.clone()))
            .collect()
    }

    /// Finds the libraries of a pipeline's custom nodes; those that are not open are nothing.
    pub(super) fn of(&self, config: &PipelineConfig) -> Vec<Weak<Code>> {
        let nodes = config.nodes.iter().filter_map(|node| match &node.kind {
            NodeKind::Custom { library_name, .. } => {
                let code = self.0.get(library_name)?.code.as_ref();
                Some(code.map_or_else(|_| Weak::new(), Arc::downgrade))
            }
            NodeKind::Model { .. } => None,
        });
        nodes.collect()
    }
}

impl Code {
    /// Opens a library, or looks at a handler. Blocks.
    fn open(name: &str, path: &Path) -> Opened {
        let opened = if is_handler(path) {
            Script::look(name, path).map(Self::Python)
        } else {
            Library::open(name, path).map(Self::Native)
        };
        opened.map(Arc::new).map_err(|error| {
            tracing::error!("{error}");
            error.into_reason()
        })
    }

    /// Returns whether it stays as it is for as long as it is open.
    fn is_lasting(&self) -> bool {
        matches!(self, Self::Native(_))
    }

    /// Returns whether a Python file was written since they were last looked at.
    fn is_saved(&self) -> bool {
        match self {
            Self::Native(_) => false,
            Self::Python(script) => script.files.written() != *script.written.lock(),
        }
    }

    /// Takes the place of what was opened later, if the code of both is the same.
    fn takes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Python(a), Self::Python(b)) if a.path == b.path && a.files == b.files => {
                a.written.lock().clone_from(&b.written.lock());
                true
            }
            _ => false,
        }
    }
}

impl Script {
    /// Looks at a handler. Nothing of it runs.
    fn look(name: &str, path: &Path) -> Result<Self, LibraryError> {
        if path.components().any(|part| part == Component::ParentDir) {
            return Err(LibraryError::Escape(path.to_owned()));
        }
        let refuse = |reason: &str| LibraryError::Open {
            name: name.to_owned(),
            path: path.to_owned(),
            reason: format!("{}: {reason}", path.display()),
        };
        match path.metadata() {
            Err(error) => return Err(refuse(&error.to_string())),
            Ok(found) if !found.is_file() => return Err(refuse("not a regular file")),
            Ok(_) => {}
        }
        if !python::AVAILABLE {
            return Err(refuse(
                "custom nodes in Python need a build with the feature `python`",
            ));
        }
        let files = Fingerprint::of_handler(path);
        Ok(Self {
            path: path.to_owned(),
            written: Mutex::new(files.written()),
            files,
        })
    }
}

/// Looks at a file: its size and when it was written.
fn look(path: &Path) -> Option<(u64, SystemTime)> {
    let found = path.metadata().ok()?;
    Some((found.len(), found.modified().ok()?))
}

/// Lets go of custom nodes or libraries, which may run code of theirs: not on an async worker.
pub(super) fn drop_elsewhere<T: Send + 'static>(
    custom: impl IntoIterator<Item = T> + Send + 'static,
) {
    task::Task::spawn(task::blocking("drop custom nodes", move || drop(custom))).detach();
}
