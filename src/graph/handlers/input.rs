//! What waits at an input of a node.

use std::collections::VecDeque;

use crate::graph::{Packet, Timestamp};

/// The queue at an input of a node, and the lowest time that may still come.
#[derive(Debug)]
pub(in crate::graph) struct Input {
    queue: VecDeque<Packet>,
    /// What the packets hold together.
    bytes: usize,
    bound: Timestamp,
}

/// How many bytes wait in a queue before it counts as full, without its last packet: that one may
/// always come, however large it is.
const MOST_BYTES: usize = 64 << 20;

impl Input {
    /// Makes one at which nothing has come.
    pub(in crate::graph) const fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            bytes: 0,
            bound: Timestamp::PRE_STREAM,
        }
    }

    /// Takes in a packet.
    pub(in crate::graph) fn push(&mut self, packet: Packet) {
        self.bound = self.bound.max(packet.at().next_allowed());
        self.bytes = self.bytes.saturating_add(packet.bytes());
        self.queue.push_back(packet);
    }

    /// Raises the bound, and tells whether a handler can notice.
    pub(in crate::graph) fn raise(&mut self, bound: Timestamp) -> bool {
        if bound <= self.bound {
            return false;
        }
        self.bound = bound;
        self.queue.is_empty()
    }

    /// Drops all that waits, and lets nothing come any more.
    pub(in crate::graph) fn close(&mut self) {
        self.queue.clear();
        self.bytes = 0;
        self.bound = Timestamp::DONE;
    }

    /// Returns how many packets wait.
    pub(in crate::graph) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Tells whether so many packets wait, or more bytes than should.
    pub(in crate::graph) fn is_full(&self, limit: usize) -> bool {
        self.queue.len() >= limit || self.is_heavy()
    }

    /// Tells whether more bytes wait than should.
    pub(in crate::graph) fn is_heavy(&self) -> bool {
        // Looked at only when it may be so.
        self.bytes > MOST_BYTES
            && self.bytes - self.queue.back().map_or(0, Packet::bytes) >= MOST_BYTES
    }

    /// Returns the first packet that waits.
    pub(super) fn head(&self) -> Option<&Packet> {
        self.queue.front()
    }

    /// Returns the time of the first packet that waits, or the lowest that may still come.
    pub(in crate::graph) fn time(&self) -> Timestamp {
        self.head().map_or(self.bound, Packet::at)
    }

    /// Returns the lowest time that may still come.
    pub(in crate::graph) const fn bound(&self) -> Timestamp {
        self.bound
    }

    /// Tells whether nothing waits and nothing can come.
    pub(in crate::graph) fn is_done(&self) -> bool {
        self.queue.is_empty() && self.bound >= Timestamp::ONE_OVER_POST_STREAM
    }

    /// Takes out the packet of a time, and drops earlier ones; an empty packet if there is none.
    pub(super) fn take(&mut self, at: Timestamp) -> Packet {
        self.drop_before(at);
        match self.head() {
            Some(head) if head.at() == at => self.pop(),
            _ => None,
        }
        .unwrap_or(Packet::empty(at))
    }

    /// Takes out the first packet.
    pub(super) fn pop(&mut self) -> Option<Packet> {
        let packet = self.queue.pop_front()?;
        self.bytes = self.bytes.saturating_sub(packet.bytes());
        Some(packet)
    }

    /// Drops the packets before a time.
    pub(super) fn drop_before(&mut self, at: Timestamp) {
        while self.head().is_some_and(|head| head.at() < at) {
            self.pop();
        }
    }

    /// Returns the time of the packet that is in this place counted from the last, 1 being the last;
    /// that of the first if there are fewer.
    pub(super) fn nth_last(&self, place: usize) -> Option<Timestamp> {
        let place = self.queue.len().saturating_sub(place);
        self.queue.get(place).map(Packet::at)
    }
}
