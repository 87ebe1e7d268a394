//! Closes connections that send no preface or request head in time.
//!
//! HTTP/2: the preface must come soon after the connection. HTTP/1: the first request's head must
//! be whole soon after the connection, and a later one's soon after its first byte. A connection
//! that is idle between requests is for the [reaper](super::reaper). A client that
//! takes nothing of what is sent to it is disconnected as well. A connection is not closed before
//! its client had time to read the last answer, see [`Linger`].

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep},
};

use super::{frames::Frames, heads::Heads, linger::Linger};
use crate::{
    budget::{Budget, Charge},
    frontends::received::Unread,
};

/// Substitute for a head with a line that ends with LF alone: no parser takes a NUL.
const REFUSED_HEAD: &[u8] = b"\0\r\n\r\n";

/// The part of a head that is not charged; nearly all are shorter.
const FREE_HEAD: usize = 16 << 10;

/// Time limits of a client.
#[derive(Debug, Clone, Copy)]
pub(super) struct IoTimeouts {
    /// Time to send a first byte, and to complete a head.
    pub(super) read: Duration,
    /// Time to take anything of what is sent.
    pub(super) write: Duration,
}

/// State of an HTTP/1 connection: one request at a time.
#[derive(Debug, Default)]
pub(super) struct ConnectionState {
    /// Set from a request's head to the head of its answer.
    answering: AtomicBool,
    state: AtomicU8,
    requests: AtomicU64,
    /// Indicates that the server stops.
    stopping: AtomicBool,
    /// Indicates that it is time to look after the client.
    looking: AtomicBool,
    /// Indicates that the client understands interim answers: those of HTTP/1.0 do not.
    is_http11: AtomicBool,
}

/// The connection is between requests, or within the head of one.
const IDLE: u8 = 0;
/// A request is being answered, from its head until its answer is complete.
const ANSWERING: u8 = 1;
/// The answer is on its way to the system.
const SENDING: u8 = 2;
/// The last answer is sent; the client has not closed yet.
const CLOSING: u8 = 3;

