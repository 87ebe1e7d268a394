//! The watchdog of a connection: what it is at, and when its client has had enough time.
//!
//! hyper polls no body that waits for its client's window, and nobody hears what becomes of the
//! pieces of an answer that h2 has been given. So each piece counts itself from when it is made
//! until it is with the system, see [`Pieces`](super::pieces::Pieces). A stream of which no piece
//! leaves for as long as the write timeout is reset, by its task's own hand; where there is no task
//! any more, since all of the answer is with h2, the connection is closed: to new streams first. What
//! else a client sends meanwhile, such as PING and SETTINGS, counts for nothing. The
//! [reaper](super::reaper) looks after all connections of a port.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::io_timeout::ConnectionState;

/// Asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Close {
    /// The end of what has begun; nothing new is taken.
    Gracefully = 1,
    /// The end at once.
    Now = 2,
}

/// The state of a connection, as others see it.
#[derive(Debug)]
pub(super) struct Watchdog {
    work: Work,
    /// A [`Close`], or 0.
    close: AtomicU8,
    /// The connection's task.
    task: AtomicWaker,
}

#[derive(Debug)]
enum Work {
    Http1(Arc<ConnectionState>),
    Http2(SharedStreams),
}

/// Activity of a connection so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Activity {
    /// Requests that it has begun so far.
    pub(super) begun: u64,
    /// Indicates that one of them has not ended, or that its answer is not with the system.
    pub(super) is_busy: bool,
}

impl Watchdog {
    pub(super) fn http1(state: Arc<ConnectionState>) -> Self {
        Self::of(Work::Http1(state))
    }

    pub(super) fn http2(streams: SharedStreams) -> Self {
        Self::of(Work::Http2(streams))
    }

    fn of(work: Work) -> Self {
        Self {
            work,
            close: AtomicU8::new(0),
            task: AtomicWaker::new(),
        }
    }

    pub(super) fn activity(&self) -> Activity {
        match &self.work {
            Work::Http1(state) => Activity {
                begun: state.requests(),
                is_busy: state.busy(),
            },
            Work::Http2(streams) => streams.lock().activity(),
        }
    }

    /// Returns whether the connection has anything to bring to its end. Over HTTP/2 that is so once there has been
    /// a request at all: how far it has sent an answer cannot be seen.
    pub(super) fn is_at_work(&self) -> bool {
        match &self.work {
            Work::Http1(state) => state.busy(),
            Work::Http2(_) => self.activity().begun > 0,
        }
    }

    /// Notes that the server stops.
    pub(super) fn stop(&self) {
        if let Work::Http1(state) = &self.work {
            state.stop();
        }
    }

    /// Checks whether the client of a running HTTP/1 request is still there. An HTTP/2 client says when it leaves.
    pub(super) fn look(&self) {
        if let Work::Http1(state) = &self.work {
            state.look();
            self.task.wake();
        }
    }

    /// Resets what is stuck for as long as the limit; asks for the end where that takes more.
    pub(super) fn check_writes(&self, now: Instant, limit: Duration) {
        let Work::Http2(streams) = &self.work else {
            return;
        };
        let stuck = streams.lock().check(now, limit);
        match stuck {
            Some(stuck) if stuck.is_alone || stuck.time >= 2 * limit => self.ask(Close::Now),
            Some(_) => self.ask(Close::Gracefully),
            None => {}
        }
    }

    /// Asks the connection to end.
    pub(super) fn ask(&self, close: Close) {
        if self.close.fetch_max(close as u8, Ordering::AcqRel) < close as u8 {
            self.task.wake();
        }
    }

