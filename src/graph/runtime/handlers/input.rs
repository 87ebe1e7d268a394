//! Input queues of a node.

use std::collections::VecDeque;

use crate::graph::calculators::{packet::Packet, timestamp::Timestamp};

/// Queue at an input of a node, and the lowest timestamp that may still arrive.
#[derive(Debug)]
pub(in crate::graph) struct Input {
    queue: VecDeque<Packet>,
    /// Total size of the packets, in bytes.
    bytes: usize,
    bound: Timestamp,
}

/// Size in bytes at which a queue counts as full, without its last packet: one packet is always
/// accepted, however large.
const MAX_BYTES: usize = 64 << 20;

impl Input {
    /// Creates an empty queue.
    pub(in crate::graph) const fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            bytes: 0,
            bound: Timestamp::PRE_STREAM,
        }
    }

    /// Appends a packet.
    pub(in crate::graph) fn push(&mut self, packet: Packet) {
        self.bound = self.bound.max(packet.at().next_allowed());
        self.bytes = self.bytes.saturating_add(packet.bytes());
        self.queue.push_back(packet);
    }

    /// Raises the bound, and returns whether that is visible to a handler.
    pub(in crate::graph) fn raise(&mut self, bound: Timestamp) -> bool {
        if bound <= self.bound {
            return false;
        }
        self.bound = bound;
        self.queue.is_empty()
    }

    /// Drops all queued packets and rejects further ones.
    pub(in crate::graph) fn close(&mut self) {
        self.queue.clear();
        self.bytes = 0;
        self.bound = Timestamp::DONE;
    }

    /// Returns the number of queued packets.
    pub(in crate::graph) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns whether the queue has reached a number of packets, or exceeds the limit in bytes.
    pub(in crate::graph) fn is_full(&self, limit: usize) -> bool {
        self.queue.len() >= limit || self.is_heavy()
    }

    /// Returns whether the queue exceeds the limit in bytes.
    pub(in crate::graph) fn is_heavy(&self) -> bool {
        // Computed only when the limit may be exceeded.
        self.bytes > MAX_BYTES
            && self.bytes - self.queue.back().map_or(0, Packet::bytes) >= MAX_BYTES
    }

    /// Returns the first packet in the queue.
    pub(super) fn head(&self) -> Option<&Packet> {
        self.queue.front()
    }

    /// Returns the timestamp of the first packet in the queue, or the lowest that may still arrive.
    pub(in crate::graph) fn time(&self) -> Timestamp {
        self.head().map_or(self.bound, Packet::at)
    }

    /// Returns whether there is a packet, and its timestamp or the lowest that may still arrive.
    pub(super) fn next(&self) -> (bool, Timestamp) {
        (!self.queue.is_empty(), self.time())
    }

    /// Returns the lowest timestamp that may still arrive.
    pub(in crate::graph) const fn bound(&self) -> Timestamp {
        self.bound
    }

    /// Returns whether the queue is empty and no packet can arrive.
    pub(in crate::graph) fn is_done(&self) -> bool {
        self.queue.is_empty() && self.bound >= Timestamp::ONE_OVER_POST_STREAM
    }

    /// Removes the packet of a timestamp, and drops earlier ones; returns an empty packet if there
    /// is none.
    pub(super) fn take(&mut self, at: Timestamp) -> Packet {
        self.drop_before(at);
        match self.head() {
            Some(head) if head.at() == at => self.pop(),
            _ => None,
        }
        .unwrap_or(Packet::empty(at))
    }

    /// Removes the first packet.
    pub(super) fn pop(&mut self) -> Option<Packet> {
        let packet = self.queue.pop_front()?;
        self.bytes = self.bytes.saturating_sub(packet.bytes());
        Some(packet)
    }

    /// Drops the packets before a timestamp.
    pub(super) fn drop_before(&mut self, at: Timestamp) {
        while self.head().is_some_and(|head| head.at() < at) {
            self.pop();
        }
    }

    /// Returns the timestamp of the packet at this position counted from the end, 1 being the last;
    /// that of the first packet if there are fewer.
    pub(super) fn nth_last(&self, place: usize) -> Option<Timestamp> {
        let place = self.queue.len().saturating_sub(place);
        self.queue.get(place).map(Packet::at)
    }
}
