//! Reads the configuration when it is another one: a file, or what is at the paths of the command line.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{
    error::ReloadError,
    nested::KnownFiles,
    paths::{Found, PathError, Paths, changes, configured},
};
use crate::{
    config::{self, Defaults, FileConfig, FileError, PathSource},
    task,
};

/// Number of attempts to read a file, which may be just being written.
const TRIES: u32 = 3;
/// The time between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// The configuration that was read last, and its origin.
pub(super) struct Reader {
    origin: Origin,
    config: Arc<FileConfig>,
}

/// Origin of a configuration.
enum Origin {
    /// Given once.
    Given,
    File(ConfigFile),
    Paths {
        source: Arc<PathSource>,
        /// The paths and what was found there last; `None` before the first look.
        looked: Option<(Paths, Vec<Found>)>,
        /// Configuration files in the folders of graphs.
        known: KnownFiles,
    },
}

struct ConfigFile {
    path: PathBuf,
    defaults: Arc<Defaults>,
    /// The content that the configuration is of.
    content: Option<Arc<[u8]>>,
}

impl Reader {
    /// Makes the reader of a configuration that is not read again.
    pub(super) fn given(config: FileConfig) -> Self {
        Self {
            origin: Origin::Given,
            config: Arc::new(config),
        }
    }

    /// Makes the reader of a file.
    pub(super) fn of_file(path: PathBuf, defaults: Defaults) -> Self {
        let file = ConfigFile {
            path,
            defaults: Arc::new(defaults),
            content: None,
        };
        Self {
            origin: Origin::File(file),
            config: Arc::default(),
        }
    }

    /// Makes the reader of what is at paths.
    pub(super) fn of_paths(source: PathSource) -> Self {
        let source = Arc::new(source);
        Self {
            origin: Origin::Paths {
                source,
                looked: None,
                known: KnownFiles::new(),
            },
            config: Arc::default(),
        }
    }

    /// Reads the configuration again; returns whether it is another one than before. Of a file that is as before, entries
    /// of `idle` models, which serve nothing, may be graphs by now.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be read, or not as a configuration; what was read before is still there, see
    /// [`Reader::last`].
    pub(super) async fn look(
        &mut self,
        idle: impl IntoIterator<Item = &str>,
    ) -> Result<bool, ReloadError> {
        match &mut self.origin {
            Origin::Given => Ok(false),
            Origin::File(file) => {
                let before = file.content.clone();
                let awaited = idle.into_iter();
                let awaited = awaited.filter_map(|name| self.config.graph_files.get(name));
                let awaited: Arc<[PathBuf]> = awaited.flatten().cloned().collect();
                let looked = file.look(&awaited).await.map_err(ReloadError::File)?;
                let Some(config) = looked else {
                    return Ok(false);
                };
                if before == file.content {
                    if config.graphs == self.config.graphs {
                        return Ok(false);
                    }
                    tracing::info!("the folder of an entry that serves nothing holds a graph now");
                } else if before.is_some() {
                    tracing::info!("the configuration file has changed; reloading it");
                    if config.monitoring != self.config.monitoring {
                        tracing::warn!(
                            "{}: monitoring has changed, which takes effect at the next start; until then metrics \
                             stay as they are",
                            file.path.display()
                        );
                    }
                }
                self.config = Arc::new(config);
                Ok(true)
            }
            Origin::Paths {
                source,
                looked,
                known,
            } => {
                let of = Arc::clone(source);
                let before = looked.as_ref().map(|(paths, _)| paths.clone());
                let look = move || -> Result<_, PathError> {
                    let paths = before.map_or_else(|| Paths::open(&of), Ok)?;
                    let found = paths.found()?;
                    Ok((paths, found))
                };
                let now = task::blocking("look at paths", look).await;
                let (paths, found) = now.map_err(ReloadError::Paths)?;
                match looked.replace((paths.clone(), found.clone())) {
                    Some((_, before)) if before == found => return Ok(false),
                    Some((_, before)) => tracing::info!("{}", changes(&before, &found)),
                    None => {}
                }
                let of = Arc::clone(source);
                let mut files = known.clone();
                let configured = move || {
                    let config = configured(&of, &paths, found, &mut files);
                    (config, files)
                };
                let config;
                (config, *known) = task::blocking("read models", configured).await;
                // Those of a file are logged when it is read.
                for warning in config.warnings.iter().filter(|it| it.file.is_none()) {
                    tracing::warn!("{warning}");
                }
                self.config = Arc::new(config);
                Ok(true)
            }
        }
    }

    /// Returns whether single models are named by their paths, and nothing else.
    pub(super) fn names_models_alone(&self) -> bool {
        let Origin::Paths {
            looked: Some((paths, _)),
            ..
        } = &self.origin
        else {
            return false;
        };
        paths.are_fixed() && self.config.graphs.is_empty()
    }

    /// Returns what was read last.
    pub(super) fn last(&self) -> Arc<FileConfig> {
        Arc::clone(&self.config)
    }
}

impl ConfigFile {
    /// Reads the file; `None` if it is as before, and none of the awaited files is there.
    async fn look(&mut self, awaited: &Arc<[PathBuf]>) -> Result<Option<FileConfig>, FileError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let (path, defaults) = (self.path.clone(), Arc::clone(&self.defaults));
            let (before, awaited) = (self.content.clone(), Arc::clone(awaited));
            let read = move || read(&path, &defaults, before.as_deref(), &awaited);
            match task::blocking("read configuration", read).await {
                Ok(None) => return Ok(None),
                Ok(Some((content, config))) => {
                    self.content = Some(content);
                    return Ok(Some(config));
                }
                Err(error) if tries == TRIES => return Err(error),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

/// A file's content, and what it says.
type Content = (Arc<[u8]>, FileConfig);

/// Reads a file; `None` if its content is as before, and none of the awaited files is there.
fn read(
    path: &Path,
    defaults: &Defaults,
    before: Option<&[u8]>,
    awaited: &[PathBuf],
) -> Result<Option<Content>, FileError> {
    let content = config::read_regular(path)?;
    let is_same = before == Some(content.as_slice());
    if is_same && !awaited.iter().any(|path| path.is_file()) {
        return Ok(None);
    }
    let config = config::parse(&content, path, defaults)?;
    Ok(Some((content.into(), config)))
}
