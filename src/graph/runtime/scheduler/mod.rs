//! Scheduling of the nodes of a graph: a state machine over packets, timestamps and bounds.
//!
//! It knows no calculators and never waits. The driver of a run pushes packets in, runs the
//! [`GraphJob`]s returned by [`Scheduler::next_job`], reports their outcomes ([`Scheduler::done`]), and
//! takes the output packets ([`Scheduler::take_output`]). The order of jobs depends on these calls
//! alone.

mod end;
mod flow;
mod node;
mod order;
mod queue;
mod run;
#[cfg(test)]
mod tests;

use std::{collections::VecDeque, sync::Arc};

use self::{
    flow::Line,
    node::{Node, Phase},
    queue::Ready,
};
use crate::graph::{
    calculators::{
        error::{AbseilCode, CalculatorStep, GraphRunError},
        packet::Packet,
        timestamp::Timestamp,
    },
    check::plan::GraphPlan,
};

/// Default number of output packets that may wait before the nodes of a graph pause.
const BACKLOG: usize = 64;

/// Maximum number of packets in one queue, however often its limit was raised to resolve a deadlock.
const MAX_IN_QUEUE: usize = 1 << 16;

/// Size in bytes of output packets that may wait before nodes pause.
const BACKLOG_BYTES: usize = 4 << 20;

/// Maximum number of errors reported for a run.
const MAX_ERRORS: usize = 16;

/// State of a run of a graph.
#[derive(Debug)]
pub(in crate::graph) struct Scheduler {
    plan: Arc<GraphPlan>,
    nodes: Vec<Node>,
    /// Nodes by rank.
    order: Vec<usize>,
    lines: Vec<Line>,
    sides: Vec<Option<Packet>>,
    /// Nodes to be opened.
    opens: VecDeque<usize>,
    /// Nodes with inputs to be checked, by rank.
    ready: Ready,
    /// Nodes without inputs that may run.
    sources: VecDeque<usize>,
    /// Nodes to be closed after an error.
    closes: VecDeque<usize>,
    outputs: VecDeque<(usize, Packet)>,
    /// Total size of the outputs, in bytes.
    outputs_bytes: usize,
    backlog: usize,
    errors: Vec<GraphRunError>,
    /// The node of the first of them, if it is one of a node.
    failed: Option<usize>,
    running: usize,
    /// Number of nodes that are not closed.
    left: usize,
    /// Number of inputs of the graph that are not closed.
    open_inputs: usize,
    /// Number of full queues.
    full: usize,
}

/// Step of a node to run.
#[derive(Debug)]
pub(in crate::graph) struct GraphJob {
    /// Node and step to call, to be returned with the outcome.
    pub(in crate::graph) ticket: Ticket,
    /// Timestamp of the inputs; [`Timestamp::UNSTARTED`] to open, [`Timestamp::DONE`] to close.
    pub(in crate::graph) at: Timestamp,
    /// Inputs, by index; none to open and to close.
    pub(in crate::graph) inputs: Vec<Packet>,
    /// Timestamp of the next packet in the queue of each input, else its bound; [`Timestamp::DONE`]
    /// if it is closed and its queue is empty.
    pub(in crate::graph) bounds: Vec<Timestamp>,
    /// Side packets, by index; empty where an optional one is not given.
    pub(in crate::graph) side: Arc<[Packet]>,
}

/// Identifier of a job, to report its outcome.
#[derive(Debug)]
pub(in crate::graph) struct Ticket {
    /// Index of the node.
    pub(in crate::graph) node: usize,
    /// Step to call.
    pub(in crate::graph) step: CalculatorStep,
    number: u64,
    /// Indicates that the run had failed when the job began: its outcome is ignored.
    is_late: bool,
}

impl Scheduler {
    /// Begins a run, with the given side packets, by the indices of the plan.
    ///
    /// # Errors
    ///
    /// Fails if a side packet is missing that a node needs and no node produces.
    pub(in crate::graph) fn new(
        plan: Arc<GraphPlan>,
        mut side: Vec<Option<Packet>>,
    ) -> Result<Self, GraphRunError> {
        side.resize(plan.sides.len(), None);
        for (known, given) in plan.sides.iter().zip(&side) {
            let mut takers = known.to.iter();
            if known.from.is_none()
                && given.is_none()
                && takers.any(|(node, place)| needs(&plan, *node, *place))
            {
                return Err(missing_side(&known.name));
            }
        }
        let order = order::ordered(&plan);
        let mut ranks = vec![0; order.len()];
        for (rank, node) in order.iter().enumerate() {
            ranks[*node] = rank;
        }
        let none: Arc<[Packet]> = Arc::new([]);
        let nodes = 0..plan.nodes.len();
        let nodes = nodes.map(|node| Node::new(&plan, node, ranks[node], &none));
        let mut scheduler = Self {
            nodes: nodes.collect(),
            lines: plan
                .streams
                .iter()
                .map(|stream| Line::new(&plan, stream))
                .collect(),
            sides: side,
            opens: VecDeque::with_capacity(plan.nodes.len()),
            ready: Ready::new(plan.nodes.len()),
            sources: VecDeque::new(),
            closes: VecDeque::new(),
            outputs: VecDeque::new(),
            outputs_bytes: 0,
            backlog: BACKLOG,
            errors: Vec::new(),
            failed: None,
            running: 0,
            left: plan.nodes.len(),
            open_inputs: plan.inputs.len(),
            full: 0,
            order,
            plan,
        };
        scheduler.begin();
        Ok(scheduler)
    }

