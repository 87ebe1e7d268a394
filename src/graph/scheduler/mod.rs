//! What runs next in a graph: a state machine over packets, times and bounds.
//!
//! It knows no calculators and waits for nothing. The driver of a run pushes packets in, runs the
//! [`Job`]s that [`Scheduler::next`] gives, says what came of each ([`Scheduler::done`]), and takes
//! what leaves the graph ([`Scheduler::take_output`]). The order of jobs depends on these calls alone.

mod end;
mod flow;
mod line;
mod node;
mod order;
mod queue;
mod run;
#[cfg(test)]
mod tests;

use std::{collections::VecDeque, sync::Arc};

use self::{line::Line, node::Node, queue::Ready};
use super::{AbseilCode, CalculatorStep, GraphPlan, GraphRunError, Packet, Timestamp};

/// How many packets may wait to be taken out of a graph before its nodes pause, unless said otherwise.
const BACKLOG: usize = 64;

/// How many packets may wait in one queue, however often its limit was raised because all waited for
/// each other.
const MAX_IN_QUEUE: usize = 1 << 16;

/// How many bytes wait to be taken out before nodes pause.
const BACKLOG_BYTES: usize = 4 << 20;

/// How many faults of a run are told.
const MAX_ERRORS: usize = 16;

/// The state of a run of a graph.
#[derive(Debug)]
pub struct Scheduler {
    plan: Arc<GraphPlan>,
    nodes: Vec<Node>,
    /// The nodes by rank.
    order: Vec<usize>,
    lines: Vec<Line>,
    sides: Vec<Option<Packet>>,
    /// Nodes to be opened.
    opens: VecDeque<usize>,
    /// Nodes with inputs to be looked at, by rank.
    ready: Ready,
    /// Nodes without inputs that may go on.
    sources: VecDeque<usize>,
    /// Nodes to be closed after a fault.
    closes: VecDeque<usize>,
    outputs: VecDeque<(usize, Packet)>,
    /// What these hold together.
    outputs_bytes: usize,
    backlog: usize,
    errors: Vec<GraphRunError>,
    running: usize,
    /// How many nodes are not closed.
    left: usize,
    /// How many inputs of the graph are not closed.
    open_inputs: usize,
    /// How many queues are full.
    full: usize,
}

/// Something to run.
#[derive(Debug)]
pub struct GraphJob {
    /// To be given back with what came of it.
    pub ticket: Ticket,
    /// The node.
    pub node: usize,
    /// What is to be called.
    pub step: CalculatorStep,
    /// The time of the inputs; [`Timestamp::UNSTARTED`] to open, [`Timestamp::DONE`] to close.
    pub at: Timestamp,
    /// The inputs, by place; none to open and to close.
    pub inputs: Vec<Packet>,
    /// For each input the time of what is first in its queue now, else its bound;
    /// [`Timestamp::DONE`] if it is closed and nothing waits.
    pub bounds: Vec<Timestamp>,
    /// The side packets, by place; empty where an optional one is not given.
    pub side: Arc<[Packet]>,
}

/// Says which job has ended.
#[derive(Debug)]
pub struct Ticket {
    node: usize,
    step: CalculatorStep,
    number: u64,
    /// Whether the run had failed when the job began: nobody asks what comes of it.
    is_late: bool,
}

