//! Every figure of a run, by the parts that can be measured alone.

use super::row::{
    Bound::{self, Above, Least, Most},
    Spec,
    Unit::{
        self, Copies, Kilobytes, Megabytes, MegabytesPerSecond, Micros, Millis, PerSecond, Ratio,
        Seconds,
    },
};

pub(crate) mod batching;
mod graphs;
mod sequences;

use self::{
    batching::{batching, threads},
    graphs::graphs,
    sequences::sequences,
};

/// Name of the part of absolute figures, whose table has columns of its own.
pub(crate) const CELLS: &str = "cells";

/// Name of the part that compares two server programs; only on request.
pub(crate) const AGAINST: &str = "against";

/// A part that can be measured alone.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) rows: Vec<Spec>,
}

/// Returns the parts of a full run, in its order.
pub(crate) fn parts() -> Vec<Part> {
    let part = |name, about, rows| Part { name, about, rows };
    vec![
        part(CELLS, "absolute figures of every side", cells()),
        part("echo", "a tiny model against a bare echo service", echo()),
        part("raw", "served inferences against raw OpenVINO", raw()),
        part("memory", "resident memory with one tiny model", memory()),
        part("tfs", "TensorFlow Serving's API against KServe's", tfs()),
        part("rest", "JSON, and REST against gRPC", rest()),
        part(
            "tls",
            "TLS of the server against TLS that nginx ends in front of it",
            tls(),
        ),
        part("metrics", "metrics on against off", metrics()),
        part("traces", "traces on against off", traces()),
        part(
            "reload",
            "fifty models and a thousand, one of them reloaded",
            reload(),
        ),
        part(
            "sequences",
            "requests in sequences against those without",
            sequences(),
        ),
        part(
            "batching",
            "dynamic batching against the same without",
            batching(),
        ),
        part(
            "threads",
            "threads of an inference: the default against others",
            threads(),
        ),
        part(
            "pipelines",
            "pipelines against raw OpenVINO and against single calls",
            pipelines(),
        ),
        part("graphs", "Python nodes, streams and generators", graphs()),
        part(
            "attacks",
            "a client beside others that attack from one core",
            attacks(),
        ),
    ]
}

/// Returns the part that compares two server programs.
pub(crate) fn against() -> Part {
    let mut rows = Vec::new();
    for (id, text) in AGAINST_LOADS {
        for (figure, name) in [
            ("cpu", "CPU a request"),
            ("rate", "requests/s"),
            ("p50", "p50"),
        ] {
            let id = format!("against-{id}-{figure}");
            rows.push(row(
                &id,
                Ratio,
                None,
                &format!("{text}: {name}, over the baseline's"),
            ));
        }
    }
    let text = "resident memory with the tiny model, after load, over the baseline's";
    rows.push(row("against-memory", Ratio, None, text).steady());
    Part {
        name: AGAINST,
        about: "BENCH_PROGRAM against BENCH_BASELINE, which names another server program",
        rows,
    }
}

/// Loads on two programs.
pub(crate) const AGAINST_LOADS: [(&str, &str); 8] = [
    ("tiny-16", "dummy over gRPC, 16 clients"),
    ("tiny-1", "dummy over gRPC, 1 client"),
    ("600k-16", "fullsize over gRPC, 16 clients"),
    ("rest-16", "dummy over REST, 16 clients"),
    ("resnet50-1", "resnet50 over gRPC, 1 client"),
    ("metrics-16", "dummy over gRPC with metrics, 16 clients"),
    (
        "pipeline-16",
        "a pipeline of two dummy nodes over gRPC, 16 clients",
    ),
    ("python-1", "a graph of a Python node over gRPC, 1 client"),
];

/// Models of the table of cells, client counts of each, and whether the echo service takes part.
pub(crate) const CELL_MODELS: [(&str, &[usize], bool); 4] = [
    ("dummy", &[1, 4, 16], true),
    ("fullsize", &[1, 4, 16], true),
    ("classifier", &[1, 16], false),
    ("resnet50", &[1, 4], false),
];

