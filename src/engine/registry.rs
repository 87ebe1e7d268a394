//! What every name stands for at one moment; replaced whole, never changed.

use std::{collections::HashMap, sync::Arc};

use crate::model::Model;

/// Names and what they stand for.
#[derive(Debug, Default)]
pub struct Registry(HashMap<String, Arc<Model>>);

impl Registry {
    /// Finds what a name stands for.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<Model>> {
        self.0.get(name)
    }

    /// Goes through all models, sorted by name.
    pub fn models(&self) -> impl Iterator<Item = &Arc<Model>> {
        let mut models: Vec<_> = self.0.values().collect();
        models.sort_by_key(|model| model.name());
        models.into_iter()
    }
}

impl FromIterator<Arc<Model>> for Registry {
    fn from_iter<I: IntoIterator<Item = Arc<Model>>>(models: I) -> Self {
        Self(
            models
                .into_iter()
                .map(|model| (model.name().to_owned(), model))
                .collect(),
        )
    }
}
