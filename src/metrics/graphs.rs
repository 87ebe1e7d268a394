//! Counters of graphs, in addition to those of every servable.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use super::{
    cells::{self, Buckets},
    families::Family,
    reporter::{Outcomes, Reporter, Times},
};
use crate::request::{Interface, RequestOrigin};

/// Kind of call to a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// One request, one response.
    Infer,
    /// Requests and responses as they come.
    Stream,
}

impl Method {
    /// All methods.
    pub(super) const ALL: [Self; 2] = [Self::Infer, Self::Stream];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Infer => "ModelInfer",
            Self::Stream => "ModelInferStream",
        }
    }
}

/// The ways in which requests of graphs come.
pub(super) const WAYS: [(Interface, Method); 4] = [
    (Interface::Grpc, Method::Infer),
    (Interface::Grpc, Method::Stream),
    (Interface::Rest, Method::Infer),
    (Interface::Rest, Method::Stream),
];

/// The figures of a graph.
#[derive(Debug, Default)]
pub(super) struct GraphCounts {
    pub(super) running: AtomicI64,
    /// Counts by interface and method.
    pub(super) ways: [WayCounts; WAYS.len()],
    /// Times of runs by method.
    pub(super) times: [RunTimes; Method::ALL.len()],
    /// Streams by interface, and by how they ended.
    pub(super) streams: [Outcomes; 2],
    /// Nanoseconds of all streams, by how they ended.
    pub(super) stream_ns: Outcomes,
}

impl GraphCounts {
    /// Returns how many runs are in progress; for a moment it may be below zero.
    pub(super) fn in_progress(&self) -> i64 {
        self.running.load(Relaxed)
    }

    /// Returns how many answers went out over streams, and how many streams failed.
    pub(super) fn streamed(&self) -> (u64, u64) {
        let ways = WAYS.iter().zip(&self.ways);
        let streams = ways.filter(|((_, method), _)| *method == Method::Stream);
        let answers = streams.map(|(_, way)| way.responses.load(Relaxed)).sum();
        (answers, self.ended(false))
    }

    /// Returns how many streams ended well, or with an error.
    pub(super) fn ended(&self, well: bool) -> u64 {
        let ended = self.streams.iter().map(|it| it.of(well).load(Relaxed));
        ended.sum()
    }
}

/// The figures of a way.
#[derive(Debug, Default)]
pub(super) struct WayCounts {
    pub(super) accepted: AtomicU64,
    pub(super) rejected: AtomicU64,
    pub(super) responses: AtomicU64,
    pub(super) errors: AtomicU64,
}

/// Durations of runs of graphs.
#[derive(Debug, Default)]
pub(super) struct RunTimes {
    pub(super) run: Buckets,
    pub(super) ns: AtomicU64,
}

/// Counts what one request or stream does to a graph.
#[derive(Debug, Clone)]
pub struct GraphCall {
    reporter: Arc<Reporter>,
    way: usize,
    since: Instant,
}

impl GraphCall {
    /// Begins to count a request or stream that came in this way. What is counted for anything but
    /// a graph shows nowhere.
    pub fn new(reporter: &Arc<Reporter>, origin: RequestOrigin, method: Method) -> Self {
        let way = (origin.interface, method);
        Self {
            reporter: Arc::clone(reporter),
            way: WAYS.iter().position(|known| *known == way).unwrap_or(0),
            since: Instant::now(),
        }
    }

    /// Counts nothing that anybody sees.
    pub fn uncounted() -> Self {
        Self {
            reporter: Arc::default(),
            way: 0,
            since: Instant::now(),
        }
    }

    /// Returns the figures of the graph, which are also those of its nodes.
    pub fn reporter(&self) -> &Arc<Reporter> {
        &self.reporter
    }

    fn counts(&self) -> &GraphCounts {
        self.reporter.graph()
    }

    fn own(&self) -> &WayCounts {
        &self.counts().ways[self.way]
    }

    /// The packets of a request were put in.
    pub fn accepted(&self) {
        self.own().accepted.fetch_add(1, Relaxed);
    }

    /// A request did not become packets, or they were not taken.
    pub fn rejected(&self) {
        self.own().rejected.fetch_add(1, Relaxed);
    }

    /// A response was made.
    pub fn response(&self) {
        self.own().responses.fetch_add(1, Relaxed);
    }

    /// A run failed.
    pub fn error(&self) {
        self.own().errors.fetch_add(1, Relaxed);
    }

    /// A stream has ended: well, or with an error of its opening or of the graph. Requests that are
    /// answered one by one are counted by [`super::RequestRecord`].
    pub fn ended(&self, well: bool) {
        let (interface, _) = WAYS[self.way];
        let streams = &self.counts().streams[interface as usize];
        streams.count(well);
        let ended = Instant::now();
        let took = ended.saturating_duration_since(self.since);
        cells::add(self.counts().stream_ns.of(well), took);
        if well {
            // To those who ask for statistics, all of it is one run, as with a request.
            self.reporter.ran(&Times {
                prepared: Duration::ZERO,
                waited: Duration::ZERO,
                started: self.since,
                ended,
                rows: 1,
                batch: 0,
            });
        }
    }

    /// Counts the graph as running until the return value is dropped, or marked as successful.
    pub fn running(&self) -> Running {
        self.counts().running.fetch_add(1, Relaxed);
        Running {
            call: self.clone(),
            since: Instant::now(),
        }
    }
}

/// A run of a graph, until dropped. Its time counts if it [has succeeded](Self::succeeded): those that
/// fail or are left, often at once, would make graphs look fast.
#[derive(Debug)]
pub struct Running {
    call: GraphCall,
    since: Instant,
}

impl Running {
    /// Ends the run, which has succeeded.
    pub fn succeeded(self) {
        if self.call.reporter.shows(Family::GraphTime) {
            let took = self.since.elapsed();
            let (_, method) = WAYS[self.call.way];
            let times = &self.call.counts().times[method as usize];
            times.run.observe(took);
            cells::add(&times.ns, took);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.call.counts().running.fetch_sub(1, Relaxed);
    }
}
