//! Loads of models, graphs, and pipelines, which may go on beside the passes.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout, timeout_at},
};

use super::served::Trigger;
use crate::{python::HandlerLoad, task::Task};

/// Maximum number of loads at once, but for those that take long.
const MAX_LOADS: usize = 8;

/// Time after which a load takes long: others begin beside it, and the watcher goes on without it.
pub(super) const LONG: Duration = Duration::from_secs(5);

/// Time that a load has to end once its worker was killed.
pub(super) const END: Duration = Duration::from_secs(5);

/// Turns of work, of which what takes long needs none.
#[derive(Clone)]
pub(super) struct Turns {
    turns: Arc<Semaphore>,
    /// Time after which work takes long.
    long: Duration,
}

impl Turns {
    pub(super) fn new(most: usize, long: Duration) -> Self {
        Self {
            turns: Arc::new(Semaphore::new(most)),
            long,
        }
    }

    /// Waits for a turn, and has it until the work ends, or takes long.
    pub(super) async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        // It is never closed.
        let turn = self.turns.acquire().await.ok();
        let mut work = Box::pin(work);
        let quick = timeout(self.long, &mut work).await;
        drop(turn);
        match quick {
            Ok(done) => done,
            Err(_) => work.await,
        }
    }
}

/// Loads that have not ended.
pub(super) struct Loads<T> {
    running: FuturesUnordered<Task<T>>,
    turns: Turns,
}

impl<T: Send + 'static> Loads<T> {
    pub(super) fn new() -> Self {
        Self {
            running: FuturesUnordered::new(),
            turns: Turns::new(MAX_LOADS, LONG),
        }
    }

    /// Begins a load, in its turn.
    pub(super) fn begin(&mut self, load: impl Future<Output = T> + Send + 'static) {
        let turns = self.turns.clone();
        let load = async move { turns.run(load).await };
        self.running.push(Task::spawn(load));
    }

    /// Waits for the next one that ends; for ever, if there is none.
    pub(super) async fn next(&mut self) -> T {
        loop {
            match self.running.next().await {
                Some(Ok(loaded)) => return loaded,
                // It has panicked, which is in the log.
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Waits for the next one that ends, until a pass has to go on.
    pub(super) async fn next_until(&mut self, end: Instant) -> Option<T> {
        match self.running.is_empty() {
            true => None,
            false => timeout_at(end, self.next()).await.ok(),
        }
    }
}

/// Ends the load of the Python nodes of a graph or a pipeline, if that goes on.
pub(super) fn end_load(load: &Weak<HandlerLoad>, reason: &str) {
    if let Some(load) = load.upgrade() {
        load.end(&format!("was killed: {reason}"));
    }
}

/// Returns when a pass goes on without the loads that it has begun, each of which has a limit.
pub(super) fn end_of_wait(trigger: Trigger, limit: Duration) -> Instant {
    Instant::now()
        + match trigger {
            Trigger::Watch => LONG,
            Trigger::Start | Trigger::Asked => END + 2 * limit,
        }
}

#[cfg(test)]
mod tests {
    use super::{Duration, END, Instant, LONG, Trigger, end_of_wait};

    #[test]
    fn an_asked_pass_outlasts_a_load_that_waits_for_the_one_before() {
        let limit = Duration::from_secs(1);
        for trigger in [Trigger::Start, Trigger::Asked] {
            let wait = end_of_wait(trigger, limit) - Instant::now();
            assert!(wait > END + limit, "{wait:?}");
        }
        let wait = end_of_wait(Trigger::Watch, limit) - Instant::now();
        assert!(wait <= LONG, "{wait:?}");
    }
}
