//! Propagation of packets, bounds and side packets from node to node.

use super::{Scheduler, missing_side, needs};
use crate::graph::{
    calculators::{
        calculator::Emit,
        error::{AbseilCode, GraphRunError},
        packet::Packet,
        timestamp::{TIMESTAMP, Timestamp},
    },
    check::plan::{GraphPlan, InputHandler, StreamPlan, StreamSource},
};

impl Scheduler {
    /// Sends a packet on a stream. An empty one only settles its timestamp.
    pub(super) fn send(&mut self, stream: usize, packet: Packet) -> Result<(), GraphRunError> {
        if packet.is_empty() {
            self.raise(stream, packet.at().next_allowed());
            return Ok(());
        }
        let planned = &self.plan.streams[stream];
        let line = &mut self.lines[stream];
        let at = packet.at();
        line.admit(&planned.name, at)?;
        let mut left = planned.to.len() + planned.outputs.len();
        let mut packet = Some(packet);
        // The last consumer gets the packet itself.
        let mut copy = || {
            left -= 1;
            if left == 0 {
                packet.take()
            } else {
                packet.clone()
            }
        };
        for &(taker, place) in &planned.to {
            let (Some(packet), node) = (copy(), &mut self.nodes[taker]) else {
                continue;
            };
            let is_listening = node.is_listening();
            let (gate, input) = (&mut node.gates[place], &mut node.inputs[place]);
            if !is_listening || (gate.is_forced && at < input.bound()) {
                continue;
            }
            input.push(packet);
            if !gate.is_full && input.is_full(gate.limit) {
                gate.is_full = true;
                line.full += 1;
                self.full += 1;
            }
            if node.may_run() {
                self.ready.insert(node.rank);
            }
        }
        for &output in &planned.outputs {
            if let Some(packet) = copy() {
                self.outputs_bytes = self.outputs_bytes.saturating_add(packet.bytes());
                self.outputs.push_back((output, packet));
            }
        }
        Ok(())
    }

    /// Raises the bound of a stream; a bound that is not higher is ignored.
    pub(super) fn raise(&mut self, stream: usize, bound: Timestamp) {
        let line = &mut self.lines[stream];
        if bound <= line.bound {
            return;
        }
        line.bound = bound;
        for &(taker, place) in &self.plan.streams[stream].to {
            let node = &mut self.nodes[taker];
            if node.inputs[place].raise(bound) && node.may_run() {
                self.ready.insert(node.rank);
            }
        }
    }

    /// Applies the output operations of a node.
    pub(super) fn emit(&mut self, node: usize, emits: Vec<Emit>) -> Result<(), GraphRunError> {
        for emit in emits {
            let planned = &self.plan.nodes[node];
            let (place, places) = match &emit {
                Emit::Side(place, _) => (*place, &planned.side_outputs),
                Emit::Packet(place, _) | Emit::Bound(place, _) | Emit::Close(place) => {
                    (*place, &planned.outputs)
                }
            };
            let Some(&target) = places.get(place) else {
                let (name, count) = (&planned.spec.name, places.len());
                return Err(GraphRunError::internal(format!(
                    "node \"{name}\" has {count} outputs of this kind, and sent to number {place}"
                )));
            };
            match emit {
                Emit::Packet(_, packet) => self.send(target, packet)?,
                Emit::Bound(_, bound) => self.raise(target, bound),
                Emit::Close(_) => self.raise(target, Timestamp::DONE),
                Emit::Side(_, packet) => self.give(target, packet)?,
            }
        }
        Ok(())
    }

    /// Raises the bounds of a node's outputs to the lowest timestamp of its inputs, if its contract has an
    /// offset from them.
    pub(super) fn settle(&mut self, node: usize) {
        if self.nodes[node].offset.is_some() {
            self.settle_before(node, self.nodes[node].floor());
        }
    }

    /// Raises the bounds of a node's outputs to a timestamp of its inputs, if its contract has an offset.
    pub(super) fn settle_before(&mut self, node: usize, floor: Timestamp) {
        let Some(offset) = self.nodes[node].offset else {
            return;
        };
        // Before the first packet there is nothing to settle; at the end, the node is closed.
        if floor > Timestamp::PRE_STREAM && floor < Timestamp::ONE_OVER_POST_STREAM {
            for place in 0..self.plan.nodes[node].outputs.len() {
                let stream = self.plan.nodes[node].outputs[place];
                self.raise(stream, floor.offset(offset));
            }
        }
    }

    /// Closes all outputs of a node, and resumes consumers waiting for its side packets.
    pub(super) fn shut(&mut self, node: usize) -> Result<(), GraphRunError> {
        for place in 0..self.plan.nodes[node].outputs.len() {
            let stream = self.plan.nodes[node].outputs[place];
            self.raise(stream, Timestamp::DONE);
        }
        for place in 0..self.plan.nodes[node].side_outputs.len() {
            let side = self.plan.nodes[node].side_outputs[place];
            if self.sides[side].is_none() {
                self.forgo(side)?;
            }
        }
        Ok(())
    }

