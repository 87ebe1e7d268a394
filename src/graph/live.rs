//! A graph as it is served: a name, its state, and what it runs at the moment.

use std::{ops::Deref, sync::Arc, time::Duration};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::{Definition, Tally};
use crate::{
    metrics::{GraphCall, Reporter},
    model::{Live, Served, Words},
};

/// How much may go on at once in a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests that run.
    pub runs: usize,
    /// Requests that wait for those.
    pub waiting: usize,
    /// How long a graph may take to load.
    pub load: Duration,
}

/// A graph as it is served.
#[derive(Debug)]
pub struct Graph {
    live: Live<Definition>,
    turns: Semaphore,
    limits: Limits,
}

impl Served for Definition {
    const WORDS: Words = Words {
        known: "Mediapipe",
        plain: "graph",
    };

    fn drain(self: Arc<Self>) -> impl Future<Output = ()> + Send {
        Self::drain(self)
    }
}

impl Deref for Graph {
    type Target = Live<Definition>;

    fn deref(&self) -> &Live<Definition> {
        &self.live
    }
}

impl Graph {
    /// Makes a graph that has not been loaded yet.
    #[must_use]
    pub fn new(name: &str, reporter: Arc<Reporter>, limits: Limits) -> Arc<Self> {
        reporter.serves_graph();
        Arc::new(Self {
            live: Live::new(name, reporter, limits.runs.saturating_add(limits.waiting)),
            turns: Semaphore::new(limits.runs.clamp(1, Semaphore::MAX_PERMITS)),
            limits,
        })
    }

    /// Waits until another request may run.
    pub async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.turns.acquire().await.ok()
    }

    /// Returns how much may go on at once.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }
}

impl Tally for GraphCall {
    fn accepted(&self) {
        Self::accepted(self);
    }

    fn rejected(&self) {
        Self::rejected(self);
    }

    fn responded(&self) {
        self.response();
    }

    fn failed(&self) {
        self.error();
    }
}
