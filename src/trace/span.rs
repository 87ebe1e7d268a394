//! Spans of sampled requests. They end when they are dropped.

use std::{
    borrow::Cow,
    fmt,
    sync::Arc,
    time::{Instant, SystemTime},
};

use opentelemetry::{
    KeyValue, Value,
    trace::{Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState},
};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use super::{headers, tracer::Tracer};
use crate::{error::MAX_TEXT_LEN, text::cut_bytes};

/// A span, as the parent of others: what goes with a sampled request.
#[derive(Clone)]
pub struct TraceContext(Arc<Scope>);

struct Scope {
    tracer: Arc<Tracer>,
    span: SpanContext,
}

impl TraceContext {
    pub(super) fn new(
        tracer: &Arc<Tracer>,
        trace: TraceId,
        span: SpanId,
        state: TraceState,
    ) -> Self {
        Self(Arc::new(Scope {
            tracer: Arc::clone(tracer),
            span: SpanContext::new(trace, span, TraceFlags::SAMPLED, false, state),
        }))
    }

    /// Begins a span under this one.
    pub fn span(&self, name: impl Into<Cow<'static, str>>) -> TraceSpan {
        let Scope { tracer, span } = &*self.0;
        let id = tracer.new_span_id();
        let own = Self::new(tracer, span.trace_id(), id, span.trace_state().clone());
        TraceSpan::new(own, name.into(), SpanKind::Internal, span.span_id(), false)
    }

    /// Adds the spans of a run that was done on a slot: the wait for it, and the inference. The batch that
    /// it was a part of, if it was in one, is linked to.
    pub fn ran(
        &self,
        [asked, started, ended]: [Instant; 3],
        error: Option<&dyn fmt::Display>,
        batch: Option<&Self>,
    ) {
        let mut queue = self.span("queue");
        queue.begun(asked);
        queue.ended(started);
        drop(queue);
        let mut inference = self.span("inference");
        inference.begun(started);
        inference.ended(ended);
        if let Some(batch) = batch {
            inference.link(batch);
        }
        if let Some(error) = error {
            inference.failed(error);
        }
    }

    /// Begins the span of a batch, which is a trace of its own with links to its requests, as far as these are
    /// sampled; `None` if none is.
    pub fn batch<'a>(requests: impl Iterator<Item = &'a Self>) -> Option<TraceSpan> {
        let mut requests = requests.peekable();
        let tracer = Arc::clone(&requests.peek()?.0.tracer);
        let mut span = tracer.root("batch");
        for request in requests {
            span.link(request);
        }
        Some(span)
    }

    /// Returns the id of the trace, in hexadecimal.
    pub fn trace_id(&self) -> String {
        self.0.span.trace_id().to_string()
    }

    /// Returns the id of the span, in hexadecimal.
    pub fn span_id(&self) -> String {
        self.0.span.span_id().to_string()
    }

    /// Returns the header by which what is called from here belongs to the trace.
    pub fn traceparent(&self) -> String {
        headers::traceparent(&self.0.span)
    }

    /// Returns the state that the request came with; mostly empty.
    pub fn tracestate(&self) -> String {
        self.0.span.trace_state().header()
    }
}

impl PartialEq for TraceContext {
    fn eq(&self, other: &Self) -> bool {
        self.0.span == other.0.span
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.traceparent())
    }
}

/// A span that has begun. It is handed to the exporter when it is dropped, which is its end unless that was
/// before.
#[derive(Debug)]
pub struct TraceSpan(Box<Begun>);

#[derive(Debug)]
struct Begun {
    context: TraceContext,
    parent: SpanId,
    is_parent_remote: bool,
    kind: SpanKind,
    name: Cow<'static, str>,
    started: SystemTime,
    ended: Option<SystemTime>,
    attributes: Vec<KeyValue>,
    links: Vec<Link>,
    status: Status,
}

impl TraceSpan {
    pub(super) fn new(
        context: TraceContext,
        name: Cow<'static, str>,
        kind: SpanKind,
        parent: SpanId,
        is_parent_remote: bool,
    ) -> Self {
        Self(Box::new(Begun {
            context,
            parent,
            is_parent_remote,
            name,
            started: SystemTime::now(),
            ended: None,
            // Those of a request are as many.
            attributes: Vec::with_capacity(if kind == SpanKind::Server { 9 } else { 0 }),
            kind,
            links: Vec::new(),
            status: Status::Unset,
        }))
    }

    /// Returns what other spans begin under.
    pub fn context(&self) -> &TraceContext {
        &self.0.context
    }

    /// Gives it its name.
    pub fn named(&mut self, name: impl Into<Cow<'static, str>>) {
        self.0.name = name.into();
    }

    /// Moves its begin to an earlier moment.
    pub fn begun(&mut self, at: Instant) {
        self.0.started = clock(at);
    }

    /// Sets the time of its end.
    pub fn ended(&mut self, at: Instant) {
        self.0.ended = Some(clock(at));
    }

    /// Sets an attribute.
    pub fn set(&mut self, name: &'static str, value: impl Into<Value>) {
        self.0.attributes.push(KeyValue::new(name, value));
    }

    /// Marks it as failed, with the reason. That may repeat any amount of what a client has sent, and is cut: spans wait
    /// for their collector, and no budget counts them.
    pub fn failed(&mut self, reason: &(impl fmt::Display + ?Sized)) {
        self.0.status = Status::error(cut_bytes(&reason.to_string(), MAX_TEXT_LEN));
    }

    /// Links it to a span of another trace.
    pub(super) fn link(&mut self, other: &TraceContext) {
        self.0.links.push(Link::with_context(other.0.span.clone()));
    }
}

impl Drop for TraceSpan {
    fn drop(&mut self) {
        let span = &mut *self.0;
        let tracer = Arc::clone(&span.context.0.tracer);
        let mut links = SpanLinks::default();
        links.links = std::mem::take(&mut span.links);
        tracer.ended(SpanData {
            span_context: span.context.0.span.clone(),
            parent_span_id: span.parent,
            parent_span_is_remote: span.is_parent_remote,
            span_kind: span.kind.clone(),
            name: std::mem::take(&mut span.name),
            start_time: span.started,
            end_time: span.ended.unwrap_or_else(SystemTime::now),
            attributes: std::mem::take(&mut span.attributes),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links,
            status: std::mem::take(&mut span.status),
            instrumentation_scope: tracer.scope().clone(),
        });
    }
}

/// Returns the time of day of a moment that is past.
fn clock(at: Instant) -> SystemTime {
    SystemTime::now() - at.elapsed()
}
