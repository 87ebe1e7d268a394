//! Stubs for a build without Python.

use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{HandlerLoadError, HandlerTensor, NodeFacts, Produced, PythonSurvey, Raised};

/// Does nothing.
pub fn configure(_environment: Option<PathBuf>, _runtime: Option<PathBuf>) {}

/// Does nothing.
pub fn print_to_log() {}

/// Returns `None`.
#[must_use]
pub fn environment_error(_folder: &Path) -> Option<String> {
    None
}

/// Returns `None`.
#[must_use]
pub fn describe() -> Option<String> {
    None
}

/// Fails.
///
/// # Errors
///
/// Always.
pub fn survey() -> Result<PythonSurvey, String> {
    Err("this build has no Python".to_owned())
}

/// Does nothing.
pub fn stop(_limit: Duration) {}

/// Does nothing.
pub fn set_limits(_per_handler: usize, _all: usize) {}

/// Uninhabited: there are no handlers in this build.
#[derive(Debug)]
pub struct PythonHandler(Infallible);

impl PythonHandler {
    /// Fails.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn load(facts: NodeFacts) -> Result<Arc<Self>, HandlerLoadError> {
        if !facts.handler_path.is_file() {
            return Err(HandlerLoadError::NoFile(facts.handler_path));
        }
        Err(HandlerLoadError::NoInterpreter {
            path: facts.handler_path,
            reason: "this build has no Python; use one with the feature `python`".to_owned(),
        })
    }

    /// Fails.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn inspect(facts: &NodeFacts) -> Result<bool, HandlerLoadError> {
        Self::load(facts.clone()).map(|_| false)
    }

    /// Returns the name of the node.
    #[must_use]
    pub fn node_name(&self) -> &str {
        match self.0 {}
    }

    /// Never called.
    pub fn finalize(&self) {
        match self.0 {}
    }

    /// Never called.
    #[must_use]
    pub fn stateful(&self) -> bool {
        match self.0 {}
    }

    /// Never called.
    #[must_use]
    pub fn instance(self: &Arc<Self>) -> HandlerInstance {
        match self.0 {}
    }

    /// Never called.
    ///
    /// # Errors
    ///
    /// Never.
    pub fn try_here<T, F: FnOnce() -> T>(&self, _work: F) -> Result<T, F> {
        match self.0 {}
    }

    /// Never called.
    #[expect(clippy::unused_async, reason = "as with Python")]
    pub async fn elsewhere<T: Send + 'static>(
        self: &Arc<Self>,
        _work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        match self.0 {}
    }
}

/// Uninhabited: there are no instances in this build.
#[derive(Debug)]
pub struct HandlerInstance(Infallible);

impl HandlerInstance {
    /// Never called.
    #[must_use]
    pub fn has_state(&self) -> bool {
        match self.0 {}
    }

    /// Never called.
    ///
    /// # Errors
    ///
    /// Never.
    pub fn open(&self) -> Result<(), Raised> {
        match self.0 {}
    }

    /// Never called.
    ///
    /// # Errors
    ///
    /// Never.
    pub fn execute(&self, _inputs: &[HandlerTensor], _complete: bool) -> Result<Produced, Raised> {
        match self.0 {}
    }

    /// Never called.
    ///
    /// # Errors
    ///
    /// Never.
    pub fn next(
        &self,
        _generator: &mut HandlerGenerator,
    ) -> Result<Option<Vec<HandlerTensor>>, Raised> {
        match self.0 {}
    }

    /// Never called.
    pub fn close(&self) {
        match self.0 {}
    }
}

/// Uninhabited: there are no generators in this build.
#[derive(Debug)]
pub struct HandlerGenerator(Infallible);
