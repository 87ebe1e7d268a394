//! Snapshot of all names and their servables; replaced whole, never changed.

use std::{collections::HashMap, sync::Arc};

use super::servable::Servable;
use crate::{
    error::{Error, ErrorKind},
    model::Model,
};

/// Names and what they stand for.
#[derive(Debug, Default)]
pub struct Registry(HashMap<String, Servable>);

impl Registry {
    /// Finds what a name stands for.
    pub fn get(&self, name: &str) -> Option<&Servable> {
        self.0.get(name)
    }

    /// Returns how many names there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Iterates over all servables, sorted by name.
    pub fn servables(&self) -> impl Iterator<Item = &Servable> {
        let mut servables: Vec<_> = self.0.values().collect();
        servables.sort_by_key(|servable| servable.name());
        servables.into_iter()
    }

    /// Adds a pipeline or graph, unless its name is taken.
    pub(super) fn add(&mut self, servable: Servable) {
        let name = servable.name().to_owned();
        self.0.entry(name).or_insert(servable);
    }
}

impl FromIterator<Arc<Model>> for Registry {
    fn from_iter<I: IntoIterator<Item = Arc<Model>>>(models: I) -> Self {
        Self(
            models
                .into_iter()
                .map(|model| (model.name().to_owned(), Servable::Model(model)))
                .collect(),
        )
    }
}

/// Returns the error for an unknown name.
pub(crate) fn not_found() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "Model with requested name is not found",
    )
}
