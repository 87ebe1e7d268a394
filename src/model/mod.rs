//! Models: a name, its versions, and what a request to one goes through.
//!
//! [`repository`] finds the version folders and files on disk, [`Version`] is one of them with
//! its state and slots, [`check`] judges a request's tensors, and [`infer`] runs a judged request.

pub mod check;
pub mod demo;
pub mod infer;
pub mod repository;
pub mod rt_info;
mod state;
mod version;

use std::{collections::BTreeMap, sync::Arc};

pub use state::{Code, State, Status};
pub use version::{Loaded, Version, VersionError};

use crate::error::{Error, ErrorKind, Result};

/// A model: its name and the versions that the server knows of.
#[derive(Debug)]
pub struct Model {
    name: Arc<str>,
    versions: BTreeMap<i64, Arc<Version>>,
}

impl Model {
    /// Makes a model of versions in any state.
    #[must_use]
    pub fn new(name: &str, versions: impl IntoIterator<Item = Arc<Version>>) -> Self {
        Self {
            name: name.into(),
            versions: versions
                .into_iter()
                .map(|version| (version.number(), version))
                .collect(),
        }
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns every version, the lowest first.
    pub fn versions(&self) -> impl Iterator<Item = &Arc<Version>> {
        self.versions.values()
    }

    /// Finds a version by its number; `None` means the default version: the highest that is
    /// available.
    ///
    /// # Errors
    ///
    /// Fails if there is no such version, or none is available to be the default.
    pub fn version(&self, number: Option<i64>) -> Result<&Arc<Version>> {
        let version = match number {
            Some(number) => self.versions.get(&number),
            None => self
                .versions
                .values()
                .rev()
                .find(|version| version.status().state == State::Available),
        };
        version.ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                "Model with requested version is not found",
            )
        })
    }
}
