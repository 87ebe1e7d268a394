//! What becomes of a pipeline that serves when the check refuses what is to take its place: it goes on
//! for as long as the models that it uses allow it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use super::{
    checked::{Finds, check},
    code::Opened,
    facts::{Facts, Kept},
    pipelines::{are_same, found},
};
use crate::{
    config::{NodeKind, PipelineConfig},
    model::{Loaded, Model},
    pipeline,
};

/// What the definition that serves was made of.
pub(super) struct Serving {
    pub(super) config: PipelineConfig,
    pub(super) models: Vec<Weak<Loaded>>,
}

/// How the definition that serves stands before a check.
pub(super) enum Before {
    /// There is none, or it goes if the check fails: its own entry does not fit its models any more.
    Goes,
    /// Its models are what they were, so that it may go on.
    Stays,
    /// Some of its models are others by now: it has to be checked as well before it goes on.
    Again(Box<Again>),
}

/// What another check of a definition that serves needs.
pub(super) struct Again {
    serving: Serving,
    facts: Facts,
}

/// What is left to serve once a check has failed.
pub(super) enum Left {
    /// Nothing.
    Nothing,
    /// The definition that serves, as it is.
    Same,
    /// It is sound with its present models as well.
    Sound(Box<(Serving, pipeline::Checked, Finds)>),
}

impl Serving {
    /// Tells how it stands with the models of the moment, should this configuration be refused.
    /// `facts` are those of the moment, with the custom nodes that it has.
    pub(super) fn before(
        &self,
        config: &PipelineConfig,
        models: &BTreeMap<String, Arc<Model>>,
        facts: impl FnOnce(&PipelineConfig) -> Facts,
    ) -> Before {
        let now = found(&self.config, models);
        if are_same(&now, &self.models) && now.iter().all(|model| model.strong_count() > 0) {
            return Before::Stays;
        }
        if self.config == *config {
            return Before::Goes;
        }
        Before::Again(Box::new(Again {
            facts: facts(&self.config),
            serving: Self {
                config: self.config.clone(),
                models: now,
            },
        }))
    }

    /// Tells whether its models are those of the moment.
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
                let Again { serving, facts } = *again;
                match check(&serving.config, facts, limit).await {
                    (Ok(checked), finds) => Left::Sound(Box::new((serving, checked, finds))),
                    (Err(_), _) => Left::Nothing,
                }
            }
        }
    }
}

/// Puts the code that custom nodes are made of in the place of what their libraries are by now.
pub(super) fn as_made(
    config: &PipelineConfig,
    custom: &BTreeMap<String, Kept>,
    libraries: &mut BTreeMap<String, Opened>,
) {
    for node in &config.nodes {
        if let (NodeKind::Custom { library_name, .. }, Some(kept)) =
            (&node.kind, custom.get(&node.name))
        {
            libraries.insert(library_name.clone(), Ok(kept.code()));
        }
    }
}
