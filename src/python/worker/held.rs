//! Uses of a handler, and states of its instances, all of which end before it is finalized.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use pyovms::message::{Instance, Order};
use tokio::{runtime::Handle, sync::Notify};

use super::link::Link;
use crate::task::Task;

/// Uses of a handler, which have to end before it is finalized. They do not keep its workers: those of a graph or a
/// pipeline that has gone end nevertheless.
pub(in crate::python) struct Life {
    uses: AtomicUsize,
    is_closing: AtomicBool,
    ended: Notify,
    /// Runtime on which the end of a use can be waited for.
    runtime: Handle,
    /// Longest time of a call.
    limit: Option<Duration>,
}

impl Life {
    /// Begins the life of a handler whose calls have a limit, if they have one.
    pub(in crate::python) fn new(runtime: Handle, limit: Option<Duration>) -> Arc<Self> {
        Arc::new(Self {
            uses: AtomicUsize::new(0),
            is_closing: AtomicBool::new(false),
            ended: Notify::new(),
            runtime,
            limit,
        })
    }

    /// Begins a use; `None` if the handler ends.
    pub(in crate::python) fn enter(self: &Arc<Self>) -> Option<Use> {
        self.uses.fetch_add(1, Ordering::AcqRel);
        let entered = Use(Arc::clone(self));
        (!self.is_closing.load(Ordering::Acquire)).then_some(entered)
    }

    /// Lets no use begin any more.
    pub(in crate::python) fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
    }

    /// Waits until there are no uses.
    pub(in crate::python) async fn unused(&self) {
        loop {
            let ended = self.ended.notified();
            let mut ended = std::pin::pin!(ended);
            ended.as_mut().enable();
            if self.uses.load(Ordering::Acquire) == 0 {
                return;
            }
            ended.await;
        }
    }
}

/// A use of a handler: a call, a state, or a generator.
pub(in crate::python) struct Use(Arc<Life>);

impl Drop for Use {
    fn drop(&mut self) {
        if self.0.uses.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.ended.notify_waiters();
        }
    }
}

/// State of an instance, in the worker that has it; destroyed with the last of the instance, its calls, and its
/// generators.
pub(in crate::python) struct State {
    link: Arc<Link>,
    used: Option<Use>,
    node: String,
    /// Names it to the worker.
    number: Instance,
}

impl State {
    /// Takes the state that the worker is about to create for an instance.
    pub(in crate::python) fn new(
        link: Arc<Link>,
        used: Use,
        node: &str,
        number: Instance,
    ) -> Arc<Self> {
        Arc::new(Self {
            link,
            used: Some(used),
            node: node.to_owned(),
            number,
        })
    }

    /// Returns the link to the worker that has it.
    pub(in crate::python) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Asks the worker to destroy it, which counts as a use of the handler until then.
    pub(in crate::python) fn end(&mut self) -> impl Future<Output = ()> + Send + 'static {
        let (link, used, node) = (Arc::clone(&self.link), self.used.take(), self.node.clone());
        let number = self.number.clone();
        async move {
            let close = |call| Order::Close(Instance { call, ..number });
            let limit = used.as_ref().and_then(|used| used.0.limit);
            // Whatever comes of it is logged.
            let _ = within(limit, &link, link.call(&node, close)).await;
            drop(used);
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(runtime) = self.used.as_ref().map(|used| used.0.runtime.clone()) {
            Task::spawn_on(&runtime, self.end()).detach();
        }
    }
}

/// Right of a call, or of a generator, to its handler until it has ended, whether or not anybody waits for that.
pub(in crate::python) enum Held {
    /// A use of its own.
    Use(Use),
    /// The state that it runs with, which is a use.
    State(Arc<State>),
}

impl Held {
    /// Returns the runtime on which its end can be waited for, and the longest time of a call.
    pub(in crate::python) fn life(&self) -> Option<(Handle, Option<Duration>)> {
        let used = match self {
            Self::Use(used) => Some(used),
            Self::State(state) => state.used.as_ref(),
        };
        used.map(|used| (used.0.runtime.clone(), used.0.limit))
    }
}

/// Waits for what a worker does, which is killed if that takes longer than the limit of a call.
pub(in crate::python) async fn within<T>(
    limit: Option<Duration>,
    link: &Link,
    call: impl Future<Output = T>,
) -> T {
    let mut call = std::pin::pin!(call);
    if let Some(limit) = limit {
        match tokio::time::timeout(limit, call.as_mut()).await {
            Ok(done) => return done,
            Err(_) => kill(link, limit),
        }
    }
    call.await
}

/// Kills a worker, one of whose calls has not ended within its limit.
pub(in crate::python) fn kill(link: &Link, limit: Duration) {
    link.kill(format!(
        "was killed after {} ms (python_timeout_ms)",
        limit.as_millis()
    ));
}
