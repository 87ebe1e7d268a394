//! The order of a request's work: which node runs when, and for which part of what.
//!
//! Knows no tensors. Each run that ends goes to [`Schedule::finished`], which says what can run
//! now: the nodes of which all sources have run for the same session, or, for a node that gathers,
//! for all parts of its session, which may be none. Counters are kept for each node and session and touched once for
//! each source that has run, so that the work is in proportion to the runs.

use std::sync::Arc;

use super::{
    plan::{PipelinePlan, PipelinePlanNode},
    session::{PipelineSession, Sessions},
    shards::TOO_MANY,
};
use crate::error::{Error, Result};

/// Maximum number of sessions of one request: parts of parts, which may be more than any one demultiplexer
/// gives.
pub const MAX_SESSIONS: usize = 1 << 20;

/// A node that can run for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ready {
    /// The node.
    pub node: usize,
    /// Session that it runs for.
    pub session: PipelineSession,
}

/// The state of one request.
#[derive(Debug, Clone)]
pub struct Schedule {
    pub(super) plan: Arc<PipelinePlan>,
    /// The sessions so far.
    pub(super) sessions: Sessions,
    /// Counters for each node and each number of levels below its session, from none to all that it
    /// gathers: what is still waited for there.
    waiting: Vec<Vec<Counters>>,
    /// Indicates that something has failed, so that nothing becomes ready any more.
    pub(super) stopped: bool,
}

/// Counts down, by the ordinal of a session in its level.
#[derive(Debug, Clone, Default)]
struct Counters(Vec<u32>);

impl Counters {
    /// Counts one down from a first value; returns whether nothing is left.
    fn down(&mut self, ordinal: usize, first: impl FnOnce() -> usize) -> bool {
        const UNTOUCHED: u32 = u32::MAX;
        if self.0.len() <= ordinal {
            self.0.resize(ordinal + 1, UNTOUCHED);
        }
        let counter = &mut self.0[ordinal];
        if *counter == UNTOUCHED {
            *counter = u32::try_from(first()).expect("fewer than sessions and nodes");
        }
        debug_assert!(*counter > 0, "nothing is left");
        *counter -= 1;
        *counter == 0
    }
}

impl Schedule {
    /// Makes the schedule of a request.
    pub fn new(plan: Arc<PipelinePlan>) -> Self {
        let nodes = plan.nodes.iter();
        Self {
            sessions: Sessions::new(&plan),
            waiting: nodes
                .map(|node| vec![Counters::default(); node.gathers.len() + 1])
                .collect(),
            plan,
            stopped: false,
        }
    }

    /// Returns what runs first: the entry, which is to be reported as finished once the request's
    /// tensors are there, and nodes without inputs.
    pub fn start(&self) -> Vec<Ready> {
        let nodes = self.plan.nodes.iter().enumerate();
        let first = nodes.filter(|(_, node)| node.sources.is_empty());
        let ready = first.map(|(node, _)| Ready {
            node,
            session: PipelineSession::WHOLE,
        });
        ready.collect()
    }

    /// Takes note that a node has run for a session, and returns what can run now. `shards` is the
    /// number of parts that its outputs are split into, for a demultiplexer and for no other.
    ///
    /// After a failure nothing becomes ready any more.
    ///
    /// # Errors
    ///
    /// Fails if there are too many parts of parts.
    ///
    /// # Panics
    ///
    /// Panics if there are parts of what is no demultiplexer, or none named for one.
    pub fn finished(&mut self, ran: Ready, shards: Option<usize>) -> Result<Vec<Ready>> {
        if self.stopped {
            return Ok(Vec::new());
        }
        let plan = Arc::clone(&self.plan);
        let node = &plan.nodes[ran.node];
        assert_eq!(
            node.opens.is_some(),
            shards.is_some(),
            "only a demultiplexer has parts"
        );
        let mut ready = Vec::new();
        if let (Some(level), Some(count)) = (node.opens, shards) {
            if self.sessions.len() + count > MAX_SESSIONS {
                self.stop();
                return Err(Error::internal(format!(
                    "{TOO_MANY} - Node: {}; Expected: at most {MAX_SESSIONS} parts within parts",
                    node.name
                )));
            }
            self.sessions.split(ran.session, level, count);
            for session in self.sessions.parts(ran.session, level) {
                self.arrive(node, session, &mut ready);
            }
            if count == 0 {
                self.skip(ran.session, level, &mut ready);
            }
        } else {
            self.arrive(node, ran.session, &mut ready);
        }
        Ok(ready)
    }

    /// Lets nothing become ready any more.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// Delivers the outputs of a node for a session to its consumers.
    fn arrive(
        &mut self,
        node: &PipelinePlanNode,
        session: PipelineSession,
        ready: &mut Vec<Ready>,
    ) {
        let plan = Arc::clone(&self.plan);
        for id in &node.consumers {
            let consumer = &plan.nodes[*id];
            let depth = consumer.gathers.len();
            let waiting = &mut self.waiting[*id][depth];
            if waiting.down(self.sessions.ordinal(session), || consumer.sources.len())
                && let Some(session) = self.climb(consumer, *id, session, depth)
            {
                ready.push(Ready { node: *id, session });
            }
        }
    }

    /// Takes note that a node has everything for a session that is so many gathered levels below
    /// its own; returns the session that it can run for, if so.
    fn climb(
        &mut self,
        node: &PipelinePlanNode,
        id: usize,
        session: PipelineSession,
        depth: usize,
    ) -> Option<PipelineSession> {
        let sessions = &self.sessions;
        let waiting = &mut self.waiting[id];
        let mut at = session;
        for depth in (0..depth).rev() {
            at = sessions.parent(at);
            let parts = || {
                let parts = sessions.count(at, node.gathers[depth]);
                parts.expect("one of them has just been complete")
            };
            if !waiting[depth].down(sessions.ordinal(at), parts) {
                return None;
            }
        }
        Some(at)
    }

    /// Lets those wait no more who gather the parts of a session, of which there are none. What
    /// would run for them does not run.
    fn skip(&mut self, session: PipelineSession, level: usize, ready: &mut Vec<Ready>) {
        let plan = Arc::clone(&self.plan);
        for (id, node) in plan.nodes.iter().enumerate() {
            let Some(depth) = node.gathers.iter().position(|gathered| *gathered == level) else {
                continue;
            };
            if let Some(session) = self.climb(node, id, session, depth) {
                ready.push(Ready { node: id, session });
            }
        }
    }
}
