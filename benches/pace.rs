//! Loads for tail latency: at a fixed rate, or of clients that each wait for their response.

use std::time::{Duration, Instant};

use futures::{StreamExt, future::join_all, stream::FuturesUnordered};
use ovms::client::{Client, ClientOptions, Request};
use tokio::{runtime::Runtime, time::MissedTickBehavior};

/// Outcome of the requests of a load.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    took: Vec<Duration>,
    /// Number of requests answered with an error.
    pub(crate) refused: usize,
}

impl Outcome {
    /// Returns the number of requests.
    pub(crate) fn count(&self) -> usize {
        self.took.len()
    }

    /// Returns the 99th percentile of their times in milliseconds, refused ones among them.
    pub(crate) fn p99(mut self) -> f64 {
        self.took.sort();
        self.took[self.took.len() * 99 / 100].as_secs_f64() * 1e3
    }

    fn add(&mut self, took: Duration, is_good: bool) {
        self.took.push(took);
        self.refused += usize::from(!is_good);
    }
}

/// Sends a request at a fixed rate over 16 connections; times count from the moment each was due.
pub(crate) fn at_rate(
    options: &ClientOptions,
    request: &Request,
    rate: u32,
    seconds: f64,
) -> Outcome {
    let count = (f64::from(rate) * seconds) as usize;
    runtime().block_on(async {
        let client = Client::connect(options).await.expect("it listens");
        let call = &client.call(request).expect("it has a form");
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut in_flight = FuturesUnordered::new();
        let mut outcome = Outcome::default();
        let mut sent = 0;
        while outcome.count() < count {
            tokio::select! {
                due = ticks.tick(), if sent < count => {
                    let lane = sent % 16;
                    sent += 1;
                    in_flight.push(async move {
                        let is_good = call.send(lane).await.is_ok();
                        (due.elapsed(), is_good)
                    });
                }
                Some((took, is_good)) = in_flight.next() => outcome.add(took, is_good),
            }
        }
        outcome
    })
}

/// Runs 16 clients that each send requests one after the other for a time.
pub(crate) fn by_clients(options: &ClientOptions, request: &Request, seconds: f64) -> Outcome {
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    runtime().block_on(async {
        let client = Client::connect(options).await.expect("it listens");
        let call = &client.call(request).expect("it has a form");
        let lanes = (0..16).map(async |lane| {
            let mut outcome = Outcome::default();
            while Instant::now() < until {
                let sent = Instant::now();
                let is_good = call.send(lane).await.is_ok();
                outcome.add(sent.elapsed(), is_good);
            }
            outcome
        });
        let mut all = Outcome::default();
        for outcome in join_all(lanes).await {
            all.took.extend(outcome.took);
            all.refused += outcome.refused;
        }
        all
    })
}

/// Creates the runtime of a load: a thread of its own, so that times are taken when responses arrive.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime")
}
