//! One version of a model: its state, and its slots once loaded.

use std::{fmt, sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use tokio::sync::watch;

use super::{
    repository::ModelFiles,
    rt_info::{self, RtInfo},
    state::{Code, State, Status},
};
use crate::{
    error::{Error, ErrorKind, Result},
    openvino::{self, Compiled, LoadError, LoadOptions},
    servable::ServableInfo,
};

/// A version of a model.
pub struct Version {
    model: Arc<str>,
    number: i64,
    status: watch::Sender<Status>,
    loaded: ArcSwapOption<Loaded>,
}

/// What a version has once it is loaded.
pub struct Loaded {
    /// Inputs and outputs.
    pub info: ServableInfo,
    /// The `model_info` that the model file carries, if any.
    pub rt_info: Option<RtInfo>,
    pub(super) runner: openvino::Runner,
}

impl Loaded {
    /// Returns how many inferences may run at once.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.runner.slots()
    }
}

/// Why a version was not loaded.
#[derive(Debug, thiserror::Error)]
#[error("cannot load version {number} of model `{model}`")]
pub struct VersionError {
    /// The model's name.
    pub model: String,
    /// The version.
    pub number: i64,
    /// What went wrong.
    #[source]
    pub source: Box<LoadError>,
}

impl Version {
    /// Makes a version that is about to load.
    #[must_use]
    pub fn new(model: &str, number: i64) -> Arc<Self> {
        Arc::new(Self {
            model: model.into(),
            number,
            status: watch::Sender::new(Status::ok(State::Start)),
            loaded: ArcSwapOption::empty(),
        })
    }

    /// Returns the name of the model.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Returns the number of the version.
    #[must_use]
    pub fn number(&self) -> i64 {
        self.number
    }

    /// Returns state and outcome at this moment.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// Loads the version from its files; blocks for as long as that takes.
    ///
    /// # Errors
    ///
    /// Fails with what the runtime said; the state says so too.
    pub fn load(&self, files: &ModelFiles, options: &LoadOptions) -> Result<(), VersionError> {
        self.status.send_replace(Status::ok(State::Loading));
        let (model, weights) = files.paths();
        let result = openvino::load(&self.model, model, weights, options);
        match result {
            Ok(Compiled { info, runner }) => {
                let rt_info = rt_info::read(files);
                self.loaded.store(Some(Arc::new(Loaded {
                    info,
                    rt_info,
                    runner,
                })));
                self.status.send_replace(Status::ok(State::Available));
                Ok(())
            }
            Err(source) => {
                self.status.send_replace(Status::failed());
                Err(VersionError {
                    model: self.model.to_string(),
                    number: self.number,
                    source: Box::new(source),
                })
            }
        }
    }

    /// Returns what is loaded, without waiting.
    ///
    /// # Errors
    ///
    /// Fails if the version is not loaded.
    pub fn loaded(&self) -> Result<Arc<Loaded>> {
        self.loaded.load_full().ok_or_else(not_loaded)
    }

    /// Returns what is loaded; waits while the version is loading, up to a limit.
    ///
    /// # Errors
    ///
    /// Fails if the load fails or takes longer.
    pub async fn wait_loaded(&self, limit: Duration) -> Result<Arc<Loaded>> {
        if let Some(loaded) = self.loaded.load_full() {
            return Ok(loaded);
        }
        let mut status = self.status.subscribe();
        let settled =
            status.wait_for(|status| status.state > State::Loading || status.code != Code::Ok);
        // A time limit that passes and a load that fails end in the same answer.
        drop(tokio::time::timeout(limit, settled).await);
        self.loaded()
    }
}

fn not_loaded() -> Error {
    Error::new(
        ErrorKind::NotLoaded,
        "Model with requested version is not loaded yet",
    )
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Version")
            .field("model", &self.model)
            .field("number", &self.number)
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Version;
    use crate::error::ErrorKind;

    #[tokio::test(start_paused = true)]
    async fn a_version_that_stays_loading_is_waited_for_and_then_refused() {
        let version = Version::new("dummy", 1);
        let started = tokio::time::Instant::now();
        let refused = version.wait_loaded(Duration::from_secs(10)).await;
        assert_eq!(refused.err().map(|e| e.kind()), Some(ErrorKind::NotLoaded));
        assert_eq!(started.elapsed(), Duration::from_secs(10));
    }
}
