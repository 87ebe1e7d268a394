//! Graph being served: a name, its state, and its current runs.

use std::{ops::Deref, sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::definition::GraphDefinition;
use crate::{
    draw::Diagram,
    graph::{
        diagram::diagram,
        file::{
            GraphSpec,
            source::{GraphSource, read_graph},
        },
    },
    metrics::Reporter,
    model::Live,
};

/// Concurrency limits of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphLimits {
    /// Number of running requests.
    pub runs: usize,
    /// Number of waiting requests.
    pub waiting: usize,
    /// Maximum load time of a graph.
    pub load: Duration,
}

/// Graph being served.
#[derive(Debug)]
pub struct Graph {
    live: Live<GraphDefinition>,
    /// Source of the last load.
    source: ArcSwapOption<GraphSource>,
    turns: Semaphore,
    limits: GraphLimits,
}

impl Deref for Graph {
    type Target = Live<GraphDefinition>;

    fn deref(&self) -> &Live<GraphDefinition> {
        &self.live
    }
}

impl Graph {
    /// Creates a graph that has not been loaded yet.
    pub fn new(name: &str, reporter: Arc<Reporter>, limits: GraphLimits) -> Arc<Self> {
        reporter.serves_graph();
        Arc::new(Self {
            live: Live::new(name, reporter, limits.runs.saturating_add(limits.waiting)),
            source: ArcSwapOption::empty(),
            turns: Semaphore::new(limits.runs.clamp(1, Semaphore::MAX_PERMITS)),
            limits,
        })
    }

    /// Sets the source that is loaded, or was to be.
    pub fn comes_from(&self, source: GraphSource) {
        self.source.store(Some(Arc::new(source)));
    }

    /// Returns its diagram: that of the loaded graph, else of its file, valid or not. Reads files,
    /// so it blocks.
    pub fn diagram(&self) -> Option<Diagram> {
        let source = self.source.load_full()?;
        let is_there = |handler: &str| source.base_path.join(handler).is_file();
        let draw = |spec: &GraphSpec| diagram(&source.name, spec, &is_there);
        if let Ok(definition) = self.live.definition() {
            return Some(draw(definition.spec()));
        }
        let text = read_graph(&source.graph_path).ok()?;
        let spec = GraphSpec::read(&text, &source.graph_path.display().to_string()).ok()?;
        Some(draw(&spec))
    }

    /// Waits until another request may run.
    pub async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.turns.acquire().await.ok()
    }

    /// Returns the concurrency limits.
    pub fn limits(&self) -> GraphLimits {
        self.limits
    }
}
