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
    config::{
        self, Defaults, FileConfig, FileError, GraphConfig, ModelConfig, ModelEntry, PathSource,
    },
    model::storage::is_remote,
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
    /// Model of the flags, whose folder may come to hold a graph.
    Model(AwaitedGraph),
    File(ConfigFile),
    Paths {
        source: Arc<PathSource>,
        /// The paths and what was found there last; `None` before the first look.
        looked: Option<(Paths, Vec<Found>)>,
        /// Configuration files in the folders of graphs.
        known: KnownFiles,
    },
}

/// Folder of the model of the flags, which is served as a graph if it comes to hold one before any version.
struct AwaitedGraph {
    name: String,
    folder: PathBuf,
    /// Names of given flags that no graph has.
    unfit: Vec<&'static str>,
    /// Indicates that a graph was found and cannot be served for these.
    is_refused: bool,
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

    /// Makes the reader of the one model of the flags; `unfit` are those of them that no graph has.
    pub(super) fn of_model(model: Box<ModelConfig>, unfit: Vec<&'static str>) -> Self {
        // Absolute, as at a start: handlers are given their path.
        let folder = PathBuf::from(&model.base_path);
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        let origin = match is_remote(&model.base_path) {
            true => Origin::Given,
            false => Origin::Model(AwaitedGraph {
                name: model.name.clone(),
                folder,
                unfit,
                is_refused: false,
            }),
        };
        let config = FileConfig {
            models: vec![ModelEntry::Model(model)],
            ..FileConfig::default()
        };
        Self {
            origin,
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
    /// of `idle` models, which serve nothing, may be graphs by now, and so may the one model of the flags.
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
            Origin::Model(awaited) => {
                if idle.into_iter().next().is_none() {
                    return Ok(false);
                }
                let Some(graph) = awaited.look().await else {
                    return Ok(false);
                };
                tracing::info!("the folder of a model that serves nothing holds a graph now");
                self.config = Arc::new(FileConfig {
                    graphs: vec![graph],
                    ..FileConfig::default()
                });
                self.origin = Origin::Given;
                Ok(true)
            }
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

impl AwaitedGraph {
    /// Finds the graph, unless there are flags that it cannot have.
    async fn look(&mut self) -> Option<GraphConfig> {
        let (name, folder) = (self.name.clone(), self.folder.clone());
        let look = move || PathSource::graph_of(&name, &folder);
        let Some(graph) = task::blocking("look for a graph", look).await else {
            self.is_refused = false;
            return None;
        };
        if self.unfit.is_empty() {
            return Some(graph);
        }
        if !std::mem::replace(&mut self.is_refused, true) {
            tracing::warn!(
                "the folder of a model that serves nothing holds the graph {}, which is not served: graphs do not take {}; \
                 start the server without them",
                graph.graph_path.display(),
                self.unfit.join(", ")
            );
        }
        None
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::Reader;
    use crate::config::{Config, ConfigSource, FlagEnvironment, Flags};

    #[tokio::test]
    async fn the_folder_of_the_model_of_the_flags_may_come_to_hold_a_graph() {
        let folder = tempfile::tempdir().unwrap();
        let reader = |layout: Option<&str>| {
            let flags = Flags {
                model_name: Some("m".to_owned()),
                model_path: Some(folder.path().to_owned()),
                port: 1,
                layout: layout.map(str::to_owned),
                ..Flags::default()
            };
            let config = Config::from_flags(flags, &FlagEnvironment::default()).unwrap();
            let ConfigSource::Model { model, unfit, .. } = config.source else {
                panic!("no model");
            };
            Reader::of_model(model, unfit)
        };
        let (mut fit, mut unfit) = (reader(None), reader(Some("NC")));
        assert!(!fit.look(["m"]).await.unwrap());
        fs::write(folder.path().join("graph.pbtxt"), "").unwrap();
        // One that has versions stays a model.
        assert!(!fit.look([]).await.unwrap());
        assert_eq!(fit.last().models.len(), 1);
        assert!(fit.look(["m"]).await.unwrap());
        assert!(fit.last().models.is_empty());
        assert_eq!(fit.last().graphs[0].name, "m");
        assert!(!fit.look(["m"]).await.unwrap());
        // One with flags that no graph has does, too.
        assert!(!unfit.look(["m"]).await.unwrap());
        assert_eq!(unfit.last().models.len(), 1);
    }
}
