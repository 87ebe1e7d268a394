//! The nodes of a pipeline or graph, with how long their runs took.

use std::time::Duration;

use serde::Serialize;

use crate::{engine::Servable, metrics::LatencyHistogram};

/// Maximum number of nodes of a pipeline or graph whose times are shown: those that are drawn.
const MAX_NODES: usize = 400;

/// A node of a pipeline or graph.
#[derive(Debug, Serialize)]
pub(super) struct NodeView {
    pub(super) name: String,
    pub(super) runs: u64,
    time_us: u64,
    #[serde(skip)]
    pub(super) latency: LatencyHistogram,
    p50_us: Option<u64>,
    p99_us: Option<u64>,
}

/// Returns the nodes of a pipeline or graph that has any, in the order of their plan.
pub(super) fn nodes(servable: &Servable) -> Vec<NodeView> {
    let (names, reporter): (Vec<String>, _) = match servable {
        Servable::Model(_) => return Vec::new(),
        Servable::Pipeline(pipeline) => {
            let Ok(definition) = pipeline.definition() else {
                return Vec::new();
            };
            let nodes = definition.plan.nodes.iter();
            let nodes = nodes.filter(|node| node.kind.is_some());
            let names = nodes.map(|node| node.name.clone());
            (names.take(MAX_NODES).collect(), pipeline.reporter())
        }
        Servable::Graph(graph) => {
            let Ok(definition) = graph.definition() else {
                return Vec::new();
            };
            let nodes = definition.plan().nodes.iter();
            let names = nodes.map(|node| node.spec.name.clone());
            (names.take(MAX_NODES).collect(), graph.reporter())
        }
    };
    let nodes = names.into_iter().map(|name| {
        let times = reporter.node_times(&name);
        let (latency, all) = times.map(|times| times.so_far()).unwrap_or_default();
        let micros = |took: Duration| u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        NodeView {
            name,
            runs: latency.count(),
            time_us: micros(all),
            latency,
            p50_us: latency.quantile(0.5).map(micros),
            p99_us: latency.quantile(0.99).map(micros),
        }
    });
    nodes.collect()
}

impl NodeView {
    /// Returns how long a run took on average; `None` if there was none.
    pub(super) fn mean(&self) -> Option<Duration> {
        self.time_us
            .checked_div(self.runs)
            .map(Duration::from_micros)
    }
}