impl Scheduler {
    /// Begins a run, with the side packets that are given, by the places of the plan.
    ///
    /// # Errors
    ///
    /// Fails if one is missing that a node needs and no node gives.
    pub fn new(plan: Arc<GraphPlan>, mut side: Vec<Option<Packet>>) -> Result<Self, GraphRunError> {
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
            lines: (0..plan.streams.len())
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

    /// Sets how many packets may wait to be taken out before nodes pause; at least one.
    pub fn set_backlog(&mut self, packets: usize) {
        self.backlog = packets.max(1);
    }

    /// Puts a packet into an input of the graph.
    ///
    /// # Errors
    ///
    /// Fails, and with it the run, if the time does not increase; fails if the run has failed, or if
    /// the input is closed.
    pub fn push(&mut self, input: usize, packet: Packet) -> Result<(), GraphRunError> {
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

    /// Returns the highest time that a node which generates has sent to itself, to go on at.
    #[must_use]
    pub fn generated(&self) -> Option<Timestamp> {
        let loops = self.plan.loops();
        let last = loops.map(|stream| self.lines[stream].last).max()?;
        (last != Timestamp::UNSET).then_some(last)
    }

    /// Says that nothing before a time will come at an input of the graph.
    pub fn bound(&mut self, input: usize, bound: Timestamp) {
        if bound == Timestamp::DONE {
            self.close_input(input);
        } else {
            self.raise(self.plan.inputs[input].stream, bound);
        }
    }

    /// Closes an input of the graph.
    pub fn close_input(&mut self, input: usize) {
        let stream = self.plan.inputs[input].stream;
        if !self.lines[stream].is_closed() {
            self.open_inputs -= 1;
            self.raise(stream, Timestamp::DONE);
        }
    }

    /// Closes all inputs of the graph.
    pub fn close_inputs(&mut self) {
        for input in 0..self.plan.inputs.len() {
            self.close_input(input);
        }
    }

    /// Tells whether a packet should be pushed now: not while a queue that it would go to is full, or
    /// too much waits to be taken out. Once [`Scheduler::next`] has given `None`, nothing runs and all
    /// outputs are taken, it is so.
    #[must_use]
    pub fn accepts(&self, input: usize) -> bool {
        let stream = self.plan.inputs[input].stream;
        let is_through = !self.plan.streams[stream].outputs.is_empty();
        !self.errors.is_empty()
            || self.lines[stream].is_closed()
            || (self.lines[stream].full == 0 && !(is_through && self.is_clogged()))
    }

    /// Returns what has left the graph next: the place of an output, and a packet.
    pub fn take_output(&mut self) -> Option<(usize, Packet)> {
        let (output, packet) = self.outputs.pop_front()?;
        self.outputs_bytes = self.outputs_bytes.saturating_sub(packet.bytes());
        Some((output, packet))
    }

    /// Tells whether nothing runs and nothing can: until something is pushed, or closed.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let is_waiting = || {
            self.opens.is_empty()
                && self.ready.is_empty()
                && self.sources.is_empty()
                && (self.open_inputs > 0 || self.left == 0)
        };
        self.running == 0 && self.closes.is_empty() && (!self.errors.is_empty() || is_waiting())
    }

    /// Returns how many jobs are under way.
    #[must_use]
    pub const fn is_running(&self) -> usize {
        self.running
    }

    /// Tells whether all is over: every node is closed or was never opened. Outputs may still wait.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.running == 0
            && self.left == 0
            && (!self.errors.is_empty() || self.open_inputs == 0 || !self.nodes.is_empty())
    }

    /// Fails the run: nothing is opened or processed any more, and what is open is closed.
    pub fn fail(&mut self, error: GraphRunError) {
        let is_first = self.errors.is_empty();
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        }
        if is_first {
            self.give_up();
        }
    }

    /// Returns what has failed, all of it in one.
    #[must_use]
    pub fn error(&self) -> Option<GraphRunError> {
        GraphRunError::of_run(&self.errors)
    }

    /// Tells whether something waits to be taken out.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.outputs.is_empty()
    }

    /// Tells whether too much waits to be taken out.
    fn is_clogged(&self) -> bool {
        self.outputs.len() >= self.backlog || self.outputs_bytes >= BACKLOG_BYTES
    }
}

/// Tells whether a node cannot do without a side packet.
fn needs(plan: &GraphPlan, node: usize, place: usize) -> bool {
    let known = plan.nodes[node].contract.side_inputs.get(place);
    !known.is_some_and(|(_, is_optional)| *is_optional)
}

fn missing_side(name: &str) -> GraphRunError {
    let text = format!("Side packet \"{name}\" is required but was not provided.");
    GraphRunError::new(AbseilCode::FailedPrecondition, text)
}
