//! Loads that take turns. A load consists of jobs, each of one request or of several in sequence,
//! which the clients take one after the other.

use std::{
    cell::{Cell, RefCell},
    time::{Duration, Instant},
};

use futures::future::join_all;
use ovms::client::{Api, Client, EncodedRequest, Request};
use tokio::runtime::{Builder, Runtime};

use crate::{
    peer::Peer,
    process,
    report::row::{Row, Side, Unit},
};

/// Number of concurrent clients. Many, so that little of a request's time is spent waking up.
pub(crate) const CONCURRENCY: usize = 16;

/// Cost of a load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// Median time of a request.
    pub(crate) p50_us: f64,
    /// 99th percentile of the time of a request.
    pub(crate) p99_us: f64,
    /// Processor time of the serving process per job.
    pub(crate) cpu_us: f64,
    /// Jobs completed per second.
    pub(crate) per_second: f64,
}

/// One of the figures of a load.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Figure {
    P50,
    Cpu,
    Rate,
}

impl Figure {
    pub(crate) const fn of(self, cost: &Cost) -> f64 {
        match self {
            Self::P50 => cost.p50_us,
            Self::Cpu => cost.cpu_us,
            Self::Rate => cost.per_second,
        }
    }

    const fn unit(self) -> Unit {
        match self {
            Self::P50 | Self::Cpu => Unit::Micros,
            Self::Rate => Unit::PerSecond,
        }
    }
}

/// A load on one process.
pub(crate) struct Load<'a> {
    peer: &'a Peer,
    runtime: &'a Runtime,
    /// Requests of each job, encoded in advance, so that the clients have little to do.
    jobs: Vec<Vec<EncodedRequest<'a>>>,
    next: Cell<usize>,
    clients: usize,
}

/// Creates the single-threaded runtime of the clients.
pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Connects to a process over KServe's gRPC.
pub(crate) fn connect(runtime: &Runtime, peer: &Peer) -> Client {
    connect_by(runtime, peer, Api::KserveGrpc)
}

/// Connects to a process.
pub(crate) fn connect_by(runtime: &Runtime, peer: &Peer, api: Api) -> Client {
    let options = peer.options(api, CONCURRENCY);
    let client = runtime.block_on(Client::connect(&options));
    client.expect("the server listens")
}

impl<'a> Load<'a> {
    pub(crate) fn new(
        peer: &'a Peer,
        runtime: &'a Runtime,
        client: &'a Client,
        jobs: &[Vec<Request>],
    ) -> Self {
        let call = |request| client.call(request).expect("it has a form");
        Self {
            peer,
            runtime,
            jobs: jobs
                .iter()
                .map(|job| job.iter().map(call).collect())
                .collect(),
            next: Cell::new(0),
            clients: CONCURRENCY,
        }
    }

    /// Limits the load to one client.
    pub(crate) fn alone(self) -> Self {
        self.by(1)
    }

    /// Sets the number of clients, [`CONCURRENCY`] without it.
    pub(crate) fn by(self, clients: usize) -> Self {
        Self { clients, ..self }
    }

    /// Runs every job once.
    pub(crate) fn once(&self) {
        self.run(self.jobs.len());
    }

    /// Cycles through the jobs until `count` more are done.
    pub(crate) fn run(&self, count: usize) -> Cost {
        let end = self.next.get() + count;
        let took = RefCell::new(Vec::with_capacity(count));
        let cpu = process::cpu(self.peer.id());
        let begun = Instant::now();
        self.runtime.block_on(async {
            let lanes = (0..self.clients).map(async |lane| {
                while self.next.get() < end {
                    let job = &self.jobs[self.next.get() % self.jobs.len()];
                    self.next.set(self.next.get() + 1);
                    for call in job {
                        let sent = Instant::now();
                        call.send(lane).await.expect("it is answered");
                        took.borrow_mut().push(sent.elapsed());
                    }
                }
            });
            join_all(lanes).await;
        });
        let seconds = begun.elapsed();
        let cpu = process::cpu(self.peer.id()) - cpu;
        Cost {
            cpu_us: cpu.as_secs_f64() * 1e6 / count as f64,
            per_second: count as f64 / seconds.as_secs_f64(),
            ..cost(took.into_inner(), seconds, cpu)
        }
    }
}

/// Returns the cost of requests that took so long each, and so much time and processor time together.
pub(crate) fn cost(mut took: Vec<Duration>, seconds: Duration, cpu: Duration) -> Cost {
    took.sort();
    let count = took.len() as f64;
    Cost {
        p50_us: took[took.len() / 2].as_secs_f64() * 1e6,
        p99_us: took[took.len() * 99 / 100].as_secs_f64() * 1e6,
        cpu_us: cpu.as_secs_f64() * 1e6 / count,
        per_second: count / seconds.as_secs_f64(),
    }
}

/// Measures two sides in turn, in an order that alternates from pair to pair (A B, B A, A B …).
/// Turns are short, so that other work on the machine affects both sides. Both exist all the time;
/// one is idle while it is the other's turn.
pub(crate) fn alternate<T>(
    pairs: usize,
    mut one: impl FnMut() -> T,
    mut other: impl FnMut() -> T,
) -> [Vec<T>; 2] {
    let mut both = [Vec::with_capacity(pairs), Vec::with_capacity(pairs)];
    for pair in 0..pairs {
        if pair % 2 == 0 {
            both[0].push(one());
            both[1].push(other());
        } else {
            both[1].push(other());
            both[0].push(one());
        }
    }
    both
}

/// Costs of two loads in their turns, by pairs.
#[derive(Default)]
pub(crate) struct Pairs(pub(crate) [Vec<Cost>; 2]);

/// Runs two loads in turn, `counts` jobs of each at a time.
pub(crate) fn in_turn(loads: [&Load<'_>; 2], counts: [usize; 2], pairs: usize) -> Pairs {
    for (load, count) in loads.into_iter().zip(counts) {
        // What is made at first is there afterwards.
        load.run(count);
    }
    Pairs(alternate(
        pairs,
        || loads[0].run(counts[0]),
        || loads[1].run(counts[1]),
    ))
}

impl Pairs {
    /// Adds further pairs.
    pub(crate) fn extend(&mut self, more: [Vec<Cost>; 2]) {
        for (all, more) in self.0.iter_mut().zip(more) {
            all.extend(more);
        }
    }

    /// Returns a figure of both sides under the given names.
    pub(crate) fn sides(&self, figure: Figure, names: [&str; 2]) -> [Side; 2] {
        let side = |index: usize| {
            let values = self.0[index].iter().map(|cost| figure.of(cost)).collect();
            Side::new(names[index], figure.unit(), values)
        };
        [side(0), side(1)]
    }

    /// Creates a row of the ratio of the first to the second.
    pub(crate) fn ratio(&self, id: &str, figure: Figure, names: [&str; 2]) -> Row {
        Row::ratio(id, self.sides(figure, names))
    }

    /// Creates a row of the difference of the first and the second.
    pub(crate) fn difference(&self, id: &str, figure: Figure, names: [&str; 2]) -> Row {
        Row::difference(id, self.sides(figure, names))
    }

    /// Creates a row of one of the two.
    pub(crate) fn of(&self, id: &str, figure: Figure, index: usize) -> Row {
        let values = self.0[index].iter().map(|cost| figure.of(cost)).collect();
        Row::new(id, values)
    }
}
