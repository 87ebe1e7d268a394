//! Names that a changed file gives twice: what serves under them goes on.

use super::{done::Done, error::ReloadError, reloader::Reloader};
use crate::config::{EntryError, EntryKind, FileConfig, ModelConfig, ModelEntry, RepeatedName};

impl Reloader {
    /// Puts what serves in the place of the first of several entries of one name, where that is another one: a
    /// file that is ambiguous replaces nothing. `None` if there is nothing to put.
    pub(super) fn hold_repeated(&self, config: &FileConfig, done: &mut Done) -> Option<FileConfig> {
        let mut held = None;
        for repeated in &config.repeated {
            if !self.hold(repeated, config, &mut held) {
                continue;
            }
            let error = ReloadError::Repeated(repeated.clone());
            if repeated.kind == EntryKind::Model {
                let name = repeated.name.clone();
                done.held.push((name, error.to_string()));
            }
            done.errors.push(error);
        }
        held
    }

    /// Holds one of them; returns whether that was due.
    fn hold(
        &self,
        repeated: &RepeatedName,
        given: &FileConfig,
        held: &mut Option<FileConfig>,
    ) -> bool {
        let name = repeated.name.as_str();
        let config = held.as_ref().unwrap_or(given);
        match repeated.kind {
            EntryKind::Model => {
                let served = self.served.get(name).filter(|served| served.serves());
                let Some(before) = served.and_then(|served| served.config.as_ref()) else {
                    return false;
                };
                let of_name = |it: &ModelEntry| match it {
                    ModelEntry::Model(model) => model.name == name,
                    ModelEntry::Refused(_) => false,
                };
                let Some(at) = config.models.iter().position(of_name) else {
                    return false;
                };
                if matches!(&config.models[at], ModelEntry::Model(first) if **first == *before) {
                    return false;
                }
                let models = &mut held.get_or_insert_with(|| given.clone()).models;
                models[at] = ModelEntry::Model(Box::new(ModelConfig::clone(before)));
                // The error of both entries takes the place of that of the second.
                models.retain(|it| {
                    let ModelEntry::Refused(refused) = it else {
                        return true;
                    };
                    refused.name != name || refused.reason != EntryError::Occupied
                });
            }
            EntryKind::Pipeline => {
                let mut pipelines = config.pipelines.iter();
                let at = pipelines.position(|pipeline| pipeline.name == name);
                let (Some(at), Some(before)) = (at, self.pipelines.serving(name)) else {
                    return false;
                };
                if config.pipelines[at].is_same(before) {
                    return false;
                }
                let held = held.get_or_insert_with(|| given.clone());
                held.pipelines[at] = before.clone();
            }
            EntryKind::Graph => {
                let at = config.graphs.iter().position(|graph| graph.name == name);
                let (Some(at), Some(before)) = (at, self.graphs.serving(name)) else {
                    return false;
                };
                if config.graphs[at].is_same(before) {
                    return false;
                }
                let held = held.get_or_insert_with(|| given.clone());
                held.graphs[at] = before.clone();
            }
        }
        true
    }
}
