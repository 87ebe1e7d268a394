//! Selection of the next job, and handling of outcomes.

use std::sync::Arc;

use super::{GraphJob, Scheduler, Ticket, node::Phase};
use crate::graph::{
    calculators::{
        calculator::Later,
        error::{CalculatorStep, GraphRunError},
        packet::Packet,
        timestamp::Timestamp,
    },
    check::plan::StreamSource,
    runtime::handlers::{Input, Look},
};

impl Scheduler {
    /// Finds the nodes that can be opened at once.
    pub(super) fn begin(&mut self) {
        for (side, known) in self.plan.sides.iter().enumerate() {
            if known.from.is_some() && self.sides[side].is_none() {
                for (taker, _) in &known.to {
                    self.nodes[*taker].missing += 1;
                }
            }
        }
        let nodes = self.order.iter().copied();
        self.opens
            .extend(nodes.filter(|node| self.nodes[*node].missing == 0));
    }

    /// Returns the next job, which the driver has to run; `None` if there is none before a job
    /// ends, a packet is pushed, an input is closed, or an output is taken.
    pub(in crate::graph) fn next_job(&mut self) -> Option<GraphJob> {
        loop {
            if !self.errors.is_empty() {
                let node = self.closes.pop_front()?;
                return Some(self.close_job(node));
            }
            if let Some(node) = self.opens.pop_front() {
                return Some(self.open_job(node));
            }
            if self.is_clogged() {
                return None;
            }
            let job = if let Some(rank) = self.ready.pop() {
                self.validate(self.order[rank])
            } else if let Some(node) = self.sources.pop_front() {
                self.validate_source(node)
            } else if self.running > 0 {
                return None;
            } else if self.full > 0 && self.make_room() {
                // A deadlock is resolved.
                continue;
            } else if self.open_inputs == 0 && self.left > 0 {
                // Only loops are left.
                self.end_loop();
                continue;
            } else {
                return None;
            };
            if job.is_some() {
                return job;
            }
        }
    }

    /// Returns the next job of a node with inputs.
    fn validate(&mut self, node: usize) -> Option<GraphJob> {
        let known = &mut self.nodes[node];
        if !known.may_run() {
            return None;
        }
        if known.is_stopped {
            return (known.in_flight == 0).then(|| self.close_job(node));
        }
        let look = known.policy.look(&mut known.inputs);
        self.relax(node);
        match look {
            Look::At(at) if !self.is_held_up(node) => return Some(self.process_job(node, at)),
            Look::At(_) => self.nodes[node].is_blocked = true,
            Look::Done if self.nodes[node].in_flight == 0 => return Some(self.close_job(node)),
            Look::Wait | Look::Done => {}
        }
        self.settle(node);
        None
    }

    /// Returns the next job of a node without inputs.
    fn validate_source(&mut self, node: usize) -> Option<GraphJob> {
        let known = &self.nodes[node];
        if known.is_stopped {
            return (known.in_flight == 0).then(|| self.close_job(node));
        }
        if self.is_held_up(node) {
            self.nodes[node].is_blocked = true;
            return None;
        }
        let known = &mut self.nodes[node];
        let at = known.next;
        known.next = at.next_allowed();
        let number = known.take_off(at);
        Some(self.job(node, CalculatorStep::Process, at, number, Vec::new()))
    }

    fn process_job(&mut self, node: usize, at: Timestamp) -> GraphJob {
        let known = &mut self.nodes[node];
        known.is_blocked = false;
        let inputs = known.policy.take(at, &mut known.inputs);
        let number = known.take_off(at);
        self.ready.serve(known.rank);
        if known.may_run() {
            self.ready.insert(known.rank);
        }
        self.relax(node);
        self.job(node, CalculatorStep::Process, at, number, inputs)
    }

    fn open_job(&mut self, node: usize) -> GraphJob {
        let sides = &self.plan.nodes[node].side_inputs;
        let known = &mut self.nodes[node];
        known.phase = Phase::Opening;
        if !sides.is_empty() {
            let side = sides.iter().map(|side| self.sides[*side].clone());
            let side = side.map(|side| side.unwrap_or(Packet::empty(Timestamp::UNSET)));
            known.side = side.collect();
        }
        let at = Timestamp::UNSTARTED;
        self.job(node, CalculatorStep::Open, at, 0, Vec::new())
    }

    fn close_job(&mut self, node: usize) -> GraphJob {
        let known = &mut self.nodes[node];
        known.phase = Phase::Closing;
        known.inputs.iter_mut().for_each(Input::close);
        self.relax(node);
        self.job(node, CalculatorStep::Close, Timestamp::DONE, 0, Vec::new())
    }

    fn job(
        &mut self,
        node: usize,
        step: CalculatorStep,
        at: Timestamp,
        number: u64,
        inputs: Vec<Packet>,
    ) -> GraphJob {
        self.running += 1;
        let known = &self.nodes[node];
        let bounds = match step {
            CalculatorStep::Process => known.inputs.iter().map(Input::time).collect(),
            CalculatorStep::Open | CalculatorStep::Close => Vec::new(),
        };
        GraphJob {
            ticket: Ticket {
                node,
                step,
                number,
                is_late: !self.errors.is_empty(),
            },
            at,
            inputs,
            bounds,
            side: Arc::clone(&known.side),
        }
    }