/// Sides of the table of cells, by their names in row ids.
pub(crate) const CELL_SIDES: [(&str, &str); 4] = [
    ("raw", "raw OpenVINO"),
    ("echo", "bare echo"),
    ("grpc", "ovms gRPC"),
    ("rest", "ovms REST"),
];

fn row(id: &str, unit: Unit, wanted: Option<Bound>, text: &str) -> Spec {
    Spec::new(id, unit, wanted, text)
}

fn cells() -> Vec<Spec> {
    let mut rows = Vec::new();
    for (model, clients, with_echo) in CELL_MODELS {
        for (side, text) in CELL_SIDES {
            if side == "echo" && !with_echo {
                continue;
            }
            for clients in clients {
                let id = format!("{model}-{side}-{clients}");
                let plural = if *clients == 1 { "" } else { "s" };
                let text = match side {
                    "raw" => format!("{model}, {text}, {clients} thread{plural}"),
                    _ => format!("{model}, {text}, {clients} client{plural}"),
                };
                rows.push(row(&id, PerSecond, None, &text));
            }
        }
    }
    rows
}

fn echo() -> Vec<Spec> {
    vec![
        row(
            "echo-share-16",
            Ratio,
            Some(Least(0.86)),
            "dummy over gRPC, 16 clients: requests/s over the bare echo's",
        ),
        row(
            "echo-cpu",
            Micros,
            None,
            "the bare echo, 16 clients: CPU a request",
        ),
        row(
            "grpc-added-cpu",
            Micros,
            Some(Most(4.0)),
            "dummy over gRPC, 16 clients: server CPU a request beyond the bare echo's and a raw inference",
        ),
        row(
            "grpc-cpu",
            Micros,
            None,
            "dummy over gRPC, 16 clients: server CPU a request",
        ),
        row(
            "rest-cpu",
            Micros,
            Some(Most(20.0)),
            "dummy over REST, 16 clients: server CPU a request",
        ),
        row(
            "grpc-over-rest-cpu",
            Ratio,
            Some(Most(1.0)),
            "dummy, 16 clients: server CPU a request, gRPC over REST",
        ),
        row(
            "rest-echo-cpu",
            Micros,
            None,
            "a bare service over HTTP/1 that takes and gives the same bytes, 16 clients: CPU a request",
        ),
        row(
            "rest-infers-cpu",
            Micros,
            None,
            "the same with a raw inference of dummy in its handler",
        ),
        row(
            "echo-p50-1",
            Ratio,
            None,
            "dummy over gRPC, 1 client: p50 over the bare echo's",
        ),
        row(
            "echo-added-1",
            Micros,
            Some(Most(8.0)),
            "the same: p50 beyond the bare echo's",
        ),
        row(
            "echo-infers-1",
            Micros,
            None,
            "the bare echo with a raw inference of dummy in its handler, 1 client: p50 beyond that without",
        ),
    ]
}

fn raw() -> Vec<Spec> {
    vec![
        row(
            "resnet50-cpu",
            Ratio,
            Some(Most(1.01)),
            "resnet50 over gRPC, 1 client: CPU a request over raw OpenVINO's",
        ),
        row(
            "resnet50-apart-cpu",
            Ratio,
            None,
            "raw OpenVINO with pauses as long as the way to the client and back: CPU over that without",
        ),
        row(
            "classifier-cpu",
            Ratio,
            None,
            "classifier over gRPC, 1 client: CPU a request over raw OpenVINO's",
        ),
        row(
            "dummy-added",
            Micros,
            Some(Most(150.0)),
            "dummy over gRPC, 1 client: p50 beyond raw OpenVINO's",
        ),
        row(
            "fullsize-added",
            Micros,
            Some(Most(600.0)),
            "fullsize over gRPC, 1 client: p50 beyond raw OpenVINO's",
        ),
        row(
            "conv-cpu",
            Ratio,
            Some(Most(1.1)),
            "conv over gRPC, 16 clients: server CPU a request over raw OpenVINO's",
        ),
        row(
            "conv-share",
            Ratio,
            Some(Least(0.8)),
            "the same: requests/s over raw OpenVINO's, which has no client beside it",
        ),
        row(
            "conv-shm-cpu",
            Ratio,
            Some(Most(1.03)),
            "conv over gRPC with inputs and outputs in shared memory, 16 clients: server CPU a request over raw OpenVINO's",
        ),
        row(
            "conv-shm-share",
            Ratio,
            Some(Least(0.93)),
            "the same: requests/s over raw OpenVINO's, which has no client beside it",
        ),
        row(
            "conv-infers-cpu",
            Ratio,
            None,
            "the bare echo with a raw inference of conv in its handler, 16 clients that send its 600 KB: its CPU a request over raw OpenVINO's",
        ),
        row(
            "conv-infers-share",
            Ratio,
            None,
            "the same: requests/s over raw OpenVINO's",
        ),
        row(
            "conv-infers-shm-cpu",
            Ratio,
            None,
            "the same, 16 clients that send the request of dummy, and the handler reads 600 KB of shared memory: its CPU a request over raw OpenVINO's",
        ),
        row(
            "conv-infers-shm-share",
            Ratio,
            None,
            "the same: requests/s over raw OpenVINO's",
        ),
    ]
}

