//! Loads of handlers, which can be ended.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::SetOnce;

use super::group::{COMMON, WorkerGroup};

/// The load of a graph or a pipeline, as far as its handlers go.
///
/// Another one of the same name is not concerned when it is ended, nor are workers that restart, which have its limit.
#[derive(Clone)]
pub struct HandlerLoad(Arc<LoadEnd>);

pub(super) struct LoadEnd {
    /// How it was ended, in words, if it was.
    ended: SetOnce<String>,
    /// Time that a worker that restarts has for its handlers.
    limit: Option<Duration>,
    /// The workers that it has made.
    groups: Mutex<Vec<Weak<WorkerGroup>>>,
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
            groups: Mutex::default(),
        });
        let mut loads = COMMON.loads.lock();
        loads.retain(|load| load.strong_count() > 0);
        loads.push(Arc::downgrade(&state));
        Self(state)
    }

    /// Kills the workers that are loading a handler for it, and those that are to do so. What is told of them is `how`.
    pub fn end(&self, how: &str) {
        self.0.end(how);
    }

    /// Returns how it was ended, in words, if it was.
    pub(super) fn ended(&self) -> Option<&str> {
        self.0.ended.get().map(String::as_str)
    }

    /// Waits until it is ended, and returns how that was.
    pub(super) async fn until_ended(&self) -> &str {
        self.0.ended.wait().await
    }

    /// Returns the time that a worker that restarts has for its handlers.
    pub(super) fn limit(&self) -> Option<Duration> {
        self.0.limit
    }

    /// Notes workers that it has made.
    pub(super) fn has(&self, group: &Arc<WorkerGroup>) {
        self.0.groups.lock().push(Arc::downgrade(group));
    }
}

impl LoadEnd {
    /// Kills nothing once the load is over: none of its workers is loading then.
    fn end(&self, how: &str) {
        // Workers that come to a handler later find it ended.
        let _ = self.ended.set(how.to_owned());
        let groups = self.groups.lock().clone();
        let groups = groups.iter().filter_map(Weak::upgrade);
        for link in groups.flat_map(|group| group.links()) {
            if link.is_loading() {
                link.kill(how.to_owned());
            }
        }
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