    /// Reports the outcome of a job: the emitted packets, or the calculator's error (the prefix
    /// with step and node is added here).
    pub(in crate::graph) fn done(&mut self, ticket: Ticket, outcome: Result<Later, GraphRunError>) {
        self.running -= 1;
        let node = ticket.node;
        let name = &self.plan.nodes[node].spec.name;
        let outcome = outcome.map_err(|error| error.of_node(ticket.step, name));
        let has_failed = !self.errors.is_empty();
        match ticket.step {
            CalculatorStep::Open => self.opened(node, outcome),
            CalculatorStep::Process => self.processed(node, ticket.number, outcome),
            CalculatorStep::Close => self.closed(node, ticket.is_late, outcome),
        }
        if !has_failed && !self.errors.is_empty() {
            self.failed = Some(node);
        }
    }

    fn opened(&mut self, node: usize, outcome: Result<Later, GraphRunError>) {
        let later = match outcome {
            Ok(later) => later,
            Err(error) => {
                self.nodes[node].phase = Phase::Closed;
                self.left -= 1;
                return self.fail(error);
            }
        };
        self.nodes[node].phase = Phase::Open;
        if !self.errors.is_empty() {
            return self.closes.push_back(node);
        }
        if let Err(error) = self.emit(node, later.emits) {
            return self.fail(error);
        }
        let known = &mut self.nodes[node];
        // A node without streams does all its work in `open`.
        let is_apart = known.is_source() && self.plan.nodes[node].outputs.is_empty();
        known.is_stopped = later.stop || is_apart;
        self.go_on(node);
    }

    fn processed(&mut self, node: usize, number: u64, outcome: Result<Later, GraphRunError>) {
        if !self.errors.is_empty() {
            let known = &mut self.nodes[node];
            known.in_flight -= 1;
            if known.in_flight == 0 {
                self.closes.push_back(node);
            }
            // Those behind a failed step would not have happened one at a time.
            if let Err(error) = outcome
                && !self.plan.nodes[node].is_pipelined()
            {
                self.fail(error);
            }
            return;
        }
        self.nodes[node].land(number, outcome);
        while let Some((at, outcome)) = self.nodes[node].landed() {
            // Outcomes of calls that would not have happened one at a time are not reported.
            if self.nodes[node].is_stopped {
                continue;
            }
            let sent = outcome.and_then(|later| {
                self.nodes[node].is_stopped = later.stop;
                self.emit(node, later.emits)
            });
            if let Err(error) = sent {
                return self.fail(error);
            }
            if at.is_ordinary() && self.nodes[node].offset.is_some() {
                // Other sets of its inputs are not waited for, as in MediaPipe.
                let next = at.next_allowed().min(Timestamp::POST_STREAM);
                self.settle_before(node, next.min(self.nodes[node].pending()));
            }
        }
        self.settle(node);
        self.go_on(node);
    }

    fn closed(&mut self, node: usize, is_late: bool, outcome: Result<Later, GraphRunError>) {
        self.nodes[node].phase = Phase::Closed;
        self.left -= 1;
        if is_late {
            return;
        }
        let ended = outcome.and_then(|later| match self.errors.is_empty() {
            true => self.emit(node, later.emits).and_then(|()| self.shut(node)),
            false => Ok(()),
        });
        if let Err(error) = ended {
            self.fail(error);
        }
    }

    /// Schedules a node again after a step.
    pub(super) fn go_on(&mut self, node: usize) {
        let known = &mut self.nodes[node];
        if known.is_stopped {
            known.inputs.iter_mut().for_each(Input::close);
            self.relax(node);
        }
        let known = &self.nodes[node];
        if known.is_source() {
            self.sources.push_back(node);
        } else if known.may_run() {
            self.ready.insert(known.rank);
        }
    }

    /// Stops all steps except closing.
    pub(super) fn give_up(&mut self) {
        self.opens.clear();
        self.ready.clear();
        self.sources.clear();
        for (place, node) in self.nodes.iter_mut().enumerate() {
            node.inputs.fill_with(Input::new);
            node.flights.clear();
            match node.phase {
                Phase::Waiting => {
                    node.phase = Phase::Closed;
                    self.left -= 1;
                }
                Phase::Open if node.in_flight == 0 => self.closes.push_back(place),
                _ => {}
            }
        }
    }

    /// Returns whether the producer of a stream is blocked: an open input of the graph, or a
    /// waiting node.
    pub(super) fn is_awaited(&self, stream: usize) -> bool {
        match self.plan.streams[stream].from {
            StreamSource::Graph(_) => !self.lines[stream].is_closed(),
            StreamSource::Node(node, _) => self.nodes[node].is_blocked,
        }
    }
}