fn memory() -> Vec<Spec> {
    vec![
        row(
            "memory-tiny",
            Megabytes,
            Some(Most(12.0)),
            "resident memory with dummy beyond that of a bare process with OpenVINO and dummy",
        )
        .steady(),
        row(
            "memory-growth",
            Ratio,
            Some(Most(1.03)),
            "resident memory of no file after 200,000 requests over that after 20,000",
        )
        .steady(),
    ]
}

fn tfs() -> Vec<Spec> {
    ["dummy", "fullsize"]
        .map(|model| {
            let text = format!("{model} over gRPC, 16 clients: requests/s of TensorFlow Serving's API over KServe's");
            row(&format!("tfs-{model}"), Ratio, Some(Least(0.9)), &text)
        })
        .into()
}

fn rest() -> Vec<Spec> {
    let text = |model| {
        format!("{model}, 16 clients: requests/s over REST with binary data over those over gRPC")
    };
    vec![
        row(
            "rest-json",
            MegabytesPerSecond,
            Some(Least(330.0)),
            "JSON of 1x3x224x224 floats: body for each second of the server's CPU time",
        ),
        row("rest-fullsize", Ratio, Some(Least(0.8)), &text("fullsize")),
        row("rest-dummy", Ratio, None, &text("dummy")),
    ]
}

fn tls() -> Vec<Spec> {
    vec![
        row(
            "tls-cpu",
            Ratio,
            Some(Most(0.7)),
            "fullsize over HTTPS with binary data, 16 kept connections: server CPU a request over that of nginx, which \
             ends TLS, and the server behind it",
        ),
        row(
            "tls-plain-cpu",
            Ratio,
            None,
            "the same: server CPU a request over that without TLS",
        ),
        row(
            "tls-handshakes",
            Ratio,
            Some(Least(0.9)),
            "full handshakes/s over those of nginx, beside clients that take the rest of the machine",
        ),
        row(
            "tls-handshake-cpu",
            Ratio,
            None,
            "the same: server CPU a handshake over nginx's",
        ),
    ]
}

fn metrics() -> Vec<Spec> {
    let text = "dummy over gRPC, 16 clients: server CPU a request, metrics on over off";
    vec![row("metrics-cpu", Ratio, Some(Most(1.02)), text)]
}

fn traces() -> Vec<Spec> {
    vec![
        row(
            "trace-cpu",
            Ratio,
            Some(Most(1.01)),
            "dummy over gRPC, 16 clients: server CPU a request, 1 % of them sampled and sent to a collector, over that \
             without traces",
        ),
        row(
            "trace-all-cpu",
            Ratio,
            None,
            "the same with all of them sampled",
        ),
    ]
}

