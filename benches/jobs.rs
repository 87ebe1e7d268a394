//! A load whose requests differ: jobs of one request or of several after each other, which the
//! clients take in turn.

use std::{
    cell::{Cell, RefCell},
    time::Instant,
};

use futures::future::join_all;
use hdrhistogram::Histogram;
use ovms::client::{Api, Client, Request};

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
}

/// Does every job once, without measuring.
pub(crate) fn once(peer: &Peer, jobs: &[Vec<Request>]) {
    run(peer, jobs, 0, jobs.len());
}

/// Goes round the jobs, over gRPC, until so many are done; before that, a tenth as many and no
/// less than a hundred to warm up.
pub(crate) fn load(peer: &Peer, jobs: &[Vec<Request>], count: usize) -> Cost {
    run(peer, jobs, (count / 10).max(100), count)
}

fn run(peer: &Peer, jobs: &[Vec<Request>], warmup: usize, count: usize) -> Cost {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let client = Client::connect(&peer.options(Api::KserveGrpc, CONCURRENCY))
            .await
            .expect("the server listens");
        // Encoded before, so that the clients have little to do.
        let calls: Vec<Vec<_>> = jobs
            .iter()
            .map(|job| {
                job.iter()
                    .map(|request| client.call(request).expect("it has a form"))
                    .collect()
            })
            .collect();
        let (next, end) = (Cell::new(0), Cell::new(warmup));
        let mut latencies = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)
            .expect("the bounds are in order");
        let took = RefCell::new(Vec::with_capacity(count * 2));
        let all = async || {
            let lanes = (0..CONCURRENCY).map(async |lane| {
                while next.get() < end.get() {
                    let job = &calls[next.get() % calls.len()];
                    next.set(next.get() + 1);
                    for call in job {
                        let sent = Instant::now();
                        call.send(lane).await.expect("it is answered");
                        took.borrow_mut().push(sent.elapsed());
                    }
                }
            });
            join_all(lanes).await;
        };
        all().await;
        took.borrow_mut().clear();
        end.set(warmup + count);
        let cpu = process::cpu(peer.id());
        all().await;
        let cpu = process::cpu(peer.id()) - cpu;
        for took in took.take() {
            latencies.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        }
        Cost {
            p50_us: latencies.value_at_quantile(0.5) as f64 / 1e3,
            cpu_us: cpu.as_secs_f64() * 1e6 / count as f64,
        }
    })
}
