//! Shared parts of the tests: a server, clients for it, and waiting for conditions.

pub(crate) mod busy;
pub(crate) mod bytes;
pub(crate) mod certificates;
pub(crate) mod checks;
pub(crate) mod cli;
pub(crate) mod cloud;
pub(crate) mod collector;
pub(crate) mod docs;
pub(crate) mod dtypes;
pub(crate) mod emulator;
pub(crate) mod generator;
pub(crate) mod graphs;
pub(crate) mod grpc;
pub(crate) mod handlers;
pub(crate) mod http;
pub(crate) mod infer;
pub(crate) mod ir;
pub(crate) mod loaded;
pub(crate) mod nodes;
pub(crate) mod pipelines;
pub(crate) mod random;
pub(crate) mod redis;
pub(crate) mod relay;
pub(crate) mod repository;
pub(crate) mod sequence;
pub(crate) mod server;
pub(crate) mod shared_memory;
pub(crate) mod sheet;
pub(crate) mod shells;
pub(crate) mod steps;
pub(crate) mod streams;
pub(crate) mod terminal;
pub(crate) mod tfs;
pub(crate) mod tools;
pub(crate) mod wire;

use std::{
    path::PathBuf,
    thread::JoinHandle,
    time::{Duration, Instant},
};

pub(crate) use server::Server;

/// Waits for a condition, for at most half a minute.
pub(crate) fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    const LIMIT: Duration = Duration::from_secs(30);
    const MAX_PAUSE: Duration = Duration::from_millis(50);
    let started = Instant::now();
    // Most waits are short. In a long one, asking takes time of the processor from what is waited for.
    let mut pause = Duration::from_millis(4);
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(started.elapsed() < LIMIT, "waited in vain: {what}");
        std::thread::sleep(pause);
        pause = MAX_PAUSE.min(pause * 5 / 4);
    }
}

/// Starts a thread, which the test joins.
#[expect(clippy::disallowed_methods, reason = "what a test starts it joins")]
pub(crate) fn thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    std::thread::spawn(work)
}

/// Returns a path below `fixtures/`.
pub(crate) fn fixture(below: &str) -> PathBuf {
    PathBuf::from(env!("WORKSPACE_ROOT"))
        .join("fixtures")
        .join(below)
}

/// Returns the folder of a fixture model.
pub(crate) fn model(name: &str) -> PathBuf {
    fixture("models").join(name)
}