fn reload() -> Vec<Spec> {
    vec![
        row(
            "reload-start",
            Seconds,
            Some(Most(0.4)),
            "start with 50 tiny models",
        ),
        row(
            "reload-start-raw",
            Seconds,
            None,
            "raw OpenVINO: reading and compiling the model 50 times on all processors",
        ),
        row(
            "reload-p99",
            Ratio,
            Some(Most(1.3)),
            "p99 of one of 50 models at 500 requests/s while another is reloaded four times a second, over quiet",
        ),
        row(
            "reload-p99-raw",
            Ratio,
            None,
            "the same while another process compiles the model with raw OpenVINO four times a second, over quiet",
        ),
        row(
            "reload-memory",
            Ratio,
            Some(Most(1.05)),
            "resident memory after 220 reloads of one model of 50 over that after 20",
        )
        .steady(),
        row(
            "models-1000-start",
            Seconds,
            None,
            "start with 1,000 tiny models; each of them beside each of 100",
        ),
        row(
            "models-1000-reload",
            Millis,
            Some(Most(50.0)),
            "server CPU of a reload of one of 1,000 tiny models, beside that of one of 100",
        ),
        row(
            "models-1000-memory",
            Kilobytes,
            None,
            "resident memory of each of 900 tiny models more than 100",
        )
        .steady(),
    ]
}

fn pipelines() -> Vec<Spec> {
    let mut rows = vec![
        row(
            "chain-node",
            Micros,
            Some(Most(15.0)),
            "a chain of 5 dummy nodes in one process: time beyond raw OpenVINO's, for each node",
        ),
        row(
            "split-bytes",
            Copies,
            Some(Most(1.0)),
            "splitting and gathering 64 parts of 602 KB: bytes copied, by their number",
        )
        .steady(),
        row(
            "split-time",
            Ratio,
            Some(Most(1.05)),
            "the same: time over that of one copy into new memory",
        ),
        row(
            "split-parts",
            Ratio,
            None,
            "64 copies of 602 KB into new memory, one behind the other: time over that of one copy",
        ),
        row(
            "split-busy",
            Ratio,
            Some(Least(0.95)),
            "64 branches of about 1 ms of work: throughput over that of 64 raw requests beside each other",
        ),
        row(
            "split-copies",
            Copies,
            None,
            "64 branches of 602 KB in and out: time beyond raw inferences, in copies of all of it",
        ),
    ];
    for clients in [1, 4, 16] {
        let plural = if clients == 1 { "" } else { "s" };
        let text = format!(
            "a chain of 5 dummy nodes, {clients} client{plural}: chains/s over those of a client's single calls"
        );
        rows.push(row(
            &format!("chain-calls-{clients}"),
            Ratio,
            Some(Above(1.0)),
            &text,
        ));
    }
    rows
}

/// Kinds of attack, each with its description.
pub(crate) const ATTACKS: [(&str, &str); 9] = [
    ("packed", "200 KB of gzip that are 200 MB"),
    ("images", "small images that claim 8000 by 8000 pixels"),
    (
        "windows",
        "packed requests for 1.5 MB each whose answers nobody takes",
    ),
    (
        "bodies",
        "bodies of 60 KB without an end on thousands of streams",
    ),
    ("trailers", "calls with 10 KB of trailers"),
    ("profiles", "images with compressed profiles of 400 MB"),
    ("strings", "57 MiB of strings without a byte"),
    (
        "queues",
        "streams of megabytes that wait in a graph for another input",
    ),
    (
        "declared",
        "messages that declare 16 MiB and stop, on a thousand streams",
    ),
];

fn attacks() -> Vec<Spec> {
    let mut rows = vec![row(
        "accounting",
        Micros,
        Some(Most(0.3)),
        "what a request is charged for and gives back, by one thread",
    )];
    for (id, text) in ATTACKS {
        let text = format!(
            "dummy at 200 requests/s beside {text}: p99 over what it may be, the larger of 20 ms and 10 times that \
             without"
        );
        rows.push(row(&format!("attack-{id}"), Ratio, Some(Most(1.0)), &text));
    }
    rows.push(row(
        "attack-shapes",
        Ratio,
        Some(Most(3.0)),
        "16 clients of a model whose shapes vary, beside one that fails an inference every 100 ms: p99 over that \
         without",
    ));
    rows.push(row(
        "fair-p99",
        Ratio,
        Some(Most(3.0)),
        "dummy at 200 requests/s with --client-limits, beside 1,000 connections of a client that sends all it can: p99 over \
         that beside as many that keep to their limits",
    ));
    rows
}
