//! Lines of the log about requests that the handlers of a graph have spoiled without an exception: clients get an
//! error, or bytes that do not fit, of which those who run the server would not hear.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::{
    graph::{
        calculators::packet::{Packet, Payload},
        check::plan::{GraphPlan, GraphPort},
        runtime::scheduler::Scheduler,
    },
    python::brief,
    request::LooseTensor,
    tensor::{DataType, ShapeText},
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
    /// An output has other bytes than its datatype and shape say.
    Misfit,
}

/// The last line of a kind about a node.
#[derive(Debug)]
struct LastRemark {
    at: Instant,
    /// Number of lines left out since.
    since: u64,
}

/// Lines about a graph since it was loaded, by their kinds and nodes.
#[derive(Debug, Default)]
pub(in crate::graph) struct GraphRemarks(Mutex<HashMap<(RemarkKind, usize), LastRemark>>);

impl GraphRemarks {
    /// Logs that a unary request has an error instead of an answer, since a Python node gave no output.
    pub(in crate::graph) fn no_output(&self, graph: &str, plan: &GraphPlan, output: &GraphPort) {
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
    pub(in crate::graph) fn failed(&self, graph: &str, plan: &GraphPlan, scheduler: &Scheduler) {
        if let Some((node, error)) = scheduler.first_failure()
            && plan.is_behind_python(node)
            && let Some(more) = self.due(RemarkKind::Failed, node)
        {
            let failure = &error.message;
            tracing::warn!("graph {graph}: behind a Python node, {failure}{more}");
        }
    }

    /// Logs that an output of a Python node has other bytes than it says, which clients get as it is.
    pub(in crate::graph) fn given(
        &self,
        graph: &str,
        plan: &GraphPlan,
        output: &GraphPort,
        packet: &Packet,
    ) {
        let Some(Payload::Python(tensor)) = packet.payload() else {
            return;
        };
        let (datatype, shape) = (tensor.datatype(), tensor.shape());
        let found = tensor.bytes().len();
        if let Some((node, misfit)) = plan.misfit_of(output, datatype, shape, found)
            && let Some(more) = self.due(RemarkKind::Misfit, node)
        {
            tracing::warn!("graph {graph}: {misfit}{more}");
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

impl GraphPlan {
    /// Describes an output of a response whose bytes are not those of its datatype and shape, if it comes from a Python
    /// node.
    pub fn misfit(&self, output: &LooseTensor) -> Option<String> {
        let port = self.outputs.iter().find(|it| it.port.name == output.name)?;
        let (datatype, found) = (&output.datatype, output.data.len());
        let (_, text) = self.misfit_of(port, datatype, &output.shape, found)?;
        Some(text)
    }

    /// Returns the node as well.
    fn misfit_of(
        &self,
        output: &GraphPort,
        datatype: &str,
        shape: &[i64],
        found: usize,
    ) -> Option<(usize, String)> {
        let expected = misfit(datatype, shape, found)?;
        let (node, port) = self.python_source(output)?;
        let spec = &self.nodes[node].spec;
        let (name, output) = (&spec.name, &spec.outputs[port].name);
        let shape = ShapeText(shape).to_string();
        let shape = brief(&shape);
        let text = format!(
            "node {name} gave output \"{output}\" as {datatype} {shape} with {found} bytes; expected {expected}; clients \
             get it as it is"
        );
        Some((node, text))
    }
}

/// Returns how many bytes a tensor should have, in words, if it has others and its datatype says so. Strings are left to
/// those who made them.
fn misfit(datatype: &str, shape: &[i64], found: usize) -> Option<String> {
    let size = DataType::from_kserve(datatype)?.size()?;
    let mut lengths = shape.iter();
    let expected = lengths.try_fold(size, |bytes, length| {
        bytes.checked_mul(usize::try_from(*length).ok()?)
    });
    match expected {
        Some(expected) if expected == found => None,
        Some(expected) => Some(expected.to_string()),
        None => Some("lengths of 0 or more that fit in memory".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{GraphRemarks, PAUSE, RemarkKind, misfit};

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
        let other = remarks.due_at(RemarkKind::Misfit, 1, began);
        assert_eq!(other.as_deref(), Some(""));
    }

    #[test]
    fn bytes_are_compared_where_datatype_and_shape_say_how_many() {
        for (datatype, shape, bytes) in [
            ("FP32", &[2, 3][..], 24),
            ("FP32", &[], 4),
            ("BF16", &[3], 6),
            ("UINT8", &[0, 5], 0),
            ("BYTES", &[2, 2], 4),
            ("my own", &[9], 4),
        ] {
            assert_eq!(misfit(datatype, shape, bytes), None, "{datatype} {shape:?}");
        }
        assert_eq!(misfit("FP32", &[2, 3], 10).as_deref(), Some("24"));
        assert_eq!(misfit("UINT8", &[], 4).as_deref(), Some("1"));
        for shape in [&[-1, 4][..], &[i64::MAX, 4]] {
            let text = misfit("FP32", shape, 4).unwrap();
            assert_eq!(text, "lengths of 0 or more that fit in memory");
        }
    }
}
