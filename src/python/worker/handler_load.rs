//! Loads of handlers, which can be ended.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::sync::SetOnce;

use super::group::COMMON;

/// The load of a graph or a pipeline, as far as its handlers go.
///
/// Another one of the same name is not concerned when it is ended, nor are workers that restart, which have its limit.
#[derive(Clone)]
pub struct HandlerLoad(Arc<LoadEnd>);

pub(super) struct LoadEnd {
    /// Description of its end, if it was ended.
    ended: SetOnce<String>,
    /// Time that a worker that restarts has for its handlers.
    limit: Option<Duration>,
}

impl Default for HandlerLoad {
    /// Begins a load whose workers restart without a limit.
    fn default() -> Self {
        Self::new(None)
    }
}

impl HandlerLoad {
    /// Begins a load. Its caller ends it; workers of it that restart later have `limit` for their handlers.
    pub fn new(limit: Option<Duration>) -> Self {
        let state = Arc::new(LoadEnd {
            ended: SetOnce::new(),
            limit,
        });
        let mut loads = COMMON.loads.lock();
        loads.retain(|load| load.strong_count() > 0);
        loads.push(Arc::downgrade(&state));
        Self(state)
    }

    /// Has the workers killed that are loading a handler for it, and those that are to do so; `how` is reported of them.
    /// Once the load is over, it ends nothing.
    pub fn end(&self, how: &str) {
        self.0.end(how);
    }

    /// Waits until it is ended, and returns how that was.
    pub(super) async fn until_ended(&self) -> &str {
        self.0.ended.wait().await
    }

    /// Returns the time that a worker that restarts has for its handlers.
    pub(super) fn limit(&self) -> Option<Duration> {
        self.0.limit
    }
}

impl LoadEnd {
    fn end(&self, how: &str) {
        // The first one counts.
        let _ = self.ended.set(how.to_owned());
    }
}

/// Ends all loads of handlers of this process, as [`HandlerLoad::end`] does.
pub fn end_loads(how: &str) {
    let loads = COMMON.loads.lock().clone();
    for load in loads.iter().filter_map(Weak::upgrade) {
        load.end(how);
    }
}

impl fmt::Debug for HandlerLoad {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tuple = formatter.debug_tuple("HandlerLoad");
        tuple.field(&self.0.ended.get()).finish()
    }
}
