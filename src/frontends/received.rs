//! Bytes of an HTTP/2 connection that have come and that nobody has read off their streams yet.
//!
//! The protocol library keeps them, up to the windows of the connection, whoever they are for. So they
//! are counted where they come, taken off where a body is read, and charged in between. Both counts are
//! those of the streams that are open on the wire: what a stream receives after its end is kept by nobody.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use parking_lot::Mutex;

use crate::budget::{Budget, Charge};

/// Unread bytes of a connection that are free of charge.
const FREE: usize = 64 << 10;

/// The part of the budget that is not for it, as a divisor: there is room for those whose requests are read.
const RESERVE: usize = 8;

/// Memory that a piece of data takes beside its buffer while it is not read; an estimate.
const PIECE: usize = 256;

/// Returns the memory that a piece of so many bytes takes while it is not read: allocators round its buffer
/// up by as much as an eighth.
pub const fn held(length: usize) -> usize {
    length + length / 8 + PIECE
}

/// The unread bytes of a connection, with their charge.
#[derive(Debug)]
pub struct Unread {
    received: AtomicUsize,
    read: AtomicUsize,
    budget: Budget,
    /// Bytes of the charge, to be seen without the lock.
    charged: AtomicUsize,
    charge: Mutex<Charge>,
}

impl Unread {
    /// Makes the account of a connection.
    pub fn new(budget: &Budget) -> Arc<Self> {
        Arc::new(Self {
            received: AtomicUsize::new(0),
            read: AtomicUsize::new(0),
            budget: budget.clone(),
            charged: AtomicUsize::new(0),
            charge: Mutex::new(budget.empty()),
        })
    }

    /// Notes how much has come for the streams that are open, each piece as [`held`]. The task of the connection alone
    /// does so.
    pub fn holds(&self, bytes: usize) {
        if self.received.load(Ordering::Relaxed) != bytes {
            // A store could come after the look at the charge.
            self.received.swap(bytes, Ordering::AcqRel);
            self.settle();
        }
    }

    /// Returns whether more may come: a little always may, and more while the budget lasts. So may the rest of
    /// a piece, of which these bytes are counted: nobody can read it before, and then refuse it.
    pub fn may_receive(&self, unfinished: usize) -> bool {
        let max = self.budget.max();
        self.bytes() <= FREE + unfinished || self.budget.charged() <= max - max / RESERVE
    }

    fn bytes(&self) -> usize {
        let read = self.read.load(Ordering::Relaxed);
        // A stream may be over before its body is.
        self.received.load(Ordering::Relaxed).saturating_sub(read)
    }

    /// Charges what there is now.
    fn settle(&self) {
        let due = || Some(self.bytes()).filter(|&bytes| bytes > FREE);
        if due().unwrap_or(0) == self.charged.load(Ordering::Relaxed) {
            return;
        }
        let mut charge = self.charge.lock();
        let due = due().unwrap_or(0);
        charge.shrink(due);
        charge.take(due);
        self.charged.store(due, Ordering::Relaxed);
    }
}

/// Bytes read of the body of a call. They count until the call has both been answered and dropped its
/// body, which is about when its stream is over.
#[derive(Debug)]
pub struct ReadBytes {
    unread: Arc<Unread>,
    bytes: AtomicUsize,
}

impl ReadBytes {
    /// Begins to count for a call.
    pub fn new(unread: &Arc<Unread>) -> Arc<Self> {
        Arc::new(Self {
            unread: Arc::clone(unread),
            bytes: AtomicUsize::new(0),
        })
    }

    fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.unread.read.fetch_add(bytes, Ordering::Relaxed);
        self.unread.settle();
    }
}

impl Drop for ReadBytes {
    fn drop(&mut self) {
        self.unread
            .read
            .fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
        self.unread.settle();
    }
}

/// The body of a request over HTTP/2, which counts what is read of it.
#[derive(Debug)]
pub struct Received {
    body: Incoming,
    read: Arc<ReadBytes>,
}

impl Received {
    /// Takes the body of a call.
    pub fn new(body: Incoming, read: Arc<ReadBytes>) -> Self {
        Self { body, read }
    }
}

impl Body for Received {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
            // The end of a stream may come as one without data, which was not counted.
            && !data.is_empty()
        {
            self.read.add(held(data.len()));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a request over HTTP/1, which notes that it was read to its end.
#[derive(Debug)]
pub struct NotedBody {
    body: Incoming,
    is_read: Arc<AtomicBool>,
}

impl NotedBody {
    /// Takes the body of a request; the mark of its connection is set at the end.
    pub fn new(body: Incoming, is_read: &Arc<AtomicBool>) -> Self {
        is_read.store(body.is_end_stream(), Ordering::Relaxed);
        Self {
            body,
            is_read: Arc::clone(is_read),
        }
    }
}

impl Body for NotedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(polled, Poll::Ready(None)) || self.body.is_end_stream() {
            self.is_read.store(true, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::{FREE, ReadBytes, Unread};
    use crate::budget::Budget;

    const MIB: usize = 1 << 20;

    #[test]
    fn what_is_not_read_is_charged_beyond_what_is_free() {
        let budget = Budget::new(MIB);
        let unread = Unread::new(&budget);
        let read = ReadBytes::new(&unread);
        unread.holds(FREE);
        assert_eq!(budget.charged(), 0);
        unread.holds(FREE + 1000);
        assert_eq!(budget.charged(), FREE + 1000);
        assert!(unread.may_receive(0));
        unread.holds(FREE + 1000 + MIB);
        assert!(!unread.may_receive(0), "the budget is used up");
        read.add(MIB);
        assert!(unread.may_receive(0));
        read.add(FREE);
        assert_eq!(budget.charged(), 0);
        drop(unread);
        drop(read);
        assert_eq!(budget.charged(), 0);
    }

    #[test]
    fn what_a_stream_had_goes_with_it() {
        let budget = Budget::new(MIB);
        let unread = Unread::new(&budget);
        let read = ReadBytes::new(&unread);
        unread.holds(3 * MIB);
        read.add(MIB);
        assert_eq!(budget.charged(), 2 * MIB);
        // Of one stream all was read, of the other nothing.
        unread.holds(MIB);
        assert_eq!(budget.charged(), 0);
        drop(read);
        assert_eq!(budget.charged(), MIB, "until the stream is over as well");
        unread.holds(0);
        assert_eq!(budget.charged(), 0);
    }

    #[test]
    fn a_connection_with_little_may_receive_whatever_others_hold() {
        let budget = Budget::new(MIB);
        let _others = budget.take(2 * MIB);
        let unread = Unread::new(&budget);
        unread.holds(FREE);
        assert!(unread.may_receive(0));
        unread.holds(FREE + MIB);
        assert!(!unread.may_receive(0));
        assert!(unread.may_receive(MIB));
    }
}