    /// Ready when the connection was asked for such an end, or a sooner one.
    pub(super) fn poll_asked(&self, close: Close, context: &mut Context<'_>) -> Poll<()> {
        // In this order, so that no question is missed.
        self.task.register(context.waker());
        match self.close.load(Ordering::Acquire) >= close as u8 {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

/// A stream that has a task; it ends with this.
#[derive(Debug)]
pub(super) struct Stream {
    streams: SharedStreams,
    index: usize,
}

impl Stream {
    /// Takes over the stream of the call that has just come.
    pub(super) fn claim(streams: &SharedStreams) -> Option<Self> {
        let index = streams.lock().next.take()?;
        Some(Self {
            streams: Arc::clone(streams),
            index,
        })
    }

    /// Returns whether the stream is to be reset; if not, this waker learns of it when it is.
    pub(super) fn is_stuck(&self, waker: &Waker) -> bool {
        self.streams.lock().is_stuck(self.index, waker)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.streams.lock().end(self.index);
    }
}

/// The streams of a connection, shared by all that count them.
pub(super) type SharedStreams = Arc<Mutex<Streams>>;

/// The streams of a connection that have a task, or pieces on their way.
#[derive(Debug, Default)]
pub(super) struct Streams {
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// The last that has begun, until its task is there.
    next: Option<usize>,
    begun: u64,
    /// Number of streams with a task.
    open: usize,
}

#[derive(Debug, Default)]
struct Slot {
    /// Pieces that are made and not with the system.
    pieces: usize,
    /// Pieces that have been.
    left: u64,
    has_ended: bool,
    is_stuck: bool,
    /// Its task, once it has waited with pieces on their way.
    waker: Option<Waker>,
    /// Last value of `left`, and its time.
    seen: Option<(u64, Instant)>,
}

/// Streams that are stuck, and have no task to be reset by.
#[derive(Debug, PartialEq, Eq)]
struct Stuck {
    /// Time for which they have been stuck.
    time: Duration,
    /// Indicates that no other stream goes on.
    is_alone: bool,
}

impl Streams {
    fn activity(&self) -> Activity {
        Activity {
            begun: self.begun,
            is_busy: self.free.len() < self.slots.len(),
        }
    }

    /// Counts a call that has come; its task is the next that is [claimed](Stream::claim).
    pub(super) fn begin(&mut self) -> usize {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        self.begun += 1;
        self.open += 1;
        self.next = Some(index);
        index
    }

    /// Counts a piece of a stream's answer, which was made.
    pub(super) fn made(&mut self, index: usize) {
        self.slots[index].pieces += 1;
    }

    /// Counts a piece that is with the system, or thrown away.
    pub(super) fn left(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.pieces -= 1;
        slot.left += 1;
        self.settle(index);
    }

    fn end(&mut self, index: usize) {
        self.open -= 1;
        self.slots[index].has_ended = true;
        self.settle(index);
    }

    /// Gives the slot to others when nothing is left of its stream.
    fn settle(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if slot.has_ended && slot.pieces == 0 {
            *slot = Slot::default();
            self.free.push(index);
        }
    }

    fn is_stuck(&mut self, index: usize, waker: &Waker) -> bool {
        let slot = &mut self.slots[index];
        if slot.pieces > 0 && !slot.is_stuck {
            match &mut slot.waker {
                Some(known) => known.clone_from(waker),
                None => slot.waker = Some(waker.clone()),
            }
        }
        slot.is_stuck
    }

    fn check(&mut self, now: Instant, limit: Duration) -> Option<Stuck> {
        let mut longest = None;
        for slot in &mut self.slots {
            if slot.pieces == 0 {
                slot.seen = None;
                continue;
            }
            let since = match slot.seen {
                Some((left, since)) if left == slot.left => since,
                _ => {
                    slot.seen = Some((slot.left, now));
                    continue;
                }
            };
            let time = now.duration_since(since);
            if time < limit {
                continue;
            }
            if slot.has_ended {
                longest = longest.max(Some(time));
            } else {
                slot.is_stuck = true;
                if let Some(waker) = slot.waker.take() {
                    waker.wake();
                }
            }
        }
        longest.map(|time| Stuck {
            time,
            is_alone: self.open == 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, task::Waker, time::Duration};

    use futures::poll;
    use tokio::time::Instant;

    use super::{Activity, Close, SharedStreams, Streams, Stuck, Watchdog};

    const LIMIT: Duration = Duration::from_secs(60);

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_connection_is_at_nothing_when_all_that_has_begun_has_left() {
        let mut streams = Streams::default();
        let busy = |streams: &Streams| streams.activity().is_busy;
        assert!(!busy(&streams));
        let stream = streams.begin();
        assert!(busy(&streams));
        streams.made(stream);
        streams.end(stream);
        assert!(busy(&streams), "its piece is on the way");
        streams.left(stream);
        let done = Activity {
            begun: 1,
            is_busy: false,
        };
        assert_eq!(streams.activity(), done);
        assert_eq!(streams.begin(), stream, "its slot is free");
        assert_eq!(streams.slots.len(), 1);
    }

    #[test]
    fn a_stream_of_which_nothing_leaves_is_reset() {
        let mut streams = Streams::default();
        let start = Instant::now();
        let stream = streams.begin();
        streams.made(stream);
        streams.made(stream);
        assert!(!streams.is_stuck(stream, Waker::noop()));
        assert_eq!(streams.check(start, LIMIT), None);
        assert_eq!(streams.check(after(start, 59), LIMIT), None);
        // A piece leaves: it has as long again.
        streams.left(stream);
        assert_eq!(streams.check(after(start, 60), LIMIT), None);
        assert_eq!(streams.check(after(start, 119), LIMIT), None);
        assert!(!streams.is_stuck(stream, Waker::noop()));
        assert_eq!(streams.check(after(start, 120), LIMIT), None);
        assert!(streams.is_stuck(stream, Waker::noop()));
    }

    #[test]
    fn a_stream_that_waits_for_something_else_is_not_stuck() {
        let mut streams = Streams::default();
        let start = Instant::now();
        // An inference, or a stream between messages.
        let stream = streams.begin();
        streams.made(stream);
        assert_eq!(streams.check(start, LIMIT), None);
        streams.left(stream);
        assert_eq!(streams.check(after(start, 1000), LIMIT), None);
        streams.made(stream);
        assert_eq!(streams.check(after(start, 2000), LIMIT), None);
        assert!(!streams.is_stuck(stream, Waker::noop()));
    }

    #[test]
    fn what_only_h2_holds_is_reported_with_whether_others_go_on() {
        let mut streams = Streams::default();
        let start = Instant::now();
        let (other, stream) = (streams.begin(), streams.begin());
        streams.made(stream);
        streams.end(stream);
        assert_eq!(streams.check(start, LIMIT), None);
        let stuck = |time, is_alone| Some(Stuck { time, is_alone });
        assert_eq!(
            streams.check(after(start, 60), LIMIT),
            stuck(Duration::from_secs(60), false)
        );
        streams.end(other);
        assert_eq!(
            streams.check(after(start, 61), LIMIT),
            stuck(Duration::from_secs(61), true)
        );
    }

    #[tokio::test]
    async fn a_connection_is_asked_once_and_for_no_less() {
        let watchdog = Watchdog::http2(SharedStreams::default());
        let asked = |close| poll_fn(move |context| watchdog_poll(&watchdog, close, context));
        fn watchdog_poll(
            watchdog: &Watchdog,
            close: Close,
            context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<()> {
            let polled = watchdog.poll_asked(close, context);
            watchdog.ask(Close::Gracefully);
            polled
        }
        let mut first = std::pin::pin!(asked(Close::Gracefully));
        assert!(poll!(first.as_mut()).is_pending());
        assert!(poll!(first.as_mut()).is_ready());
    }
}
