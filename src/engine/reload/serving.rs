//! Fate of a pipeline in service whose replacement is refused: it stays for as long as the models that it
//! uses allow it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use super::{
    checked::{Finds, check},
    code::Opened,
    facts::{Facts, Kept},
    pass::{are_same, found},
};
use crate::{
    config::{NodeKind, PipelineConfig},
    model::{Loaded, Model},
    pipeline,
};

/// Basis of a check, and of the definition that came of it.
#[derive(Clone)]
pub(super) struct Basis {
    pub(super) config: PipelineConfig,
    /// Models that the configuration names, as they are; one that is not there is nothing.
    pub(super) models: Vec<Weak<Loaded>>,
}

/// State of the serving definition before a check.
pub(super) enum Before {
    /// No definition, or one that goes if the check fails: it is what is checked, with other models.
    Goes,
    /// The models are what they were, so that the definition may go on.
    Stays,
    /// A definition of which some models are others by now: it has to be checked as well before it goes on.
    Again(Box<(Basis, Facts)>),
}

/// Definition that is left after a failed check.
pub(super) enum Left {
    /// No definition.
    Nothing,
    /// The definition that serves, as it is.
    Same,
    /// The definition that serves, valid with its present models as well.
    Sound(Box<(Basis, pipeline::CheckedPipeline, Finds)>),
}

impl Basis {
    pub(super) fn new(config: PipelineConfig, models: &BTreeMap<String, Arc<Model>>) -> Self {
        Self {
            models: found(&config, models),
            config,
        }
    }

    /// Returns the state of the definition against the current models, should this configuration be
    /// refused with these libraries. `custom` are its custom nodes; `facts` makes the facts of a check
    /// from libraries.
    pub(super) fn before(
        &self,
        config: &PipelineConfig,
        models: &BTreeMap<String, Arc<Model>>,
        mut libraries: BTreeMap<String, Opened>,
        custom: &BTreeMap<String, Kept>,
        facts: impl FnOnce(BTreeMap<String, Opened>) -> Facts,
    ) -> Before {
        let now = found(&self.config, models);
        if are_same(&now, &self.models) && now.iter().all(|model| model.strong_count() > 0) {
            return Before::Stays;
        }
        let is_same = as_made(&self.config, custom, &mut libraries);
        if is_same && self.config == *config {
            return Before::Goes;
        }
        let serving = Self {
            config: self.config.clone(),
            models: now,
        };
        Before::Again(Box::new((serving, facts(libraries))))
    }

    /// Returns whether its models are those of the moment.
    pub(super) fn has(&self, models: &BTreeMap<String, Arc<Model>>) -> bool {
        are_same(&found(&self.config, models), &self.models)
    }
}

impl Before {
    /// Finds what is left to serve.
    pub(super) async fn left(self, limit: Duration) -> Left {
        match self {
            Self::Goes => Left::Nothing,
            Self::Stays => Left::Same,
            Self::Again(again) => {
                let (serving, facts) = *again;
                match check(&serving.config, facts, limit).await {
                    (Ok(checked), finds) => Left::Sound(Box::new((serving, checked, finds))),
                    (Err(_), _) => Left::Nothing,
                }
            }
        }
    }
}

/// Puts the code that custom nodes are made of in the place of what their libraries are by now. Returns
/// whether it is the same.
fn as_made(
    config: &PipelineConfig,
    custom: &BTreeMap<String, Kept>,
    libraries: &mut BTreeMap<String, Opened>,
) -> bool {
    let mut is_same = true;
    for node in &config.nodes {
        let NodeKind::Custom { library_name, .. } = &node.kind else {
            continue;
        };
        let Some(code) = custom.get(&node.name).map(Kept::code) else {
            continue;
        };
        let now = libraries.insert(library_name.clone(), Ok(Arc::clone(&code)));
        is_same &= now.is_some_and(|now| now.is_ok_and(|now| Arc::ptr_eq(&now, &code)));
    }
    is_same
}
