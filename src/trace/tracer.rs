//! The tracer: which requests have spans, and where these go.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use hyper::HeaderMap;
use opentelemetry::{
    InstrumentationScope, KeyValue,
    trace::{SpanId, SpanKind, TraceState},
};
use opentelemetry_sdk::{
    Resource,
    resource::TelemetryResourceDetector,
    trace::{
        BatchConfigBuilder, BatchSpanProcessor, IdGenerator, RandomIdGenerator, SpanData,
        SpanProcessor,
    },
};

use super::{
    collector,
    error::TraceError,
    headers::{self, Parent},
    sampling::Sampling,
    settings::TraceSettings,
    span::{TraceContext, TraceSpan},
};

/// Name of the service unless a variable says otherwise.
const SERVICE: &str = "ovms";

/// Makes spans, and hands those that have ended to a thread that exports them.
#[derive(Debug)]
pub struct Tracer {
    sampling: Sampling,
    ids: RandomIdGenerator,
    scope: InstrumentationScope,
    processor: BatchSpanProcessor,
    queue: Arc<SpanQueue>,
}

/// Spans that wait to be exported, counted; the library that has them drops those above its bound without a word.
#[derive(Debug)]
pub(super) struct SpanQueue {
    waiting: AtomicUsize,
    most: usize,
    lost: AtomicU64,
}

impl SpanQueue {
    fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            waiting: AtomicUsize::new(0),
            most,
            lost: AtomicU64::new(0),
        })
    }

    /// Takes a place, unless there is none.
    fn enter(&self) -> bool {
        let fits = self.waiting.fetch_add(1, Relaxed) < self.most;
        if !fits {
            self.waiting.fetch_sub(1, Relaxed);
            if self.lost.fetch_add(1, Relaxed) == 0 {
                tracing::warn!(
                    "{} spans wait for the collector, which is the limit; further ones are lost until it accepts \
                     some; see OTEL_BSP_MAX_QUEUE_SIZE",
                    self.most
                );
            }
        }
        fits
    }

    /// Gives places back.
    pub(super) fn left(&self, spans: usize) {
        self.waiting.fetch_sub(spans, Relaxed);
    }

    /// Returns how many spans were lost since the last call.
    pub(super) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Relaxed)
    }
}

impl Tracer {
    /// Starts to export to a collector, which need not be there; within a runtime, which has to live until
    /// [`Tracer::close`].
    ///
    /// # Errors
    ///
    /// Fails if a variable or the endpoint is nothing that can be exported to.
    pub fn start(settings: TraceSettings, version: &'static str) -> Result<Arc<Self>, TraceError> {
        let queue = SpanQueue::new(settings.most);
        let exporter = collector::exporter(&settings, Arc::clone(&queue))?;
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(settings.most)
            .with_max_export_batch_size(settings.batch)
            .with_scheduled_delay(settings.delay);
        let mut processor = BatchSpanProcessor::new(exporter, config.build());
        processor.set_resource(&resource(settings.service, settings.attributes, version));
        Ok(Arc::new(Self {
            sampling: settings.sampling,
            ids: RandomIdGenerator::default(),
            scope: InstrumentationScope::builder(SERVICE)
                .with_version(version)
                .build(),
            processor,
            queue,
        }))
    }

    /// Checks whether a tracer can start, and reads the files that the settings name; within a runtime. Nothing is sent.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::start`] does.
    pub fn check(settings: &TraceSettings) -> Result<(), TraceError> {
        collector::exporter(settings, SpanQueue::new(settings.most)).map(drop)
    }

    /// Begins the span of a request, if it is sampled.
    pub fn begin(self: &Arc<Self>, headers: &HeaderMap) -> Option<TraceSpan> {
        let parent = Parent::of(headers);
        let trace = match &parent {
            Some(parent) => parent.trace,
            None => self.ids.new_trace_id(),
        };
        let is_sampled = match &parent {
            Some(parent) if self.sampling.follows_parent => parent.is_sampled,
            _ => self.sampling.takes(trace),
        };
        if !is_sampled {
            return None;
        }
        let (state, above) = match parent {
            Some(parent) => (headers::state(headers), parent.span),
            None => (TraceState::default(), SpanId::INVALID),
        };
        let context = TraceContext::new(self, trace, self.new_span_id(), state);
        let span = TraceSpan::new(
            context,
            "".into(),
            SpanKind::Server,
            above,
            parent.is_some(),
        );
        Some(span)
    }

    /// Begins a trace of its own.
    pub(super) fn root(self: &Arc<Self>, name: &'static str) -> TraceSpan {
        let (trace, span) = (self.ids.new_trace_id(), self.new_span_id());
        let context = TraceContext::new(self, trace, span, TraceState::default());
        TraceSpan::new(
            context,
            name.into(),
            SpanKind::Internal,
            SpanId::INVALID,
            false,
        )
    }

    pub(super) fn new_span_id(&self) -> SpanId {
        self.ids.new_span_id()
    }

    pub(super) fn scope(&self) -> &InstrumentationScope {
        &self.scope
    }

    /// Takes a span that has ended. Never waits.
    pub(super) fn ended(&self, span: SpanData) {
        if self.queue.enter() {
            self.processor.on_end(span);
        }
    }

    /// Exports what waits, for at most a limit, and ends. Blocks.
    pub fn close(&self, limit: Duration) {
        let waiting = self.queue.waiting.load(Relaxed);
        if self.processor.shutdown_with_timeout(limit).is_err() && waiting > 0 {
            tracing::warn!(
                "up to {waiting} spans are lost, which the collector did not accept within {} s; see \
                 --otlp-flush-seconds",
                limit.as_secs()
            );
        }
    }
}

/// Describes this server to the collector: what the variables say, and its name and version.
fn resource(
    service: Option<String>,
    attributes: Vec<(String, String)>,
    version: &'static str,
) -> Resource {
    let usual = [("service.name", SERVICE), ("service.version", version)];
    let usual = usual.map(|(name, value)| KeyValue::new(name, value));
    let given = attributes.into_iter();
    // What comes later takes precedence.
    let builder = Resource::builder_empty()
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_attributes(usual)
        .with_attributes(given.map(|(name, value)| KeyValue::new(name, value)));
    match service {
        Some(service) => builder.with_service_name(service).build(),
        None => builder.build(),
    }
}
