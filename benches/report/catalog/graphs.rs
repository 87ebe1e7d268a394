//! Rows of graphs: Python nodes, streams, generators, and workers.

use super::{
    super::row::{
        Bound::{Least, Most},
        Spec,
        Unit::{Copies, Kilobytes, Megabytes, Micros, PerSecond, Ratio, Requests, Seconds},
    },
    row,
};

/// Returns the rows of the part about graphs.
pub(super) fn graphs() -> Vec<Spec> {
    let mut rows = vec![
        row(
            "python-large",
            Copies,
            Some(Most(1.3)),
            "10 MB into a Python node: time beyond that of 10 bytes, in copies of them",
        ),
        row(
            "python-chain-empty",
            Copies,
            Some(Most(1.3)),
            "10 MB into Python, from there to a model in pyovms.empty, and its answer to Python: the same",
        ),
        row(
            "python-chain-own",
            Copies,
            Some(Most(1.2)),
            "the same in bytes of the handler: time beyond that, in copies that a handler makes of 10 MB",
        ),
        row(
            "pass-through",
            Micros,
            Some(Most(2.0)),
            "20 PassThroughCalculator nodes beyond the first, in one process: time of each",
        ),
    ];
    for (id, handler, most, least) in [
        ("echo", "a handler that returns its [1,10] input", 50.0, 0.6),
        ("numpy", "the same by way of NumPy", 60.0, 0.5),
    ] {
        rows.extend([
            row(
                &format!("python-{id}-p50-1"),
                Ratio,
                None,
                &format!("{handler}, 1 client: p50 over the bare echo's"),
            ),
            row(
                &format!("python-{id}-added"),
                Micros,
                Some(Most(most)),
                &format!(
                    "{handler}, 1 client: p50 beyond the bare echo's and a message to another process and back"
                ),
            ),
            row(
                &format!("python-{id}-share-16"),
                Ratio,
                Some(Least(least)),
                &format!("{handler}, 16 clients: requests/s over the bare echo's"),
            ),
        ]);
    }
    rows.extend([
        row(
            "python-hop-added",
            Micros,
            None,
            "a bare service that passes each request to another process and back, without Python, 1 client: the same",
        ),
        row(
            "python-hop-share-16",
            Ratio,
            None,
            "the same, 16 clients: requests/s over the bare echo's",
        ),
        row(
            "python-plain-added",
            Micros,
            None,
            "the same with plain Python in the other process, which reads, calls a method, and writes, 1 client",
        ),
        row(
            "python-plain-share-16",
            Ratio,
            None,
            "the same, 16 clients: requests/s over the bare echo's",
        ),
    ]);
    rows.extend([
        row("stream-unary", Ratio, Some(Least(1.8)), "the first handler, 16 requests in flight: requests/s on one stream over single requests"),
        row(
            "hop-stream-unary",
            Ratio,
            None,
            "a bare service that passes each message to another process and back, without Python: the same",
        ),
        row(
            "plain-stream-unary",
            Ratio,
            None,
            "the same with plain Python in the other process, which reads, calls a method, and writes",
        ),
        row("generator", PerSecond, Some(Least(50_000.0)), "a generator of 10,000 outputs of 4 bytes: responses/s to one client"),
        row("generator-share", Ratio, None, "the same over a bare service that sends as many messages"),
        row("stream-idle", Kilobytes, Some(Most(100.0)), "resident memory for each of 500 open and idle streams to a Python node").steady(),
        row("python-two", Ratio, Some(Least(1.8)), "a handler that computes some 10 ms in Python alone, 16 clients: requests/s of 2 workers over those of 1"),
        row(
            "python-two-raw",
            Ratio,
            None,
            "the same computation in plain Python: computations/s of 2 processes over those of 1",
        ),
        row("python-killed", Requests, Some(Most(0.0)), "100 workers killed under load: requests failed beyond those in flight in them").steady(),
        row("python-restart", Seconds, Some(Most(1.0)), "the same: the longest time from a kill to an answer of the next worker"),
        row("python-private", Megabytes, Some(Most(6.0)), "memory of its own of each of 20 idle workers with NumPy").steady(),
    ]);
    rows
}