impl ConnectionState {
    /// A request's head is there.
    pub(super) fn begin(&self, is_http11: bool) {
        self.is_http11.store(is_http11, Ordering::Relaxed);
        self.answering.store(true, Ordering::Release);
        self.state.store(ANSWERING, Ordering::Release);
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that it is time to look after the client of a request that is at work.
    pub(super) fn look(&self) {
        self.looking.store(true, Ordering::Release);
    }

    /// Returns whether it is time to look after the client, once.
    pub(super) fn takes_look(&self) -> bool {
        // Asked at each poll, and nearly never so.
        self.looking.load(Ordering::Relaxed) && self.looking.swap(false, Ordering::AcqRel)
    }

    /// Returns whether an interim answer may be sent: before the head of the answer.
    pub(super) fn takes_interim(&self) -> bool {
        self.is_http11.load(Ordering::Relaxed) && self.answering.load(Ordering::Acquire)
    }

    /// Returns how many requests there have been.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Returns whether a request has begun since so many, and counts it: it may have been answered in the same poll.
    fn has_begun_since(&self, counted: &mut u64) -> bool {
        let requests = self.requests();
        std::mem::replace(counted, requests) != requests
    }

    /// Marks the head of the answer as made.
    pub(super) fn answered(&self) {
        self.answering.store(false, Ordering::Release);
    }

    /// Marks the answer as complete.
    pub(super) fn made(&self) {
        self.state.store(SENDING, Ordering::Release);
    }

    /// Marks the answer as handed to the system.
    fn sent(&self) {
        let _ = self
            .state
            .compare_exchange(SENDING, IDLE, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Marks the connection as closed from this side.
    fn closing(&self) {
        self.state.store(CLOSING, Ordering::Release);
    }

    /// Notes that the server stops.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Returns whether the server stops: an answer is the last one of its connection then.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Returns whether there is a request that waits for its answer, or for the rest of it, or a
    /// client that has yet to read the last one.
    pub(super) fn busy(&self) -> bool {
        self.state.load(Ordering::Acquire) != IDLE
    }
}

/// A connection with a time limit on what is expected next.
pub(super) struct TimeoutStream<S> {
    stream: S,
    wire: Wire,
    timeouts: IoTimeouts,
    deadline: Option<Pin<Box<Sleep>>>,
    /// Armed while the client takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

/// Protocol of received bytes.
enum Wire {
    Http1 {
        /// State of the connection: what is received while a request is being answered is its body.
        state: Arc<ConnectionState>,
        /// Requests that there had been when the deadline was set: once there are more, its head is whole.
        counted: u64,
        /// Indicates that a head has begun that is not whole, as far as is known.
        is_within: bool,
        heads: Heads,
        /// Charge of a long head, which its request keeps until it is answered.
        charge: Charge,
        /// Replacement for the bytes received.
        refusal: &'static [u8],
        /// Wait for the client to close, once the connection is closed for writing.
        linger: Option<Linger>,
    },
    Http2(Streams),
}

/// An HTTP/2 connection.
struct Streams {
    frames: Frames,
    unread: Arc<Unread>,
    /// Start of a pause in reading, while the streams hold too much unread, and the timer of the next attempt.
    full: Option<(Instant, Pin<Box<Sleep>>)>,
    /// Wait for the client to close, once the connection is closed for writing.
    linger: Option<Linger>,
}

/// Pause of a connection that may not receive more before it asks again.
const FULL: Duration = Duration::from_millis(5);

/// Time after which it is closed instead: nobody reads its streams, and the server needs the memory.
const MAX_FULL: Duration = Duration::from_secs(2);

impl Streams {
    /// Waits until the connection may receive more.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unread.may_receive(self.frames.unfinished()) {
            let (since, again) = self
                .full
                .get_or_insert_with(|| (Instant::now(), Box::pin(tokio::time::sleep(FULL))));
            ready!(again.as_mut().poll(context));
            if since.elapsed() >= MAX_FULL {
                let text =
                    "the server is overloaded, and nobody reads what this connection has sent";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, text)));
            }
            again.as_mut().reset(Instant::now() + FULL);
        }
        self.full = None;
        Poll::Ready(Ok(()))
    }

    /// Follows what was written of these slices.
    fn written<'a>(&mut self, mut bytes: usize, slices: impl Iterator<Item = &'a [u8]>) {
        for slice in slices {
            let part = slice.len().min(bytes);
            self.frames.written(&slice[..part]);
            bytes -= part;
        }
        self.unread.holds(self.frames.held());
    }

    /// Reads, within what one connection may at a time.
    fn poll_read(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if self.frames.is_round_over() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        ready!(self.poll_room(context))?;
        let most = self.frames.most();
        let polled = if buffer.remaining() / 2 <= most {
            Pin::new(stream).poll_read(context, buffer)
        } else {
            let mut part = ReadBuf::new(buffer.initialize_unfilled_to(most));
            let polled = Pin::new(stream).poll_read(context, &mut part);
            let bytes = part.filled().len();
            buffer.advance(bytes);
            polled
        };
        if polled.is_pending() {
            self.frames.rest();
        }
        ready!(polled)?;
        self.frames.read(&buffer.filled()[before..])?;
        self.unread.holds(self.frames.held());
        Poll::Ready(Ok(()))
    }
}

impl<S> TimeoutStream<S> {
    /// Expects an HTTP/2 preface, and header blocks up to a size; counts what is not read of its streams.
    pub(super) fn http2(
        stream: S,
        timeouts: IoTimeouts,
        max_block: usize,
        unread: Arc<Unread>,
    ) -> Self {
        let wire = Wire::Http2(Streams {
            frames: Frames::new(max_block),
            unread,
            full: None,
            linger: None,
        });
        Self::new(stream, wire, timeouts)
    }

