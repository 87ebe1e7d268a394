//! Sessions: which part of which demultiplexer a node runs for.

use std::ops::Range;

use super::plan::PipelinePlan;

/// Part of a request that a node runs for: the whole, or a part of a part of it. An index into the
/// [`Sessions`] of one request, so it costs nothing to copy, compare and hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PipelineSession(u32);

impl PipelineSession {
    /// The request as a whole, outside every level.
    pub const WHOLE: Self = Self(0);

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// The sessions of one request: a tree, in which the parts that one run of a demultiplexer gives
/// are the children of that run's session.
#[derive(Debug, Clone)]
pub struct Sessions {
    entries: Vec<Entry>,
    /// The number of sessions of each level.
    in_level: Vec<u32>,
    /// The parts of each session around a level, by level and by the ordinal of that session.
    split: Vec<Vec<Option<Range<u32>>>>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    parent: PipelineSession,
    /// Level of the session; of no meaning for the whole request.
    level: u32,
    shard: u32,
    /// Number of the session within its level, in the order in which they were made.
    ordinal: u32,
}

impl Sessions {
    /// Starts with the request as a whole.
    pub fn new(plan: &PipelinePlan) -> Self {
        let levels = plan.levels.len();
        Self {
            entries: vec![Entry {
                parent: PipelineSession::WHOLE,
                level: u32::MAX,
                shard: 0,
                ordinal: 0,
            }],
            in_level: vec![0; levels],
            split: vec![Vec::new(); levels],
        }
    }

    /// Returns how many there are.
    #[expect(
        clippy::len_without_is_empty,
        reason = "there is always the whole request"
    )]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Splits a session into the parts of a level.
    pub(super) fn split(&mut self, session: PipelineSession, level: usize, count: usize) {
        let first = self.entries.len();
        let narrow = |number: usize| u32::try_from(number).expect("bounded by the schedule");
        let ordinal = self.in_level[level];
        self.entries.extend((0..narrow(count)).map(|shard| Entry {
            parent: session,
            level: narrow(level),
            shard,
            ordinal: ordinal + shard,
        }));
        self.in_level[level] += narrow(count);
        let around = self.ordinal(session);
        let split = &mut self.split[level];
        if split.len() <= around {
            split.resize(around + 1, None);
        }
        split[around] = Some(narrow(first)..narrow(first + count));
    }

    /// Returns which one a session is of its level.
    pub(super) fn ordinal(&self, session: PipelineSession) -> usize {
        self.entries[session.index()].ordinal as usize
    }

    /// Returns the session that this one is a part of.
    pub fn parent(&self, session: PipelineSession) -> PipelineSession {
        self.entries[session.index()].parent
    }

    /// Returns the number of parts of a session in the level next below it; `None` if it has not
    /// been split there.
    pub fn count(&self, session: PipelineSession, level: usize) -> Option<usize> {
        self.found(session, level).map(ExactSizeIterator::len)
    }

    /// Iterates over the parts of a session in the level next below it, in their order.
    pub fn parts(
        &self,
        session: PipelineSession,
        level: usize,
    ) -> impl ExactSizeIterator<Item = PipelineSession> + use<> {
        let parts = self.found(session, level).cloned();
        parts.unwrap_or_default().map(PipelineSession)
    }

    fn found(&self, session: PipelineSession, level: usize) -> Option<&Range<u32>> {
        self.split[level].get(self.ordinal(session))?.as_ref()
    }

    /// Iterates over the levels of a session and its parts in them, the innermost first.
    pub fn shards(&self, session: PipelineSession) -> impl Iterator<Item = (usize, usize)> {
        let mut at = session;
        std::iter::from_fn(move || {
            let entry = (at != PipelineSession::WHOLE).then(|| self.entries[at.index()])?;
            at = entry.parent;
            Some((entry.level as usize, entry.shard as usize))
        })
    }

    /// Writes a session for the log: `inner_2_outer_0` for part 2 of `inner` within part 0 of
    /// `outer`; nothing for the request as a whole.
    pub fn key(&self, plan: &PipelinePlan, session: PipelineSession) -> String {
        let parts = self.shards(session).map(|(level, shard)| {
            let node = &plan.nodes[plan.levels[level].node];
            format!("{}_{shard}", node.name)
        });
        parts.collect::<Vec<_>>().join("_")
    }
}
