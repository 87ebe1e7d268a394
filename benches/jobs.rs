//! A load whose requests differ: jobs of one request or of several after each other, which the
//! clients take in turn.

use std::{
    cell::{Cell, RefCell},
    time::Instant,
};

use futures::future::join_all;
use ovms::client::{Api, Call, Client, Request};
use tokio::runtime::{Builder, Runtime};

use crate::{peer::Peer, process};

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

/// A load on one process, over gRPC.
pub(crate) struct Load<'a> {
    peer: &'a Peer,
    runtime: &'a Runtime,
    /// The requests of each job, encoded before, so that the clients have little to do.
    jobs: Vec<Vec<Call<'a>>>,
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

/// Connects to a process.
pub(crate) fn connect(runtime: &Runtime, peer: &Peer) -> Client {
    let options = peer.options(Api::KserveGrpc, CONCURRENCY);
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
        let cpu = process::cpu_of_threads(self.peer.id());
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
        let cpu = process::cpu_of_threads(self.peer.id()) - cpu;
        let mut took = took.into_inner();
        took.sort();
        Cost {
            p50_us: took[took.len() / 2].as_secs_f64() * 1e6,
            cpu_us: cpu.as_secs_f64() * 1e6 / count as f64,
            per_second: count as f64 / seconds,
        }
    }
}

/// Does two loads in turn, `count` of the jobs of each at a time, and returns the median of what
/// `compare` makes of each two. What disturbs the machine falls on both, as the turns are short.
pub(crate) fn in_turn<const N: usize>(
    loads: [&Load<'_>; 2],
    counts: [usize; 2],
    pairs: usize,
    compare: impl Fn(Cost, Cost) -> [f64; N],
) -> [f64; N] {
    for load in loads {
        // To warm up.
        load.run(counts[0].max(200));
    }
    let mut compared: Vec<[f64; N]> = (0..pairs)
        .map(|pair| {
            let first = pair % 2;
            let one = loads[first].run(counts[first]);
            let other = loads[1 - first].run(counts[1 - first]);
            if first == 0 {
                compare(one, other)
            } else {
                compare(other, one)
            }
        })
        .collect();
    std::array::from_fn(|index| {
        compared.sort_by(|a, b| a[index].total_cmp(&b[index]));
        compared[pairs / 2][index]
    })
}