    /// Expects the heads of HTTP/1 requests, as the state says; charges long ones.
    pub(super) fn http1(
        stream: S,
        timeouts: IoTimeouts,
        state: Arc<ConnectionState>,
        budget: &Budget,
    ) -> Self {
        let wire = Wire::Http1 {
            state,
            counted: 0,
            is_within: false,
            heads: Heads::default(),
            charge: budget.empty(),
            refusal: b"",
            linger: None,
        };
        Self::new(stream, wire, timeouts)
    }

    fn new(stream: S, wire: Wire, timeouts: IoTimeouts) -> Self {
        Self {
            stream,
            wire,
            timeouts,
            deadline: Some(Box::pin(tokio::time::sleep(timeouts.read))),
            stalled: None,
        }
    }

    /// Gives up on a client that has taken nothing for as long as the limit.
    fn taken<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let limit = self.timeouts.write;
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        stalled
            .as_mut()
            .poll(context)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }

    fn received(&mut self) {
        match &mut self.wire {
            Wire::Http1 {
                state,
                counted,
                is_within,
                ..
            } => {
                if state.has_begun_since(counted) {
                    self.deadline = None;
                }
                // Most heads are whole, and answered, before more is waited for: they need no timer.
                *is_within = !state.answering.load(Ordering::Acquire);
            }
            // The preface is there, and the head of the SETTINGS frame that follows it (RFC 9113, 3.4).
            Wire::Http2(streams) if streams.frames.has_begun() => self.deadline = None,
            Wire::Http2(_) => {}
        }
    }
}

