//! The models that graphs bring along, in files of their own.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::error::ReloadError;
use crate::{
    config::{self, Defaults, FileConfig, GraphConfig, ModelEntry, RepeatedName},
    task,
};

/// Last contents of the sub-configurations.
pub(super) struct Subconfigs {
    defaults: Arc<Defaults>,
    known: BTreeMap<PathBuf, Listed>,
    /// The file of each graph.
    of: BTreeMap<String, PathBuf>,
}

/// Contents of a sub-configuration.
#[derive(Default, PartialEq)]
struct Listed {
    models: Vec<ModelEntry>,
    repeated: Vec<RepeatedName>,
}

impl Subconfigs {
    pub(super) fn new(defaults: Defaults) -> Self {
        Self {
            defaults: Arc::new(defaults),
            known: BTreeMap::new(),
            of: BTreeMap::new(),
        }
    }

    /// Reads the files that the graphs name. One that cannot be read leaves the models that it named
    /// before, and so does a graph that `serves` and is not there any more: it goes on. Returns whether
    /// any names other models now.
    pub(super) async fn read(
        &mut self,
        config: &FileConfig,
        serves: impl Fn(&str) -> bool,
        errors: &mut Vec<ReloadError>,
    ) -> bool {
        let serving = config.graphs.iter().filter(|graph| serves(&graph.name));
        let absent = absent(serving).await;
        let of = |graph: &GraphConfig| {
            let before = self
                .of
                .get(&graph.name)
                .filter(|_| absent.contains(&graph.name));
            before.unwrap_or(&graph.subconfig).clone()
        };
        self.of = config
            .graphs
            .iter()
            .map(|it| (it.name.clone(), of(it)))
            .collect();
        let listed: BTreeSet<&Path> = self.of.values().map(PathBuf::as_path).collect();
        let present = config
            .graphs
            .iter()
            .filter(|graph| !absent.contains(&graph.name));
        let present: BTreeSet<&Path> = present.map(|graph| graph.subconfig.as_path()).collect();
        self.known.retain(|path, _| listed.contains(path.as_path()));
        let mut changed = false;
        for path in listed {
            if !present.contains(path) && self.known.contains_key(path) {
                continue;
            }
            let (from, defaults) = (path.to_owned(), Arc::clone(&self.defaults));
            let read = move || config::read_subconfig(&from, &defaults);
            let models = match task::blocking("read subconfig", read).await {
                Ok(models) => models.unwrap_or_default(),
                Err(source) => {
                    let mut graphs = config.graphs.iter();
                    let graph = graphs.find(|graph| graph.subconfig == path);
                    errors.push(ReloadError::Subconfig {
                        graph: graph.map(|graph| graph.name.clone()).unwrap_or_default(),
                        source,
                    });
                    continue;
                }
            };
            let FileConfig {
                mut models,
                mut repeated,
                ..
            } = models;
            let refused = models.iter_mut().filter_map(|entry| match entry {
                ModelEntry::Refused(refused) => Some(&mut refused.place),
                ModelEntry::Model(_) => None,
            });
            let repeating = repeated.iter_mut();
            let repeating = repeating.flat_map(|it| [&mut it.first, &mut it.again]);
            for place in refused.chain(repeating) {
                place.path = format!("{} in {}", place.path, path.display());
            }
            let before = self.known.get(path);
            let listed = Listed { models, repeated };
            changed |= before.map_or(!listed.models.is_empty(), |before| *before != listed);
            self.known.insert(path.to_owned(), listed);
        }
        changed
    }

    /// Adds the models to those of the file. A name that is taken stays with who has it, which
    /// is logged if `is_reported`.
    pub(super) fn add_to(
        &self,
        config: &FileConfig,
        is_taken: impl Fn(&str) -> bool,
        is_reported: bool,
    ) -> Option<FileConfig> {
        if self.known.values().all(|it| it.models.is_empty()) {
            return None;
        }
        let mut config = config.clone();
        let mut seen = BTreeSet::new();
        for graph in config.graphs.clone() {
            let path = self.of.get(&graph.name).unwrap_or(&graph.subconfig);
            if !seen.insert(path.clone()) {
                continue;
            }
            let Some(listed) = self.known.get(path) else {
                continue;
            };
            for entry in &listed.models {
                let name = entry.name();
                let is_other = |other: &ModelEntry| other.name() == name;
                if !config.models.iter().any(is_other) && !is_taken(name) {
                    config.models.push(entry.clone());
                    let repeated = listed.repeated.iter().filter(|it| it.name == name);
                    config.repeated.extend(repeated.cloned());
                } else if is_reported {
                    tracing::warn!(
                        "{}: the model `{name}` is skipped, since its name is taken; the first one is used",
                        path.display()
                    );
                }
            }
        }
        Some(config)
    }
}

/// Returns the names of the graphs of which there is no file.
async fn absent(graphs: impl Iterator<Item = &GraphConfig>) -> BTreeSet<String> {
    let files: Vec<_> = graphs
        .map(|it| (it.name.clone(), it.graph_path.clone()))
        .collect();
    let look = move || {
        let absent = files.into_iter().filter(|(_, path)| !path.is_file());
        absent.map(|(name, _)| name).collect()
    };
    task::blocking("look for graphs", look).await
}