    /// Pushes a packet into an input of the graph.
    ///
    /// # Errors
    ///
    /// Fails, and with it the run, if the timestamp does not increase; fails if the run has failed,
    /// or if the input is closed.
    pub(in crate::graph) fn push(
        &mut self,
        input: usize,
        packet: Packet,
    ) -> Result<(), GraphRunError> {
        if let Some(error) = self.error() {
            return Err(error);
        }
        let stream = self.plan.inputs[input].stream;
        let is_closed = self.lines[stream].is_closed();
        let sent = self.send(stream, packet);
        if let Err(error) = &sent
            && !is_closed
        {
            self.fail(error.clone());
        }
        sent
    }

    /// Returns the highest timestamp that a generating node has sent to itself, to continue at.
    pub(in crate::graph) fn generated(&self) -> Option<Timestamp> {
        let loops = self.plan.loops();
        let last = loops.map(|stream| self.lines[stream].last).max()?;
        (last != Timestamp::UNSET).then_some(last)
    }

    /// Closes an input of the graph.
    fn close_input(&mut self, input: usize) {
        let stream = self.plan.inputs[input].stream;
        if !self.lines[stream].is_closed() {
            self.open_inputs -= 1;
            self.raise(stream, Timestamp::DONE);
        }
    }

    /// Closes all inputs of the graph.
    pub(in crate::graph) fn close_inputs(&mut self) {
        for input in 0..self.plan.inputs.len() {
            self.close_input(input);
        }
    }

    /// Returns whether a packet should be pushed now: not while a queue that it would enter is
    /// full, or too many outputs are waiting. Once [`Scheduler::next_job`] has returned `None`, nothing
    /// runs and all outputs are taken, it is true.
    pub(in crate::graph) fn accepts(&self, input: usize) -> bool {
        let stream = self.plan.inputs[input].stream;
        let is_through = !self.plan.streams[stream].outputs.is_empty();
        !self.errors.is_empty()
            || self.lines[stream].is_closed()
            || (self.lines[stream].full == 0 && !(is_through && self.is_clogged()))
    }

    /// Returns the next output packet of the graph, with the index of the output.
    pub(in crate::graph) fn take_output(&mut self) -> Option<(usize, Packet)> {
        let (output, packet) = self.outputs.pop_front()?;
        self.outputs_bytes = self.outputs_bytes.saturating_sub(packet.bytes());
        Some((output, packet))
    }

    /// Returns whether nothing runs or can run until a packet is pushed or an input closed.
    pub(in crate::graph) fn is_idle(&self) -> bool {
        let is_waiting = || {
            self.opens.is_empty()
                && self.ready.is_empty()
                && self.sources.is_empty()
                && (self.open_inputs > 0 || self.left == 0)
        };
        self.running == 0 && self.closes.is_empty() && (!self.errors.is_empty() || is_waiting())
    }

    /// Returns whether a packet waits in an input queue of a node.
    pub(in crate::graph) fn has_queued(&self) -> bool {
        let mut inputs = self.nodes.iter().flat_map(|node| &node.inputs);
        inputs.any(|input| input.len() > 0)
    }

    /// Returns whether a node is being opened, or is about to be.
    pub(in crate::graph) fn is_opening(&self) -> bool {
        let mut nodes = self.nodes.iter();
        !self.opens.is_empty() || nodes.any(|node| node.phase == Phase::Opening)
    }

    /// Returns whether the run is over: every node is closed or was never opened. Outputs may still
    /// wait.
    pub(in crate::graph) fn is_finished(&self) -> bool {
        self.running == 0
            && self.left == 0
            && (!self.errors.is_empty() || self.open_inputs == 0 || !self.nodes.is_empty())
    }

    /// Fails the run: no node is opened or called any more, and open ones are closed.
    pub(in crate::graph) fn fail(&mut self, error: GraphRunError) {
        let is_first = self.errors.is_empty();
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        }
        if is_first {
            self.give_up();
        }
    }

    /// Returns all errors of the run, merged into one.
    pub(in crate::graph) fn error(&self) -> Option<GraphRunError> {
        GraphRunError::of_run(&self.errors)
    }

    /// Returns whether the run has failed.
    pub(in crate::graph) const fn has_failed(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Returns the first error of the run with its node, if it is one of a node.
    pub(in crate::graph) fn first_failure(&self) -> Option<(usize, &GraphRunError)> {
        self.failed.zip(self.errors.first())
    }

    /// Returns whether an output packet is waiting.
    pub(in crate::graph) fn has_output(&self) -> bool {
        !self.outputs.is_empty()
    }

    /// Returns whether too many output packets are waiting.
    fn is_clogged(&self) -> bool {
        self.outputs.len() >= self.backlog || self.outputs_bytes >= BACKLOG_BYTES
    }
}

/// Returns whether a node requires a side packet.
fn needs(plan: &GraphPlan, node: usize, place: usize) -> bool {
    let known = plan.nodes[node].contract.side_inputs.get(place);
    !known.is_some_and(|(_, is_optional)| *is_optional)
}

fn missing_side(name: &str) -> GraphRunError {
    let text = format!("Side packet \"{name}\" is required but was not provided.");
    GraphRunError::new(AbseilCode::FailedPrecondition, text)
}
