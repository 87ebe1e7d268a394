//! Lines of the log about requests that the handlers of a graph have spoiled without an exception: clients get an
//! error, of which those who run the server would not hear.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{
    plan::{GraphPlan, GraphPort},
    scheduler::Scheduler,
};

/// The shortest time between two lines of one kind about a node. Those that are left out are counted.
const PAUSE: Duration = Duration::from_secs(60);

/// Kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum RemarkKind {
    /// A unary request got an error, since a node gave no output.
    NoOutput,
    /// A run has failed in a node behind a Python node.
    Failed,
}

/// The last line of a kind about a node.
#[derive(Debug)]
struct LastRemark {
    at: Instant,
    /// How many were left out since.
    since: u64,
}

/// Lines about a graph since it was loaded, by their kinds and nodes.
#[derive(Debug, Default)]
pub(super) struct GraphRemarks(Mutex<HashMap<(RemarkKind, usize), LastRemark>>);

impl GraphRemarks {
    /// Logs that a unary request has an error instead of an answer, since a Python node gave no output.
    pub(super) fn no_output(&self, graph: &str, plan: &GraphPlan, output: &GraphPort) {
        if let Some((node, _)) = plan.python_source(output)
            && let Some(unreturned) = plan.unreturned(output)
            && let Some(more) = self.due(RemarkKind::NoOutput, node)
        {
            tracing::warn!(
                "graph {graph}: {unreturned}, so that a request without a stream has an error{more}"
            );
        }
    }

    /// Logs that a run has failed in a node that refuses what Python nodes have made. Exceptions of those are logged
    /// where they are raised, and what is the client's own is for the client alone.
    pub(super) fn failed(&self, graph: &str, plan: &GraphPlan, scheduler: &Scheduler) {
        if let Some((node, error)) = scheduler.first_failure()
            && plan.is_behind_python(node)
            && let Some(more) = self.due(RemarkKind::Failed, node)
        {
            let failure = &error.message;
            tracing::warn!("graph {graph}: behind a Python node, {failure}{more}");
        }
    }

    /// Returns what ends a line that is due, with how many were left out since the last one.
    fn due(&self, kind: RemarkKind, node: usize) -> Option<String> {
        self.due_at(kind, node, Instant::now())
    }

    fn due_at(&self, kind: RemarkKind, node: usize, now: Instant) -> Option<String> {
        let mut all = self.0.lock();
        let since = match all.get_mut(&(kind, node)) {
            Some(last) if now.saturating_duration_since(last.at) < PAUSE => {
                last.since += 1;
                return None;
            }
            last => last.map_or(0, |last| last.since),
        };
        all.insert((kind, node), LastRemark { at: now, since: 0 });
        Some(match since {
            0 => String::new(),
            more => format!(" ({more} more like it since the last such line)"),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{GraphRemarks, PAUSE, RemarkKind};

    #[test]
    fn a_line_comes_again_after_a_pause_with_how_many_were_left_out() {
        let remarks = GraphRemarks::default();
        let (kind, began) = (RemarkKind::Failed, Instant::now());
        let due = |node, after: Duration| remarks.due_at(kind, node, began + after);
        assert_eq!(due(1, Duration::ZERO).as_deref(), Some(""));
        assert_eq!(due(2, Duration::ZERO).as_deref(), Some(""));
        assert_eq!(due(1, Duration::from_secs(1)), None);
        assert_eq!(due(1, PAUSE - Duration::from_millis(1)), None);
        let more = " (2 more like it since the last such line)";
        assert_eq!(due(1, PAUSE).as_deref(), Some(more));
        assert_eq!(due(1, PAUSE * 2).as_deref(), Some(""));
        let other = remarks.due_at(RemarkKind::NoOutput, 1, began);
        assert_eq!(other.as_deref(), Some(""));
    }
}
