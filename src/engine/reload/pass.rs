//! Reason of a pass over pipelines and graphs, and the identity of what they use.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use super::served::Trigger;
use crate::{
    config::{NodeKind, PipelineConfig},
    model::{Loaded, Model},
};

/// Reason of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PassReason {
    pub(super) trigger: Trigger,
    /// The file has been read again.
    pub(super) renewed: bool,
    /// A model is another one, or in another state.
    pub(super) moved: bool,
}

/// Finds what the models of a pipeline are at the moment; those that are not there are nothing.
pub(super) fn found(
    config: &PipelineConfig,
    models: &BTreeMap<String, Arc<Model>>,
) -> Vec<Weak<Loaded>> {
    let nodes = config.nodes.iter().filter_map(|node| match &node.kind {
        NodeKind::Model {
            model_name,
            version,
        } => {
            let model = models.get(model_name);
            let version = model.and_then(|model| model.version(*version).ok());
            let loaded = version.and_then(|version| version.loaded().ok());
            Some(loaded.map_or_else(Weak::new, |loaded| Arc::downgrade(&loaded)))
        }
        NodeKind::Custom { .. } => None,
    });
    nodes.collect()
}

/// Returns whether two lists have the same items, in their order.
pub(super) fn are_same<T>(now: &[Weak<T>], before: &[Weak<T>]) -> bool {
    now.len() == before.len() && now.iter().zip(before).all(|(a, b)| a.ptr_eq(b))
}
