//! The access log, a line for each HTTP request and gRPC call, and the span of each that is traced: what both
//! say of a request is found out at the same places.
//!
//! A request costs the log a record, which goes through a bounded channel to a thread that writes.
//! Nothing here waits: what the thread cannot keep up with is dropped, counted and reported. Without a
//! log there is no thread, and without a span either there is no record.

mod peer;
mod spans;
mod writer;

use std::{
    io::{self, Write},
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant, SystemTime},
};

use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Request, Response};
use hyper::body::{Body, Frame, SizeHint};

pub(crate) use self::peer::{Peer, Source};
use self::writer::{Record, Writer};
use crate::{
    auth::Identity,
    config::LogFormat,
    text::cut_bytes,
    trace::{TraceContext, TraceSpan, Tracer},
};

/// Opens the place that lines are written to; asked again when files are changed for new ones.
pub type Open = Box<dyn FnMut() -> io::Result<Box<dyn Write + Send>> + Send>;

/// The access log, or none, and the tracer of requests, or none.
#[derive(Debug, Clone, Default)]
pub struct AccessLog {
    writer: Option<Arc<Writer>>,
    tracer: Option<Arc<Tracer>>,
}

impl AccessLog {
    /// Starts a log.
    ///
    /// # Errors
    ///
    /// Fails if the place cannot be opened or the system refuses a thread.
    pub fn start(format: LogFormat, open: Open) -> io::Result<Self> {
        Ok(Self {
            writer: Some(Arc::new(Writer::start(format, open)?)),
            tracer: None,
        })
    }

    /// Makes spans of requests as well.
    #[must_use]
    pub fn with_tracer(self, tracer: Option<Arc<Tracer>>) -> Self {
        Self { tracer, ..self }
    }

    /// Opens the place again, for those who have moved the file away.
    pub fn reopen(&self) {
        if let Some(writer) = &self.writer {
            writer.reopen();
        }
    }

    /// Waits, for at most a limit, until all lines so far are written. Blocks.
    pub fn flush(&self, limit: Duration) {
        if let Some(writer) = &self.writer {
            writer.flush(limit);
        }
    }

    /// Begins the record of a request, and gives the request a place for what is found out on the
    /// way.
    pub(crate) fn begin<B>(
        &self,
        protocol: Protocol,
        peer: Peer,
        request: &mut Request<B>,
    ) -> Option<Entry> {
        let tracer = self.tracer.as_ref();
        let span = tracer.and_then(|tracer| spans::begin(tracer, protocol, peer, request));
        if self.writer.is_none() && span.is_none() {
            return None;
        }
        let trace = span.as_ref().map(|span| span.context().clone());
        let note = Arc::new(Note {
            trace,
            ..Note::default()
        });
        request.extensions_mut().insert(Arc::clone(&note));
        Some(Entry(Box::new(Pending {
            started: Instant::now(),
            record: Record {
                timestamp: SystemTime::now().into(),
                peer,
                protocol,
                method: cut_bytes(request.method().as_str(), writer::MAX_METHOD_LEN),
                path: cut_bytes(request.uri().path(), writer::MAX_TEXT_LEN),
                identity: None,
                model: None,
                version: None,
                status: protocol.unanswered(),
                bytes_in: 0,
                bytes_out: 0,
                duration_us: 0,
                trace_id: span.as_ref().map(|span| span.context().trace_id()),
            },
            note,
            writer: self.writer.clone(),
            span,
        })))
    }
}

/// Protocol of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub(crate) enum Protocol {
    /// gRPC.
    #[strum(serialize = "gRPC")]
    Grpc,
    /// HTTP.
    #[strum(serialize = "HTTP")]
    Http,
}

impl Protocol {
    /// Returns the status of a request whose client went away before there was one: what HTTP
    /// servers write for it, and gRPC's CANCELLED.
    pub(super) fn unanswered(self) -> u16 {
        match self {
            Self::Http => 499,
            Self::Grpc => 1,
        }
    }
}

/// Facts about a request, collected on its way.
#[derive(Debug, Default)]
pub(crate) struct Note {
    received: AtomicU64,
    identity: OnceLock<Arc<Identity>>,
    servable: OnceLock<String>,
    version: OnceLock<i64>,
    /// Parent context of the spans of the request, if it is traced.
    trace: Option<TraceContext>,
}

