//! Figures of sequences.

use super::super::row::{
    Bound::{Least, Most},
    Spec,
    Unit::{Kilobytes, Megabytes, Micros, Ratio},
};
use super::row;

/// Stores, each with its bound in microseconds.
const STORE_ROWS: [(&str, Option<f64>, &str); 5] = [
    (
        "sequences-store-step",
        Some(120.0),
        "Redis as the store, durability step",
    ),
    (
        "sequences-store-hop",
        Some(300.0),
        "the same with two servers, to which steps go in turn, durability step",
    ),
    (
        "sequences-store-interval",
        None,
        "Redis as the store, durability interval",
    ),
    (
        "sequences-store-none",
        None,
        "Redis as the store, durability none",
    ),
    (
        "sequences-store-file",
        None,
        "a folder as the store, durability step",
    ),
];

/// Ways of HAProxy to three servers that share a store, each with its bound in microseconds.
const PROXY_ROWS: [(&str, f64, &str); 2] = [
    (
        "sequences-proxy-step",
        300.0,
        "HAProxy in turn over three servers with Redis as the store, durability step",
    ),
    (
        "sequences-proxy-held",
        120.0,
        "the same by the header of the sequence, which stays with one server",
    ),
];

pub(super) fn sequences() -> Vec<Spec> {
    let mut rows = Vec::new();
    for (id, sequences, reported, clients, most) in [
        ("sequences-1", 1, "parameters", 1, 3.0),
        ("sequences-16", 16, "parameters", 16, 5.0),
        ("sequences-16-inputs", 16, "special inputs", 16, 5.0),
        ("sequences-500", 500, "parameters", 16, 5.0),
    ] {
        let text = format!(
            "a request in one of {sequences} sequences, identified by {reported}, {clients} client{}: server CPU \
             beyond that of the same request without",
            if clients == 1 { "" } else { "s" }
        );
        rows.push(row(id, Micros, Some(Most(most)), &text));
    }
    rows.push(row(
        "sequences-ports",
        Micros,
        None,
        "a raw inference whose variables are inputs and outputs: CPU beyond that of one with variables",
    ));
    rows.push(row(
        "sequences-start-end",
        Micros,
        Some(Most(15.0)),
        "a sequence of a start and an end, 16 clients: server CPU beyond that of two requests without",
    ));
    rows.push(
        row(
            "sequences-idle",
            Kilobytes,
            Some(Most(1.0)),
            "resident memory for each of 100,000 idle sequences beyond its state of 1 KB",
        )
        .steady(),
    );
    rows.push(
        row(
            "sequences-live",
            Megabytes,
            Some(Most(250.0)),
            "resident memory for 100,000 live sequences of 1 KB beyond the idle server",
        )
        .steady(),
    );
    for (figure, name, most) in [("p50", "p50", 1.05), ("cpu", "server CPU a request", 1.1)] {
        let id = format!("sequences-round-{figure}");
        let text = format!("{name} going round 100,000 sequences over going round 16, 16 clients");
        rows.push(row(&id, Ratio, Some(Most(most)), &text));
    }
    rows.push(row(
        "sequences-batch-rate",
        Ratio,
        Some(Least(2.0)),
        "running_heavy, 16 sequences, 16 clients: steps/s with sequence_batch 8 over those without",
    ));
    rows.push(row(
        "sequences-batch-p50",
        Ratio,
        Some(Most(1.05)),
        "running_heavy, 1 client: p50 with sequence_batch 8 over that without",
    ));
    rows.push(row(
        "sequences-store-redis",
        Micros,
        None,
        "a SET of 1 KB and its answer on a bare socket, 1 client: p50",
    ));
    for (id, wanted, text) in STORE_ROWS {
        let text = format!("{text}, 1 client: p50 of a step beyond that without");
        rows.push(row(id, Micros, wanted.map(Most), &text));
    }
    for (id, most, text) in PROXY_ROWS {
        let text =
            format!("{text}, 1 client: p50 of a step beyond the same request without a sequence");
        rows.push(row(id, Micros, Some(Most(most)), &text));
    }
    rows.push(row(
        "sequences-proxy-echo",
        Micros,
        None,
        "the same HAProxy before three bare services that write 1 KB to Redis in their handler, 1 client: p50 beyond that \
         before three that do not",
    ));
    rows
}
