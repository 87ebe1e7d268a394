//! Models of a configuration file, and its refused entries.

use std::collections::BTreeMap;

use super::{done::Done, error::ReloadError, reloader::Reloader};
use crate::config::{EntryError, FileConfig, ModelConfig, ModelEntry};

impl Reloader {
    /// Lets models go on as they are that a pipeline uses and could not use any more.
    pub(super) fn hold_back(
        &self,
        config: &FileConfig,
        wanted: &mut BTreeMap<String, ModelConfig>,
        done: &mut Done,
    ) {
        for (name, model) in wanted {
            let before = self.served.get(name);
            let Some(before) = before.and_then(|served| served.config.as_ref()) else {
                continue;
            };
            let text = if model.stateful.is_some() && before.stateful.is_none() {
                "Stateful model cannot be subscribed to pipeline"
            } else if model.load.is_auto() && !before.load.is_auto() {
                "Requested dynamic parameters but model is used in pipeline"
            } else {
                continue;
            };
            if let Some(pipeline) = self.pipelines.user_of(name, config) {
                let error = ReloadError::Subscribed {
                    text,
                    model: name.clone(),
                    pipeline: pipeline.to_owned(),
                };
                done.held.push((name.clone(), error.to_string()));
                done.errors.push(error);
                *model = before.clone();
            }
        }
    }

    /// Returns what is to be served, by name; notes the entries that are refused.
    pub(super) fn wanted(
        &mut self,
        config: &FileConfig,
        done: &mut Done,
    ) -> BTreeMap<String, ModelConfig> {
        let mut wanted = BTreeMap::new();
        let refused = config.refused.iter().cloned();
        done.errors.extend(refused.map(ReloadError::refused));
        for entry in &config.models {
            let error = match entry {
                ModelEntry::Model(model)
                    if !wanted.contains_key(&model.name)
                        && !self.pipelines.has(&model.name)
                        && !self.graphs.has(&model.name) =>
                {
                    wanted.insert(model.name.clone(), ModelConfig::clone(model));
                    continue;
                }
                ModelEntry::Model(model) => ReloadError::Entry {
                    name: model.name.clone(),
                    place: String::new(),
                    reason: EntryError::Occupied,
                },
                ModelEntry::Refused(refused) => ReloadError::refused(refused.clone()),
            };
            // An entry that was good before goes on as it was; of two with one name the first
            // counts.
            if !wanted.contains_key(entry.name())
                && let Some(served) = self.served.get_mut(entry.name())
                && let ReloadError::Entry { reason, .. } = &error
            {
                served.keep(&reason.to_string());
            }
            done.errors.push(error);
        }
        wanted
    }
}