impl Note {
    /// Returns the note of a request, if there is a log.
    pub(super) fn of(extensions: &Extensions) -> Option<Arc<Self>> {
        extensions.get().cloned()
    }

    /// Records the sender.
    pub(super) fn identified(&self, identity: &Arc<Identity>) {
        let _ = self.identity.set(Arc::clone(identity));
    }

    /// Adds to the received bytes of the body.
    pub(super) fn received(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Notes which servable a request is for.
pub(super) fn seen(extensions: &Extensions, name: Option<&str>) -> Seen {
    let note = Note::of(extensions);
    if let (Some(note), Some(name)) = (&note, name) {
        let _ = note.servable.set(cut_bytes(name, writer::MAX_TEXT_LEN));
    }
    Seen(note)
}

/// Returns where the spans of a request begin, if it is traced.
pub(super) fn trace(extensions: &Extensions) -> Option<TraceContext> {
    Note::of(extensions)?.trace.clone()
}

/// Note of a request, to which the version is added when it is known.
pub(super) struct Seen(Option<Arc<Note>>);

impl Seen {
    /// Returns where the spans of the request begin, if it is traced.
    pub(super) fn trace(&self) -> Option<TraceContext> {
        self.0.as_ref()?.trace.clone()
    }

    /// Notes the version that answered.
    pub(super) fn version(&self, version: impl FnOnce() -> Option<i64>) {
        if let Some(note) = &self.0
            && let Some(version) = version()
        {
            let _ = note.version.set(version);
        }
    }
}

/// The record of a request in flight; written when dropped.
pub(crate) struct Entry(Box<Pending>);

struct Pending {
    started: Instant,
    record: Record,
    note: Arc<Note>,
    writer: Option<Arc<Writer>>,
    span: Option<TraceSpan>,
}

impl Entry {
    /// Takes the status of an answer, if there is a record; the rest is known when the body has
    /// been sent.
    pub(crate) fn answered<B, H>(
        entry: Option<Self>,
        mut response: Response<B>,
        held: H,
    ) -> Response<Logged<B, H>> {
        let entry = entry.map(|mut entry| {
            let trace = entry.0.note.trace.as_ref();
            let header = trace.and_then(|it| HeaderValue::try_from(it.traceparent()).ok());
            if let Some(traceparent) = header {
                response.headers_mut().insert("traceparent", traceparent);
            }
            let record = &mut entry.0.record;
            record.status = match record.protocol {
                Protocol::Http => response.status().as_u16(),
                Protocol::Grpc => code(response.headers()).unwrap_or(record.status),
            };
            entry
        });
        response.map(|body| Logged {
            body,
            entry,
            _held: held,
        })
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Pending {
            started,
            record,
            note,
            writer,
            span,
        } = &mut *self.0;
        record.duration_us = started.elapsed().as_micros();
        record.bytes_in = note.received.load(Ordering::Relaxed);
        record.identity = note.identity.get().map(|it| it.name().to_owned());
        record.model = note.servable.get().cloned();
        record.version = note.version.get().copied();
        if let Some(span) = span {
            spans::end(span, record);
        }
        if let Some(writer) = writer {
            writer.write(record.clone());
        }
    }
}

/// The header with the code of a gRPC answer.
static STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// Reads the code of a gRPC answer.
fn code(headers: &HeaderMap) -> Option<u16> {
    headers.get(&STATUS)?.to_str().ok()?.parse().ok()
}

/// A body that is counted for the log, if there is one, and what is dropped with it.
pub struct Logged<B, H> {
    body: B,
    entry: Option<Entry>,
    _held: H,
}

impl<B: Body<Data = bytes::Bytes> + Unpin, H: Unpin> Body for Logged<B, H> {
    type Data = bytes::Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<bytes::Bytes>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Some(entry) = &mut self.entry
            && let Poll::Ready(Some(Ok(frame))) = &polled
        {
            let record = &mut entry.0.record;
            if let Some(data) = frame.data_ref() {
                record.bytes_out += data.len() as u64;
            } else if let Some(trailers) = frame.trailers_ref() {
                record.status = code(trailers).unwrap_or(record.status);
            }
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
