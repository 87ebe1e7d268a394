//! Trace of a request to a pipeline, with times.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::plan::PipelinePlan;
use crate::{
    budget::Budget, model::check, quota::RunOwner, request::InferRequest, servable::ServableInfo,
    tensor::Tensor, trace::TraceContext,
};

/// Observers of a request to a pipeline, and what it counts for.
#[derive(Debug, Clone, Copy)]
pub struct PipelineWatch<'a> {
    /// Trace of the runs of its nodes, if somebody wants one.
    pub trace: Option<&'a Trace>,
    /// Parent context of the spans of its nodes, if it is traced.
    pub spans: Option<&'a TraceContext>,
    /// Owner of the runs of its nodes.
    pub owner: Option<&'a RunOwner>,
    /// Budget of what is copied between its nodes.
    pub budget: &'a Budget,
}

/// Keeps every run of a request, and the decoding of its images.
#[derive(Debug, Default)]
pub struct Trace {
    runs: Mutex<Vec<NodeTrace>>,
    decoding: Mutex<Option<DecodingTrace>>,
}

/// Decoding of the encoded images of a request, before any node runs.
#[derive(Debug, Clone)]
pub struct DecodingTrace {
    /// The inputs of the pipeline that were images.
    pub inputs: Vec<String>,
    /// Time at which the request was there.
    pub started: Instant,
    /// Time at which its tensors were there.
    pub ended: Instant,
}

impl DecodingTrace {
    /// Begins the decoding of a request that has images.
    pub(crate) fn begin(info: &ServableInfo, request: &InferRequest) -> Option<Self> {
        let inputs = check::images(info, request);
        let now = Instant::now();
        (!inputs.is_empty()).then_some(Self {
            inputs,
            started: now,
            ended: now,
        })
    }

    /// Returns how long it took.
    pub fn took(&self) -> Duration {
        self.ended.saturating_duration_since(self.started)
    }
}

/// One run of a node.
#[derive(Debug, Clone)]
pub struct NodeTrace {
    /// The node.
    pub node: usize,
    /// The session, as [`super::Sessions::key`] writes it; empty for the request as a whole.
    pub session: String,
    /// Time at which its inputs were there.
    pub ready: Instant,
    /// Start of the run, once what it runs on was free.
    pub started: Instant,
    /// End of the run.
    pub ended: Instant,
    /// The inputs, in the order of the plan's.
    pub inputs: Vec<Tensor>,
    /// The outputs, in the order of the plan's.
    pub outputs: Vec<Tensor>,
}

impl NodeTrace {
    /// Returns how long it waited for what it runs on.
    pub fn waited(&self) -> Duration {
        self.started.saturating_duration_since(self.ready)
    }

    /// Returns how long it ran.
    pub fn took(&self) -> Duration {
        self.ended.saturating_duration_since(self.started)
    }

    /// Returns whether one session is a part of the other, or both are the same.
    fn is_related(&self, other: &Self) -> bool {
        let within = |inner: &str, outer: &str| {
            let rest = inner.strip_suffix(outer);
            rest.is_some_and(|rest| rest.is_empty() || outer.is_empty() || rest.ends_with('_'))
        };
        within(&self.session, &other.session) || within(&other.session, &self.session)
    }
}

impl Trace {
    /// Takes the runs so far, in the order in which they ended.
    pub fn take(&self) -> Vec<NodeTrace> {
        std::mem::take(&mut *self.runs.lock())
    }

    /// Takes the decoding of images, if there were any.
    pub fn take_decoding(&self) -> Option<DecodingTrace> {
        self.decoding.lock().take()
    }

    /// Adds a run that has ended.
    pub(super) fn add(&self, run: NodeTrace) {
        self.runs.lock().push(run);
    }

    /// Keeps a decoding that has ended now.
    pub(crate) fn decoded(&self, decoding: DecodingTrace) {
        let ended = Instant::now();
        *self.decoding.lock() = Some(DecodingTrace { ended, ..decoding });
    }
}

/// Finds the runs that the response waited for, the first first: each is the one of its successor's
/// sources that ended last. Returns their places in `runs`.
pub fn critical_path(plan: &PipelinePlan, runs: &[NodeTrace]) -> Vec<usize> {
    let last = |sources: &[usize], after: Option<&NodeTrace>| {
        let candidates = runs.iter().enumerate().filter(|(_, run)| {
            sources.contains(&run.node)
                && after.is_none_or(|after| run.ended <= after.ready && run.is_related(after))
        });
        candidates
            .max_by_key(|(_, run)| run.ended)
            .map(|(place, _)| place)
    };
    let mut path = Vec::new();
    let mut next = last(&plan.nodes[plan.exit()].sources, None);
    while let Some(place) = next {
        path.push(place);
        let run = &runs[place];
        next = last(&plan.nodes[run.node].sources, Some(run));
    }
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{NodeTrace, critical_path};
    use crate::pipeline::{plan::PipelinePlan, tests::plan};

    /// Runs of nodes by name: session, and milliseconds of ready, started and ended.
    fn runs(plan: &PipelinePlan, reported: &[(&str, &str, [u64; 3])]) -> Vec<NodeTrace> {
        let begin = Instant::now();
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        let node = |name: &str| -> usize {
            (0..plan.nodes.len())
                .find(|id| plan.nodes[*id].name == name)
                .expect("a node of the plan")
        };
        reported
            .iter()
            .map(|(name, session, [ready, started, ended])| NodeTrace {
                node: node(name),
                session: (*session).to_owned(),
                ready: at(*ready),
                started: at(*started),
                ended: at(*ended),
                inputs: Vec::new(),
                outputs: Vec::new(),
            })
            .collect()
    }

    #[test]
    fn the_path_follows_the_source_that_came_last() {
        let nodes = ["a 1>2 request split 2", "b 1>1 a", "c 2>1 b gather a"];
        let plan = plan(None, &nodes, &["c"]);
        let runs = runs(
            &plan,
            &[
                ("a", "", [0, 0, 5]),
                ("b", "a_0", [5, 5, 20]),
                ("b", "a_1", [5, 9, 12]),
                ("c", "", [20, 21, 30]),
            ],
        );
        assert_eq!(critical_path(&plan, &runs), [0, 1, 3]);
        assert_eq!(runs[2].waited(), Duration::from_millis(4));
        assert_eq!(runs[2].took(), Duration::from_millis(3));
    }

    #[test]
    fn only_related_sessions_wait_for_each_other() {
        let plan = plan(None, &["b 1>1 request"], &["b"]);
        let runs = runs(
            &plan,
            &[
                ("b", "inner_2_outer_1", [0, 0, 1]),
                ("b", "inner_2_outer_0", [0, 0, 1]),
                ("b", "outer_1", [0, 0, 1]),
                ("b", "", [0, 0, 1]),
                ("b", "router_1", [0, 0, 1]),
            ],
        );
        assert!(runs[0].is_related(&runs[2]) && runs[2].is_related(&runs[0]));
        assert!(!runs[0].is_related(&runs[1]) && !runs[1].is_related(&runs[2]));
        assert!(runs[0].is_related(&runs[3]) && !runs[4].is_related(&runs[2]));
    }
}
