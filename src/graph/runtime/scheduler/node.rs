//! State of a node in a run.

use std::{collections::VecDeque, sync::Arc};

use crate::graph::{
    calculators::{calculator::Later, error::GraphRunError, packet::Packet, timestamp::Timestamp},
    check::plan::GraphPlan,
    runtime::handlers::{Input, Policy},
};

/// Phase of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Side packets are missing, or its turn has not come.
    Waiting,
    /// `Open` is in flight.
    Opening,
    /// `Process` may be called.
    Open,
    /// `Close` is in flight.
    Closing,
    /// The node is done; it may never have been opened.
    Closed,
}

/// Node in a run.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) phase: Phase,
    /// Position in the order of the graph; producers before consumers.
    pub(super) rank: usize,
    /// Number of missing side packets.
    pub(super) missing: usize,
    pub(super) side: Arc<[Packet]>,
    pub(super) policy: Policy,
    pub(super) inputs: Vec<Input>,
    pub(super) gates: Vec<Gate>,
    pub(super) max_in_flight: usize,
    /// Steps in flight, in the order in which they began.
    pub(super) flights: VecDeque<Flight>,
    /// Number of the first of `flights`.
    pub(super) first_flight: u64,
    /// Number of `flights` that have not ended.
    pub(super) in_flight: usize,
    /// Indicates that it waits for room in a queue that it feeds.
    pub(super) is_blocked: bool,
    /// Indicates that it is to be closed as soon as no step is in flight.
    pub(super) is_stopped: bool,
    /// Timestamp of the next `Process` of a node without inputs.
    pub(super) next: Timestamp,
    pub(super) offset: Option<i64>,
}

/// Settings of an input queue.
#[derive(Debug)]
pub(super) struct Gate {
    /// Stream of the input.
    pub(super) stream: usize,
    /// Number of packets at which it is full; never, for a back edge.
    pub(super) limit: usize,
    pub(super) is_full: bool,
    pub(super) is_back_edge: bool,
    /// Indicates that the bound was raised to resolve a stall: earlier packets are dropped.
    pub(super) is_forced: bool,
}

/// `Process` call in flight.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) at: Timestamp,
    /// Outcome, if it has ended before one that began earlier.
    pub(super) outcome: Option<Result<Later, GraphRunError>>,
}

impl Node {
    /// Creates a node that has not begun.
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

    /// Returns whether it has no inputs: it runs without a trigger.
    pub(super) const fn is_source(&self) -> bool {
        self.gates.is_empty()
    }

    /// Returns whether checking its queues can have an effect.
    pub(super) fn may_run(&self) -> bool {
        self.phase == Phase::Open && self.in_flight < self.max_in_flight
    }

    /// Returns whether packets sent to it can be used.
    pub(super) const fn is_listening(&self) -> bool {
        !self.is_stopped && !matches!(self.phase, Phase::Closing | Phase::Closed)
    }

    /// Records the begin of a `Process`, and returns its number.
    pub(super) fn take_off(&mut self, at: Timestamp) -> u64 {
        self.flights.push_back(Flight { at, outcome: None });
        self.in_flight += 1;
        self.first_flight + self.flights.len() as u64 - 1
    }

    /// Records the outcome of a `Process`.
    pub(super) fn land(&mut self, number: u64, outcome: Result<Later, GraphRunError>) {
        self.in_flight -= 1;
        let place = usize::try_from(number - self.first_flight).unwrap_or(usize::MAX);
        if let Some(flight) = self.flights.get_mut(place) {
            flight.outcome = Some(outcome);
        }
    }

    /// Takes the outcome of the earliest `Process`, if it has ended, with its timestamp.
    pub(super) fn landed(&mut self) -> Option<(Timestamp, Result<Later, GraphRunError>)> {
        let flight = self.flights.front_mut()?;
        let landed = (flight.at, flight.outcome.take()?);
        self.flights.pop_front();
        self.first_flight += 1;
        Some(landed)
    }

    /// Returns the lowest timestamp for which packets may still be sent.
    pub(super) fn floor(&self) -> Timestamp {
        self.before_flights(self.policy.floor(&self.inputs))
    }

    /// Returns the lowest timestamp of the packets that wait for it or are in flight; [`Timestamp::DONE`] if there
    /// are none.
    pub(super) fn pending(&self) -> Timestamp {
        let waiting = self.inputs.iter().filter(|input| input.len() > 0);
        let lowest = waiting.map(Input::time).min();
        self.before_flights(lowest.unwrap_or(Timestamp::DONE))
    }

    fn before_flights(&self, time: Timestamp) -> Timestamp {
        let flights = self.flights.iter().map(|flight| flight.at);
        flights.fold(time, Timestamp::min)
    }
}
