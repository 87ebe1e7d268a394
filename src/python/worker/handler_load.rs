//! Loads of handlers, which can be ended, and what a worker is asked for them.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use pyovms::message::{Instance, Load, Loaded, Order, Outcome, Pair, Params};
use tokio::sync::SetOnce;

use super::{group::COMMON, link::Link, waiting::Answer};
use crate::python::{HandlerLoadError, HandlerOutput, NodeFacts, Raised};

/// Time that those who finalize a handler wait for calls in flight, and then for `finalize` itself.
pub(in crate::python) const PATIENCE: Duration = Duration::from_secs(10);

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

    /// Kills the workers that are loading a handler for it, and those that are to do so; `how` is reported of them.
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

/// Waits for what a worker does, which is killed when its time is over; gives the reason of that to those who wait.
pub(super) async fn until<T>(
    over: impl Future<Output: Into<String>>,
    link: &Link,
    done: impl Future<Output = T>,
) -> T {
    let mut done = std::pin::pin!(done);
    tokio::select! {
        biased;
        how = over => link.kill(how.into()),
        done = done.as_mut() => return done,
    }
    done.await
}

/// Returns the error of a load that has come to nothing in a worker, at no line of the handler.
pub(super) fn worker_error(facts: &NodeFacts, reason: String) -> HandlerLoadError {
    HandlerLoadError::Worker {
        path: facts.handler_path.clone(),
        reason,
        line: None,
        is_import: false,
    }
}

pub(super) fn not_started(facts: &NodeFacts, reason: String) -> HandlerLoadError {
    HandlerLoadError::NoInterpreter {
        path: facts.handler_path.clone(),
        reason,
    }
}

/// Loads a handler into a worker.
pub(super) async fn load(
    link: &Link,
    number: u32,
    facts: &NodeFacts,
    inspect: bool,
) -> Result<Loaded, HandlerLoadError> {
    use std::os::unix::ffi::OsStrExt as _;
    let path = &facts.handler_path;
    link.handles(path);
    let params = facts.params.as_ref().map(|params| Params {
        pairs: params
            .iter()
            .map(|(key, value)| Pair {
                key: key.clone(),
                value: value.clone(),
            })
            .collect(),
    });
    link.loads(true);
    if let Some(terminal) = COMMON.terminal() {
        (terminal.clear)();
    }
    let outcome = link.call(&facts.node_name, |call| {
        Order::Load(Load {
            call,
            node: number,
            name: facts.node_name.clone(),
            path: path.as_os_str().as_bytes().to_vec(),
            inputs: facts.input_names.clone(),
            outputs: facts.outputs.iter().map(HandlerOutput::message).collect(),
            params,
            inspect,
        })
    });
    let outcome = outcome.await;
    if outcome.is_ok() {
        link.loads(false);
        // Whoever watches for its end has left that to the load.
        if link.exit().get().is_some() {
            return Err(worker_error(
                facts,
                link.death(&facts.node_name).to_string(),
            ));
        }
    }
    match outcome {
        Ok(Answer::Other(Outcome::Loaded(loaded))) => Ok(loaded),
        Ok(Answer::Other(Outcome::NoClass(_))) => Err(HandlerLoadError::NoClass(path.clone())),
        Ok(Answer::Other(Outcome::NoExecute(_))) => Err(HandlerLoadError::NoExecute(path.clone())),
        Ok(Answer::Raised(raised)) => Err(HandlerLoadError::Raised {
            path: path.clone(),
            raised,
        }),
        Ok(_) => {
            let reason = "the worker has not answered what it was asked".to_owned();
            Err(worker_error(facts, reason))
        }
        Err(error) => {
            let places = link.ended_how().and_then(|_| link.places());
            Err(HandlerLoadError::Worker {
                path: path.clone(),
                reason: error.to_string(),
                line: places.as_ref().and_then(|places| places.line_in(path)),
                is_import: places.is_some_and(|places| places.is_import(path)),
            })
        }
    }
}

/// Asks workers to finalize a handler, if they have it; returns what one of them has raised. Waits for a limited time.
pub(in crate::python) async fn finalize(
    of: &str,
    links: &[Arc<Link>],
    node: &str,
    number: u32,
) -> Option<Raised> {
    let finalize = links.iter().map(|link| {
        link.call(node, |call| {
            Order::Finalize(Instance {
                call,
                node: number,
                instance: 0,
            })
        })
    });
    let all = futures::future::join_all(finalize);
    let mut last = None;
    for outcome in tokio::time::timeout(PATIENCE, all)
        .await
        .unwrap_or_default()
    {
        if let Ok(Answer::Raised(raised)) = outcome {
            let text = format!("Failed to process python node finalize method: {raised}");
            tracing::error!(of, node, "{}", raised.for_log(&text));
            last = Some(raised);
        }
    }
    last
}
