//! Steps taken when no node can run by the regular rules.

use super::{MAX_IN_QUEUE, Scheduler, missing_side, node::Phase};
use crate::graph::{
    calculators::{
        error::{AbseilCode, GraphRunError},
        timestamp::Timestamp,
    },
    runtime::handlers::Input,
};

impl Scheduler {
    /// Raises the limits of full queues that block a producer while nothing runs; or fails, if the
    /// graph is to report that. Returns whether there was such a queue.
    pub(super) fn make_room(&mut self) -> bool {
        let mut names: Vec<&str> = Vec::new();
        let mut tight = Vec::new();
        let (mut is_too_much, mut is_heavy) = (false, false);
        for (node, known) in self.nodes.iter().enumerate() {
            for (place, gate) in known.gates.iter().enumerate() {
                if gate.is_full && self.is_awaited(gate.stream) {
                    names.push(&self.plan.streams[gate.stream].name);
                    tight.push((node, place));
                    is_too_much |= known.inputs[place].len() >= MAX_IN_QUEUE;
                    is_heavy |= known.inputs[place].is_heavy();
                }
            }
        }
        if tight.is_empty() {
            return false;
        }
        names.dedup();
        let names = || format!("\"{}\"", names.join("\", \""));
        if self.plan.report_deadlock {
            let text = format!(
                "Detected a deadlock due to input throttling for: {}. All nodes wait for each other. \
                 Raise max_queue_size, or leave out report_deadlock.",
                names()
            );
            self.fail(GraphRunError::new(AbseilCode::Unavailable, text));
            return true;
        }
        if is_too_much || is_heavy {
            let what = match is_heavy {
                true => "64 MiB".to_owned(),
                false => format!("{MAX_IN_QUEUE} packets"),
            };
            let names = names();
            let text = format!(
                "More than {what} wait for other streams before they can be used, on: {names}"
            );
            self.fail(GraphRunError::new(AbseilCode::ResourceExhausted, text));
            return true;
        }
        for (node, place) in tight {
            self.nodes[node].gates[place].limit = self.nodes[node].inputs[place].len() + 1;
            self.relax(node);
        }
        true
    }

    /// Resumes the first remaining node when no input of the graph is open and nothing can run: it
    /// waits for back edges, on which packets arrive only in response to its own output.
    pub(super) fn end_loop(&mut self) {
        let mut order = self.order.iter().copied();
        let Some(node) = order.find(|node| self.nodes[*node].phase != Phase::Closed) else {
            return;
        };
        if self.nodes[node].phase == Phase::Waiting {
            let mut sides = self.plan.nodes[node].side_inputs.iter();
            let missing = sides.find(|side| self.sides[**side].is_none());
            let name = missing.map(|side| self.plan.sides[*side].name.as_str());
            return self.fail(missing_side(name.unwrap_or_default()));
        }
        let known = &mut self.nodes[node];
        // Queued packets are released up to their timestamp; without any, or if that has no effect,
        // the input ends.
        let waiting = known.inputs.iter().filter(|input| input.len() > 0);
        let first = waiting.map(Input::time).min();
        let bound = first.map_or(Timestamp::DONE, Timestamp::next_allowed);
        for bound in [bound, Timestamp::DONE] {
            let mut is_raised = false;
            for (gate, input) in known.gates.iter_mut().zip(&mut known.inputs) {
                if gate.is_back_edge && input.raise(bound) {
                    gate.is_forced = true;
                    is_raised = true;
                }
            }
            if is_raised {
                self.ready.insert(known.rank);
                return;
            }
        }
        // Its inputs will not arrive.
        known.is_stopped = true;
        known.is_blocked = false;
        self.go_on(node);
    }
}
