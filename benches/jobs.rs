//! Loads that take turns. Each is of jobs of one request or of several after each other, which the
//! clients take one after the other.

use std::{
    cell::{Cell, RefCell},
    time::Instant,
};

use futures::future::join_all;
use ovms::client::{Api, Client, EncodedRequest, Request};
use tokio::runtime::{Builder, Runtime};

use crate::{
    peer::Peer,
    process,
    report::row::{Row, Side, Unit},
};

/// Clients at once. Many, so that little of a request's time is that of waking up.
pub(crate) const CONCURRENCY: usize = 16;

/// What a load cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// The median time of a request.
    pub(crate) p50_us: f64,
    /// Processor time of the serving process for each job.
    pub(crate) cpu_us: f64,
    /// Jobs that were done in a second.
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
    /// The requests of each job, encoded before, so that the clients have little to do.
    jobs: Vec<Vec<EncodedRequest<'a>>>,
    next: Cell<usize>,
    clients: usize,
}

/// Makes what the clients run on: one thread.
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

    /// Has one client do it alone.
    pub(crate) fn alone(self) -> Self {
        self.by(1)
    }

    /// Has so many clients do it, at most [`CONCURRENCY`].
    pub(crate) fn by(self, clients: usize) -> Self {
        Self { clients, ..self }
    }

    /// Does every job once.
    pub(crate) fn once(&self) {
        self.run(self.jobs.len());
    }

    /// Goes on round the jobs until so many more are done.
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
        let seconds = begun.elapsed().as_secs_f64();
        let cpu = process::cpu(self.peer.id()) - cpu;
        let mut took = took.into_inner();
        took.sort();
        Cost {
            p50_us: took[took.len() / 2].as_secs_f64() * 1e6,
            cpu_us: cpu.as_secs_f64() * 1e6 / count as f64,
            per_second: count as f64 / seconds,
        }
    }
}

/// Measures two sides in turn, and which is the first changes from pair to pair (A B, B A, A B …):
/// what disturbs the machine falls on both, as turns are short. Both are there all the time, and the
/// one whose turn it is not has nothing to do.
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
pub(crate) struct Pairs(pub(crate) [Vec<Cost>; 2]);

/// Does two loads in turn, so many of the jobs of each at a time.
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
    /// Returns a figure of both sides, which have these names.
    pub(crate) fn sides(&self, figure: Figure, names: [&str; 2]) -> [Side; 2] {
        let side = |index: usize| {
            let values = self.0[index].iter().map(|cost| figure.of(cost)).collect();
            Side::new(names[index], figure.unit(), values)
        };
        [side(0), side(1)]
    }

    /// Makes a row of the first over the second.
    pub(crate) fn ratio(&self, id: &str, figure: Figure, names: [&str; 2]) -> Row {
        Row::ratio(id, self.sides(figure, names))
    }

    /// Makes a row of the first less the second.
    pub(crate) fn difference(&self, id: &str, figure: Figure, names: [&str; 2]) -> Row {
        Row::difference(id, self.sides(figure, names))
    }

    /// Makes a row of one of the two.
    pub(crate) fn of(&self, id: &str, figure: Figure, index: usize) -> Row {
        let values = self.0[index].iter().map(|cost| figure.of(cost)).collect();
        Row::new(id, values)
    }
}
