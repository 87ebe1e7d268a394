//! The load at the start: the highest version of one model.

use std::sync::Arc;

use crate::{
    config::ModelConfig,
    engine::{Engine, Registry},
    model::{
        Model, Version, VersionError,
        repository::{self, RepositoryError},
    },
};

/// Why the server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The model repository cannot be read.
    #[error("cannot load model `{model}`")]
    Repository {
        /// The model's name.
        model: String,
        /// What is wrong with it.
        #[source]
        source: RepositoryError,
    },
    /// The model cannot be loaded.
    #[error(transparent)]
    Version(#[from] VersionError),
}

/// Loads the highest version; a folder without versions gives a model without any.
pub(super) fn load(engine: &Engine, config: &ModelConfig) -> Result<(), StartError> {
    let refuse = |source| StartError::Repository {
        model: config.name.clone(),
        source,
    };
    let versions = repository::versions(&config.base_path).map_err(refuse)?;
    let Some((number, folder)) = versions.last() else {
        let folder = config.base_path.display();
        if repository::files(&config.base_path).is_ok() {
            tracing::warn!(
                "model `{}`: {folder} holds a model, where version folders are expected; move \
                 its files to {folder}/1",
                config.name
            );
        } else {
            tracing::warn!(
                "model `{}`: there is no version folder in {folder}, so nothing to serve",
                config.name
            );
        }
        engine.replace(Registry::from_iter([Model::new(&config.name, [])]));
        return Ok(());
    };
    let version = Version::new(&config.name, *number);
    // Known from here on, so that requests are told that it is loading.
    engine.replace(Registry::from_iter([Model::new(
        &config.name,
        [Arc::clone(&version)],
    )]));
    let files = repository::files(folder).map_err(refuse)?;
    tracing::info!(model = config.name, version = number, "loading");
    version.load(&files, &config.load)?;
    if let Ok(loaded) = version.loaded() {
        tracing::info!(
            model = config.name,
            version = number,
            nireq = loaded.slots(),
            device = config.load.device,
            "loaded"
        );
    }
    Ok(())
}
