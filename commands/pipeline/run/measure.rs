//! Requests in this process, with traces of each.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ovms::{
    error::chain,
    pipeline::{NodeTrace, Trace, critical_path},
    tensor::TensorMap,
};

use super::load::LocalPipeline;
use crate::{error::Failure, local};

/// Results of the measurement.
pub(super) struct Measured {
    /// Duration of each request.
    pub(super) totals: Vec<Duration>,
    /// Times of each node, by its index in the plan.
    pub(super) nodes: Vec<NodeTimes>,
    /// Last request.
    pub(super) last: Last,
    /// Error of the last request, if it failed.
    pub(super) error: Option<String>,
}

impl Measured {
    /// Returns the duration that some percent of the requests did not exceed.
    pub(super) fn percentile(&self, percent: usize) -> Duration {
        let mut totals = self.totals.clone();
        totals.sort_unstable();
        totals[(totals.len() - 1) * percent / 100]
    }
}

/// Times of one node in each request.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeTimes {
    /// Total time of its runs.
    pub(super) ran: Vec<Duration>,
    /// Total time of its waits.
    pub(super) waited: Vec<Duration>,
}

/// Trace of one request.
pub(super) struct Last {
    pub(super) took: Duration,
    /// Runs, in the order of their ends.
    pub(super) runs: Vec<NodeTrace>,
    /// Indices in `runs` of the critical path.
    pub(super) path: Vec<usize>,
    pub(super) outputs: TensorMap,
}

/// Runs a pipeline a number of times in sequence, or until it fails; the first runs are not measured.
pub(super) async fn run(
    loaded: &LocalPipeline,
    tensors: &TensorMap,
    warmup: u32,
    repeat: u32,
) -> Result<Measured, Failure> {
    let request = local::request(tensors, Vec::new());
    let trace = Arc::new(Trace::default());
    let mut totals = Vec::new();
    let mut nodes = vec![NodeTimes::default(); loaded.plan().nodes.len()];
    let mut last = None;
    let mut error = None;
    for round in 0..warmup.saturating_add(repeat) {
        let target = loaded.engine.find(&loaded.name, None, local::ORIGIN).await;
        let target = target.map_err(failed)?.traced(trace.clone());
        let begun = Instant::now();
        let answer = target.infer(request.clone()).await;
        let took = begun.elapsed();
        let runs = trace.take();
        error = answer.as_ref().err().map(reported);
        if round < warmup && error.is_none() {
            continue;
        }
        totals.push(took);
        for (id, times) in nodes.iter_mut().enumerate() {
            let own = || runs.iter().filter(|run| run.node == id);
            times.ran.push(own().map(NodeTrace::took).sum());
            times.waited.push(own().map(NodeTrace::waited).sum());
        }
        last = Some(Last {
            took,
            path: Vec::new(),
            runs,
            outputs: answer.map(|answer| answer.outputs).unwrap_or_default(),
        });
        if error.is_some() {
            break;
        }
    }
    let mut last = last.expect("it ran at least once");
    last.path = critical_path(loaded.plan(), &last.runs);
    Ok(Measured {
        totals,
        nodes,
        last,
        error,
    })
}

fn failed(error: ovms::error::Error) -> Failure {
    Failure::failed("the run failed").detail(reported(&error))
}

/// Writes an error with its cause.
fn reported(error: &ovms::error::Error) -> String {
    let text = std::error::Error::source(error).map(chain);
    // Most causes say the same, and more.
    match text {
        Some(cause) if cause.starts_with(error.message()) => cause,
        _ => chain(error),
    }
}

/// Returns the median of some times, which must not be empty.
pub(super) fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}
