//! What is known of a node in a run.

use std::{collections::VecDeque, sync::Arc};

use crate::graph::{
    GraphPlan, GraphRunError, Later, Packet, Timestamp,
    handlers::{Input, Policy},
};

/// How far a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Side packets are missing, or its turn has not come.
    Waiting,
    /// `Open` is under way.
    Opening,
    /// `Process` may be called.
    Open,
    /// `Close` is under way.
    Closing,
    /// Nothing is left to do; it may never have been opened.
    Closed,
}

/// A node in a run.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) phase: Phase,
    /// Its place in the order of the graph; producers before consumers.
    pub(super) rank: usize,
    /// The side packets that are not there yet.
    pub(super) missing: usize,
    pub(super) side: Arc<[Packet]>,
    pub(super) policy: Policy,
    pub(super) inputs: Vec<Input>,
    pub(super) gates: Vec<Gate>,
    pub(super) max_in_flight: usize,
    /// What is under way, in the order in which it began.
    pub(super) flights: VecDeque<Flight>,
    /// The number of the first of `flights`.
    pub(super) first_flight: u64,
    /// How many of `flights` have not ended.
    pub(super) in_flight: usize,
    /// Whether it waits for room in a queue that it feeds.
    pub(super) is_blocked: bool,
    /// Whether it is to be closed as soon as nothing is under way.
    pub(super) is_stopped: bool,
    /// The time of the next `Process` of a node without inputs.
    pub(super) next: Timestamp,
    pub(super) offset: Option<i64>,
}

/// What stands before an input.
#[derive(Debug)]
pub(super) struct Gate {
    /// The stream that it takes from.
    pub(super) stream: usize,
    /// At how many packets it is full; never, for a back edge.
    pub(super) limit: usize,
    pub(super) is_full: bool,
    pub(super) is_back_edge: bool,
    /// Whether the bound was raised because nothing else could go on: what comes before it is dropped.
    pub(super) is_forced: bool,
}

/// A `Process` under way.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) at: Timestamp,
    /// What came of it, if it has ended before one that began earlier.
    pub(super) outcome: Option<Result<Later, GraphRunError>>,
}

impl Node {
    /// Makes a node that has not begun.
    pub(super) fn new(plan: &GraphPlan, node: usize, rank: usize, side: &Arc<[Packet]>) -> Self {
        let planned = &plan.nodes[node];
        let gates = planned.inputs.iter().enumerate().map(|(place, stream)| {
            let is_back_edge = planned.back_edges.get(place).copied().unwrap_or_default();
            Gate {
                stream: *stream,
                limit: match plan.max_queue {
                    Some(limit) if !is_back_edge => limit.max(1),
                    _ => usize::MAX,
                },
                is_full: false,
                is_back_edge,
                is_forced: false,
            }
        });
        let count = planned.inputs.len();
        Self {
            phase: Phase::Waiting,
            rank,
            missing: 0,
            side: Arc::clone(side),
            policy: Policy::new(&planned.handler, count, planned.contract.wants_bounds),
            gates: gates.collect(),
            inputs: (0..count).map(|_| Input::new()).collect(),
            max_in_flight: planned.max_in_flight.max(1),
            flights: VecDeque::new(),
            first_flight: 0,
            in_flight: 0,
            is_blocked: false,
            is_stopped: false,
            next: Timestamp::MIN,
            offset: planned.contract.offset,
        }
    }

    /// Tells whether it has no inputs: it runs unasked.
    pub(super) const fn is_source(&self) -> bool {
        self.gates.is_empty()
    }

    /// Tells whether looking at its queues can lead to anything.
    pub(super) fn may_run(&self) -> bool {
        self.phase == Phase::Open && self.in_flight < self.max_in_flight
    }

    /// Tells whether what is sent to it is of any use.
    pub(super) const fn is_listening(&self) -> bool {
        !self.is_stopped && !matches!(self.phase, Phase::Closing | Phase::Closed)
    }

    /// Notes that a `Process` begins, and returns its number.
    pub(super) fn take_off(&mut self, at: Timestamp) -> u64 {
        self.flights.push_back(Flight { at, outcome: None });
        self.in_flight += 1;
        self.first_flight + self.flights.len() as u64 - 1
    }

    /// Notes what came of a `Process`.
    pub(super) fn land(&mut self, number: u64, outcome: Result<Later, GraphRunError>) {
        self.in_flight -= 1;
        let place = usize::try_from(number - self.first_flight).unwrap_or(usize::MAX);
        if let Some(flight) = self.flights.get_mut(place) {
            flight.outcome = Some(outcome);
        }
    }

    /// Takes out what came of the earliest `Process`, if it has ended.
    pub(super) fn landed(&mut self) -> Option<Result<Later, GraphRunError>> {
        let outcome = self.flights.front_mut()?.outcome.take()?;
        self.flights.pop_front();
        self.first_flight += 1;
        Some(outcome)
    }

    /// Returns the lowest time of which anything may still be sent.
    pub(super) fn floor(&mut self) -> Timestamp {
        let floor = self.policy.floor(&self.inputs);
        let flights = self.flights.iter().map(|flight| flight.at);
        flights.fold(floor, Timestamp::min)
    }
}
