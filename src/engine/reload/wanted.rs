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
        &self,
        config: &FileConfig,
        done: &mut Done,
    ) -> BTreeMap<String, ModelConfig> {
        let mut wanted = BTreeMap::new();
        done.errors.extend(config.refused.iter().map(|refused| {
            let (name, place) = (refused.name.clone(), refused.place.to_string());
            match refused.reason.clone() {
                reason @ EntryError::PipelineName => ReloadError::PipelineEntry {
                    name,
                    place,
                    reason,
                },
                reason @ EntryError::GraphName => ReloadError::GraphEntry {
                    name,
                    place,
                    reason,
                },
                reason => ReloadError::Entry {
                    name,
                    place,
                    reason,
                },
            }
        }));
        for entry in &config.models {
            let (name, refused, place) = match entry {
                ModelEntry::Model(model)
                    if !wanted.contains_key(&model.name)
                        && !self.pipelines.has(&model.name)
                        && !self.graphs.has(&model.name) =>
                {
                    wanted.insert(model.name.clone(), ModelConfig::clone(model));
                    continue;
                }
                ModelEntry::Model(model) => (&model.name, EntryError::Occupied, None),
                ModelEntry::Refused {
                    name,
                    reason,
                    place,
                } => (name, reason.clone(), Some(place)),
            };
            // An entry that was good before goes on as it was; of two with one name the first
            // counts.
            if !wanted.contains_key(name)
                && let Some(served) = self.served.get(name)
            {
                served.keep(&refused.to_string());
            }
            done.errors.push(ReloadError::Entry {
                name: name.clone(),
                place: place.map(ToString::to_string).unwrap_or_default(),
                reason: refused,
            });
        }
        wanted
    }
}
