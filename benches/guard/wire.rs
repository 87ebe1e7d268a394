//! In-memory connections: one that is overheard, and one whose client is a recording.

use std::{
    io,
    ops::Range,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::{Buf, Bytes};
use ovms::task::Task;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use crate::served::{Served, Side};

/// Time limit of a step. A response takes milliseconds, also under valgrind; a failure must not hang.
const LIMIT: Duration = Duration::from_secs(60);

/// Counter of the response bytes among the bytes that a server writes.
///
/// Over HTTP/2 those are its HEADERS and DATA frames: the size and time of WINDOW_UPDATE frames
/// depend on how the client's bytes arrive.
#[derive(Debug)]
pub(crate) struct Counter {
    side: Side,
    /// Header of a frame, as far as received.
    head: [u8; HEAD],
    known: usize,
    /// Remaining bytes of the frame, and whether they count.
    left: usize,
    is_answer: bool,
}

/// Length of the header of an HTTP/2 frame (RFC 9113, 4.1).
const HEAD: usize = 9;

impl Counter {
    pub(crate) fn new(side: Side) -> Self {
        Self {
            side,
            head: [0; HEAD],
            known: 0,
            left: 0,
            is_answer: false,
        }
    }

    /// Returns the number of response bytes among these; frame headers are left out.
    pub(crate) fn count(&mut self, mut bytes: &[u8]) -> usize {
        if matches!(self.side, Side::Rest) {
            return bytes.len();
        }
        let mut counted = 0;
        while !bytes.is_empty() {
            if self.left > 0 {
                let count = self.left.min(bytes.len());
                counted += if self.is_answer { count } else { 0 };
                self.left -= count;
                bytes.advance(count);
                continue;
            }
            let count = (HEAD - self.known).min(bytes.len());
            self.head[self.known..self.known + count].copy_from_slice(&bytes[..count]);
            self.known += count;
            bytes.advance(count);
            if self.known == HEAD {
                let [a, b, c, kind, ..] = self.head;
                self.left = u32::from_be_bytes([0, a, b, c]) as usize;
                // DATA and HEADERS.
                self.is_answer = kind <= 1;
                self.known = 0;
            }
        }
        counted
    }
}

/// Bytes that a client sent for one request, and the number of response bytes that followed.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) sent: Bytes,
    pub(crate) answer: usize,
}

/// Bytes of both directions of an overheard connection.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) sent: Vec<u8>,
    pub(crate) answers: Vec<u8>,
}

/// Server end of an overheard connection.
pub(crate) struct Overheard {
    stream: DuplexStream,
    heard: Arc<Mutex<Heard>>,
}

impl Overheard {
    pub(crate) fn new(stream: DuplexStream) -> (Self, Arc<Mutex<Heard>>) {
        let heard = Arc::<Mutex<Heard>>::default();
        let overheard = Self {
            stream,
            heard: Arc::clone(&heard),
        };
        (overheard, heard)
    }
}

impl AsyncRead for Overheard {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let mut heard = self.heard.lock().expect("no panic holds it");
        heard.sent.extend_from_slice(&buffer.filled()[before..]);
        read
    }
}

impl AsyncWrite for Overheard {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if let Poll::Ready(Ok(count)) = written {
            let mut heard = self.heard.lock().expect("no panic holds it");
            heard.answers.extend_from_slice(&bytes[..count]);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Client of a replayed connection.
struct Client {
    counter: Counter,
    /// Number of response bytes so far.
    counted: usize,
    /// Bytes not yet read by the server.
    sent: Bytes,
    /// All bytes that the server wrote, in memory reserved in advance.
    answers: Vec<u8>,
    /// Expected number of response bytes.
    wanted: usize,
    /// Waker of the server, which waits for more bytes.
    server: Option<Waker>,
    /// Waker of the task that waits for the responses.
    waiting: Option<Waker>,
}

impl Client {
    /// Receives a part of a response.
    fn take<'a>(&mut self, pieces: impl IntoIterator<Item = &'a [u8]>) {
        for piece in pieces {
            self.counted += self.counter.count(piece);
            self.answers.extend_from_slice(piece);
        }
        if self.counted >= self.wanted
            && let Some(waiting) = self.waiting.take()
        {
            waiting.wake();
        }
    }
}

/// Server end of a replayed connection.
#[derive(Clone)]
struct Replayed(Arc<Mutex<Client>>);

impl Replayed {
    fn client(&self) -> MutexGuard<'_, Client> {
        self.0.lock().expect("no panic holds it")
    }

    /// Sends the client's bytes of a step, and waits for the response.
    async fn step(&self, step: &Step) {
        let server = {
            let mut client = self.client();
            client.sent = step.sent.clone();
            client.wanted += step.answer;
            client.server.take()
        };
        if let Some(server) = server {
            server.wake();
        }
        std::future::poll_fn(|context| {
            let mut client = self.client();
            if client.counted >= client.wanted && client.sent.is_empty() {
                return Poll::Ready(());
            }
            client.waiting = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl AsyncRead for Replayed {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut client = self.client();
        if client.sent.is_empty() {
            client.server = Some(context.waker().clone());
            return Poll::Pending;
        }
        let count = buffer.remaining().min(client.sent.len());
        buffer.put_slice(&client.sent[..count]);
        client.sent.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Replayed {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.client().take([bytes]);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.client().take(slices.iter().map(|slice| &**slice));
        Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A connection whose client is a recording.
pub(crate) struct Answered {
    steps: Vec<Step>,
    client: Replayed,
    _server: Task<()>,
    served: Served,
}

impl Answered {
    /// Opens the connection.
    pub(crate) fn new(served: Served, side: Side, steps: Vec<Step>) -> Self {
        let bytes: usize = steps.iter().map(|step| step.answer).sum();
        let client = Replayed(Arc::new(Mutex::new(Client {
            counter: Counter::new(side),
            counted: 0,
            sent: Bytes::new(),
            // Room for heads of frames and the like, too.
            answers: Vec::with_capacity(bytes * 2 + (1 << 16)),
            wanted: 0,
            server: None,
            waiting: None,
        })));
        let within = served.runtime.enter();
        let server = served.connect(client.clone(), side);
        drop(within);
        Self {
            steps,
            client,
            _server: server,
            served,
        }
    }

    /// Sends some of the requests, each after the response to the one before.
    pub(crate) fn run(&mut self, which: Range<usize>) {
        let steps = &self.steps[which];
        let client = &self.client;
        let run = async {
            for step in steps {
                client.step(step).await;
            }
        };
        let done = self
            .served
            .runtime
            .block_on(async { tokio::time::timeout(LIMIT, run).await });
        done.expect("each request is answered as it was recorded");
    }

    /// Returns all bytes that the server wrote.
    pub(crate) fn answers(&self) -> Vec<u8> {
        self.client.client().answers.clone()
    }
}
