//! Figures of dynamic batching, and of the threads of an inference.

use super::super::row::{
    Bound::{Least, Most},
    Spec,
    Unit::Ratio,
};
use super::row;

/// A rate with dynamic batching over that without.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchRate {
    pub(crate) id: &'static str,
    /// Least ratio.
    pub(crate) wanted: f64,
    pub(crate) model: &'static str,
    pub(crate) clients: usize,
    /// Number of requests of a turn. A client has several of them one after the other, as a turn in which all are sent at once
    /// would measure a burst.
    pub(crate) turn: usize,
}

const fn rate(
    id: &'static str,
    wanted: f64,
    model: &'static str,
    clients: usize,
    turn: usize,
) -> BatchRate {
    BatchRate {
        id,
        wanted,
        model,
        clients,
        turn,
    }
}

/// Rates with dynamic batching over those without.
pub(crate) const BATCH_RATES: [BatchRate; 12] = [
    rate("batch-rate-pays", 0.98, "perceptron", 16, 200),
    rate("batch-rate-pays-2", 0.98, "perceptron", 2, 200),
    rate("batch-rate-pays-4", 0.98, "perceptron", 4, 200),
    rate("batch-rate-pays-8", 0.98, "perceptron", 8, 200),
    rate("batch-rate-pays-64", 0.98, "perceptron", 64, 400),
    rate("batch-rate-large", 2.0, "perceptron_large", 16, 200),
    rate("batch-rate-large-4", 0.98, "perceptron_large", 4, 200),
    rate("batch-rate-never", 0.98, "classifier", 16, 400),
    rate("batch-rate-never-2", 0.98, "classifier", 2, 400),
    rate("batch-rate-never-4", 0.98, "classifier", 4, 400),
    rate("batch-rate-never-8", 0.98, "classifier", 8, 400),
    rate("batch-rate-never-64", 0.98, "classifier", 64, 400),
];

/// Number of requests of a turn of 16 clients in the rows about the bound of batches.
pub(crate) const BOUND_TURN: usize = 200;

/// Models of the rows about threads, each with the number of requests of a turn of 16 clients.
pub(crate) const THREAD_MODELS: [(&str, usize); 2] = [("classifier", 400), ("conv", 64)];

/// Settings that the default is compared with, each with its description.
pub(crate) const THREAD_SETTINGS: [(&str, &str); 2] = [
    (
        "streams",
        "those with as many streams as processors, of a thread each",
    ),
    ("one", "those with INFERENCE_NUM_THREADS 1"),
];

/// Returns the rows of the part about batches.
pub(super) fn batching() -> Vec<Spec> {
    let with = "with dynamic_batching auto over";
    let mut rows = vec![row(
        "batch-p50-1",
        Ratio,
        Some(Most(1.03)),
        &format!("perceptron, 1 client: p50 {with} that without"),
    )];
    for rate in BATCH_RATES {
        let text = format!(
            "{}, {} clients: requests/s {with} those without",
            rate.model, rate.clients
        );
        rows.push(row(rate.id, Ratio, Some(Least(rate.wanted)), &text));
    }
    rows.push(row(
        "batch-rate-same",
        Ratio,
        None,
        "classifier, 16 clients: requests/s of a server without dynamic_batching over those of another one",
    ));
    for (model, ids) in [
        ("perceptron", ["batch-rate-bound", "threads-cpu"]),
        (
            "perceptron_large",
            ["batch-rate-large-bound", "threads-cpu-large"],
        ),
    ] {
        let text = format!(
            "{model}, 16 clients: the gain by dynamic_batching auto over (F + I1)/(F + Ib), with F what a request takes \
             without its inference, I1 a raw inference alone, and Ib that of an item of a raw batch of as many rows"
        );
        rows.push(row(ids[0], Ratio, Some(Least(0.9)), &text));
        let text = format!(
            "{model}, 16 clients, no batching: CPU time of a request over that of a raw inference on one thread"
        );
        rows.push(row(ids[1], Ratio, None, &text));
    }
    rows
}

/// Returns the rows of the part about threads.
pub(super) fn threads() -> Vec<Spec> {
    let mut rows = Vec::new();
    for (model, _) in THREAD_MODELS {
        for (setting, text) in THREAD_SETTINGS {
            for (figure, name) in [("rate", "requests/s"), ("cpu", "server CPU a request")] {
                let id = format!("threads-{setting}-{model}-{figure}");
                let text = format!("{model}, 16 clients: {name} by default over {text}");
                rows.push(row(&id, Ratio, None, &text));
            }
        }
    }
    rows
}