    /// Sets a side packet, and opens the nodes waiting for it.
    fn give(&mut self, side: usize, packet: Packet) -> Result<(), GraphRunError> {
        if self.sides[side].is_some() {
            let name = &self.plan.sides[side].name;
            let text = format!("Output side packet \"{name}\" was already set.");
            return Err(GraphRunError::new(AbseilCode::FailedPrecondition, text));
        }
        self.sides[side] = Some(packet);
        self.provided(side);
        Ok(())
    }

    /// Resumes nodes that can run without a side packet.
    fn forgo(&mut self, side: usize) -> Result<(), GraphRunError> {
        let known = &self.plan.sides[side];
        let mut takers = known.to.iter();
        if takers.any(|(node, place)| needs(&self.plan, *node, *place)) {
            return Err(missing_side(&known.name));
        }
        self.provided(side);
        Ok(())
    }

    fn provided(&mut self, side: usize) {
        for &(taker, _) in &self.plan.sides[side].to {
            let node = &mut self.nodes[taker];
            node.missing = node.missing.saturating_sub(1);
            if node.missing == 0 {
                self.opens.push_back(taker);
            }
        }
    }

    /// Updates the queues of a node that have room again, and wakes blocked producers.
    pub(super) fn relax(&mut self, node: usize) {
        if self.full == 0 {
            return;
        }
        for place in 0..self.nodes[node].gates.len() {
            let known = &mut self.nodes[node];
            let (gate, input) = (&mut known.gates[place], &known.inputs[place]);
            if !gate.is_full || input.is_full(gate.limit) {
                continue;
            }
            gate.is_full = false;
            let stream = gate.stream;
            self.full -= 1;
            self.lines[stream].full -= 1;
            if self.lines[stream].full == 0
                && let StreamSource::Node(giver, _) = self.plan.streams[stream].from
            {
                self.wake(giver);
            }
        }
    }

    /// Schedules a node that waited for room.
    pub(super) fn wake(&mut self, node: usize) {
        let known = &mut self.nodes[node];
        if !std::mem::take(&mut known.is_blocked) {
            return;
        }
        if known.is_source() {
            self.sources.push_back(node);
        } else {
            self.ready.insert(known.rank);
        }
    }

    /// Returns whether any queue fed by a node is full.
    pub(super) fn is_held_up(&self, node: usize) -> bool {
        let mut outputs = self.plan.nodes[node].outputs.iter();
        self.full > 0 && outputs.any(|stream| self.lines[*stream].full > 0)
    }
}

/// Stream in a run.
#[derive(Debug)]
pub(super) struct Line {
    /// Lowest timestamp that a packet may have.
    pub(super) bound: Timestamp,
    /// Highest timestamp of a sent packet; [`Timestamp::UNSET`] if none was.
    pub(super) last: Timestamp,
    /// Allows any timestamp: all consumers ignore them.
    is_timeless: bool,
    /// Number of full queues among those it feeds.
    pub(super) full: usize,
}

impl Line {
    /// Creates a stream without packets.
    pub(super) fn new(plan: &GraphPlan, planned: &StreamPlan) -> Self {
        let mut takers = planned.to.iter();
        let is_timeless = !planned.to.is_empty()
            && planned.outputs.is_empty()
            && takers.all(|(node, _)| plan.nodes[*node].handler == InputHandler::Barrier);
        Self {
            bound: Timestamp::PRE_STREAM,
            last: Timestamp::UNSET,
            is_timeless,
            full: 0,
        }
    }

    /// Returns whether no packet can be sent any more.
    pub(super) fn is_closed(&self) -> bool {
        self.bound == Timestamp::DONE
    }

    /// Checks the timestamp of a packet, and raises the bound.
    pub(super) fn admit(&mut self, name: &str, at: Timestamp) -> Result<(), GraphRunError> {
        if self.is_closed() {
            let text = format!("Packet sent to closed stream \"{name}\".");
            return Err(GraphRunError::new(AbseilCode::FailedPrecondition, text));
        }
        if !at.is_allowed_in_stream() {
            return Err(GraphRunError::invalid(format!(
                "In stream \"{name}\", timestamp not specified or set to illegal value: {at}"
            )));
        }
        if !self.is_timeless {
            if at == Timestamp::POST_STREAM && self.last != Timestamp::UNSET {
                return Err(GraphRunError::invalid(format!(
                    "In stream \"{name}\", a packet at Timestamp::PostStream() must be the only Packet in an \
                     InputStream."
                )));
            }
            if at < self.bound {
                return Err(GraphRunError::invalid(format!(
                    "Packet timestamp mismatch on a calculator receiving from stream \"{name}\". Current \
                     minimum expected timestamp is {} but received {at}. Times on a stream have to \
                     increase; a client gives a request its time with the parameter {TIMESTAMP}.",
                    self.bound
                )));
            }
        }
        self.last = self.last.max(at);
        self.bound = self.bound.max(at.next_allowed());
        Ok(())
    }
}