impl Wire {
    /// Reads, within what one connection may at a time.
    fn poll_read(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match self {
            Self::Http1 {
                heads,
                charge,
                refusal,
                ..
            } => {
                if refusal.is_empty() {
                    ready!(Pin::new(stream).poll_read(context, buffer))?;
                    let refused = heads.read(&buffer.filled()[before..]);
                    let head = heads.unfinished().max(heads.take_ended());
                    if head > FREE_HEAD {
                        charge.grow(head).map_err(io::Error::other)?;
                    }
                    let Some(at) = refused else {
                        return Poll::Ready(Ok(()));
                    };
                    buffer.set_filled(before + at);
                    *refusal = REFUSED_HEAD;
                }
                let (part, rest) = refusal.split_at(refusal.len().min(buffer.remaining()));
                buffer.put_slice(part);
                *refusal = rest;
                Poll::Ready(Ok(()))
            }
            Self::Http2(streams) => streams.poll_read(stream, context, buffer),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, wire, .. } = &mut *self;
        match wire.poll_read(stream, context, buffer) {
            Poll::Ready(Ok(())) => {
                self.received();
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                let this = &mut *self;
                if let Wire::Http1 {
                    state,
                    counted,
                    is_within,
                    heads,
                    ..
                } = &mut this.wire
                {
                    let is_answering = state.answering.load(Ordering::Acquire);
                    if state.has_begun_since(counted) || is_answering {
                        // The head is whole; its body has a limit of its own.
                        this.deadline = None;
                        *is_within = !is_answering && heads.unfinished() > 0;
                    }
                    if std::mem::take(is_within) && this.deadline.is_none() {
                        this.deadline = Some(Box::pin(tokio::time::sleep(this.timeouts.read)));
                    }
                }
                match &mut this.deadline {
                    Some(deadline) => deadline
                        .as_mut()
                        .poll(context)
                        .map(|()| Err(io::ErrorKind::TimedOut.into())),
                    None => Poll::Pending,
                }
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TimeoutStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if let (Wire::Http2(streams), Poll::Ready(Ok(count))) = (&mut self.wire, &written) {
            streams.written(*count, std::iter::once(bytes));
        }
        self.taken(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        if let (Wire::Http2(streams), Poll::Ready(Ok(count))) = (&mut self.wire, &written) {
            streams.written(*count, slices.iter().map(|slice| &**slice));
        }
        self.taken(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Asked for when nothing is left to be written.
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if let (
            Wire::Http1 {
                state,
                heads,
                charge,
                ..
            },
            Poll::Ready(Ok(())),
        ) = (&mut self.wire, &flushed)
        {
            state.sent();
            if charge.bytes() > 0 && heads.unfinished() == 0 && !state.busy() {
                charge.shrink(0);
            }
        }
        // With TLS, what was written last may still be here.
        self.taken(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, wire, .. } = &mut *self;
        let (linger, state) = match wire {
            Wire::Http1 { state, linger, .. } => (linger, Some(state)),
            Wire::Http2(streams) => (&mut streams.linger, None),
        };
        let linger = match linger {
            Some(linger) => linger,
            None => {
                ready!(Pin::new(&mut *stream).poll_shutdown(context))?;
                if let Some(state) = &state {
                    state.closing();
                }
                linger.insert(Linger::new())
            }
        };
        // Over HTTP/2 the client has been notified of the end before, and only its frames on the way are waited for.
        let stopping = state.is_none_or(|state| state.is_stopping());
        linger.poll(stream, stopping, context).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;
    use crate::task::Task;

    const TIMEOUTS: IoTimeouts = IoTimeouts {
        read: Duration::from_secs(10),
        write: Duration::from_secs(10),
    };

    fn http2(stream: DuplexStream) -> TimeoutStream<DuplexStream> {
        TimeoutStream::http2(
            stream,
            TIMEOUTS,
            1 << 10,
            Unread::new(&Budget::new(1 << 20)),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn frames_on_the_way_meet_no_reset() {
        let (mut client, server) = duplex(64);
        let mut server = http2(server);
        let closes = Task::spawn(async move {
            let began = Instant::now();
            server.shutdown().await.unwrap();
            began.elapsed()
        });
        // The end, which is read before the last frame is sent.
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
        client.write_all(&[0; 1000]).await.unwrap();
        drop(client);
        assert!(closes.await.unwrap() < Duration::from_millis(100));

        let (_client, server) = duplex(64);
        let began = Instant::now();
        http2(server).shutdown().await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(1), "nobody closes");
    }

    #[tokio::test]
    async fn a_long_head_counts_until_its_request_is_answered() {
        let budget = Budget::new(1 << 20);
        let state = Arc::<ConnectionState>::default();
        let (mut client, server) = duplex(1 << 20);
        let mut server = TimeoutStream::http1(server, TIMEOUTS, Arc::clone(&state), &budget);
        let long = "x".repeat(100_000);
        let head = format!("POST / HTTP/1.1\r\ncontent-length: 4\r\nx: {long}\r\n\r\n");
        client.write_all(head.as_bytes()).await.unwrap();
        let mut read = vec![0; head.len()];
        server.read_exact(&mut read).await.unwrap();
        state.begin(true);
        client.write_all(b"body").await.unwrap();
        server.read_exact(&mut read[..4]).await.unwrap();
        server.flush().await.unwrap();
        assert!(budget.charged() >= long.len(), "the request has it");
        state.answered();
        state.made();
        server.flush().await.unwrap();
        assert_eq!(budget.charged(), 0);
    }

    /// A stream that takes bytes and keeps them, as one of TLS does whose client takes nothing.
    struct Keeping;

    impl AsyncRead for Keeping {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for Keeping {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_stream_itself_still_holds_is_waited_for_within_the_limit() {
        let (state, budget) = (Arc::default(), Budget::new(1 << 20));
        let mut server = TimeoutStream::http1(Keeping, TIMEOUTS, state, &budget);
        server.write_all(b"the end of an answer").await.unwrap();
        let began = Instant::now();
        let error = server.flush().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), TIMEOUTS.write);
    }
}
