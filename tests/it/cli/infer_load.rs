//! `ovms infer` as a load generator: its figures, and exit codes.

use std::{process::Output, time::Instant};

use serde_json::Value;

use super::shared::{loading, served};
use crate::support::{
    Server,
    cli::words,
    infer::{GRPC, command, failures, infer, json, signal},
    steps::ALL,
};

const LATENCIES: [&str; 5] = ["mean", "p50", "p90", "p99", "max"];

/// Flags of a load that the server refuses.
const REFUSED: [&str; 4] = [
    "dummy",
    "-i=b::2,5=[0,1,2,3,4,5,6,7,8,9]",
    "--repeat=7",
    "--concurrency=2",
];

/// Starts an endless load, sends a signal, and waits for the end.
fn stopped(api: &str, name: &str, flags: &[&str]) -> Output {
    let mut command = command(served(), api);
    command.args(["under_load", "--zeros", "--duration=1m"]);
    let child = loading(served(), "under_load", command.args(flags));
    signal(&child, name);
    child.wait_with_output().unwrap()
}

#[test]
fn a_load_is_measured() {
    let server = Server::shared("dummy");
    for api in ALL {
        let report = json(
            server,
            api,
            &words("dummy --random --repeat=200 --concurrency=4 --warmup=5"),
        );
        assert_eq!((&report["ok"], &report["failed"]), (&200.into(), &0.into()));
        let seconds = report["seconds"].as_f64().unwrap();
        let rate = report["ok_per_second"].as_f64().unwrap();
        assert!((rate * seconds - 200.0).abs() < 0.01, "{report}");
        let latencies: Vec<f64> = LATENCIES
            .iter()
            .map(|name| report["latency_ms"][name].as_f64().unwrap())
            .collect();
        assert!(latencies[1..].is_sorted() && latencies[1] > 0.0, "{report}");
        assert!(latencies[0] <= latencies[4], "{report}");
        assert_eq!(report["errors"], Value::Array(Vec::new()));
        let fields: Vec<_> = report.as_object().unwrap().keys().collect();
        assert_eq!(
            fields,
            [
                "errors",
                "failed",
                "latency_ms",
                "ok",
                "ok_per_second",
                "seconds"
            ]
        );
    }
}

#[test]
fn a_load_is_shown_as_a_table() {
    let server = Server::shared("dummy");
    let run = infer(server, GRPC, &["dummy", "--zeros", "--repeat=20"]);
    assert_eq!(run.failure(), "exit 0\n");
    let table = run.text();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 2, "{table}");
    let titles = ["ok", "failed", "seconds", "ok/s"];
    assert_eq!(
        lines[0].split_whitespace().take(4).collect::<Vec<_>>(),
        titles
    );
    let cells: Vec<&str> = lines[1].split_whitespace().collect();
    assert_eq!((cells.len(), &cells[..2]), (9, &["20", "0"][..]), "{table}");
}

#[test]
fn a_load_ends_in_time() {
    let server = Server::shared("dummy");
    for api in ALL {
        let started = Instant::now();
        let report = json(server, api, &["dummy", "--zeros", "--duration=300ms"]);
        let took = started.elapsed().as_secs_f64();
        let seconds = report["seconds"].as_f64().unwrap();
        assert!(seconds >= 0.3 && seconds <= took, "{report}");
        assert!(report["ok"].as_u64().unwrap() > 0, "{report}");
        // Whichever ends first.
        let report = json(
            server,
            api,
            &words("dummy --zeros --duration=1h --repeat=3 --concurrency=9"),
        );
        assert_eq!(report["ok"], 3);
    }
}

#[test]
fn a_load_that_is_refused_fails() {
    let server = Server::shared("dummy");
    for api in ALL {
        let table = infer(server, api, &REFUSED);
        assert_eq!(table.failure(), "exit 1\nerror: 7 of 7 requests failed\n");
        let text = table.text();
        let lines: Vec<&str> = text.lines().collect();
        let cells: Vec<&str> = lines[1].split_whitespace().collect();
        assert_eq!(cells[..2], ["0", "7"], "{text}");
        assert_eq!(cells[4..], ["-"; 5], "{text}");
        let code = if api.ends_with("grpc") {
            "INVALID_ARGUMENT"
        } else {
            "400 Bad Request"
        };
        insta::allow_duplicates! {
            insta::assert_snapshot!(lines[2..].join("\n").replace(code, "<code>"), @"
            times  error
                7  the server refused the request: <code>: Invalid input batch size - Expected: 1; Actual: 2; input name: b
            ");
        }

        let run = infer(server, api, &[&REFUSED[..], &["--output=json"]].concat());
        assert_eq!(run.code, Some(1));
        let report: Value = serde_json::from_slice(&run.stdout).unwrap();
        assert_eq!((&report["ok"], &report["failed"]), (&0.into(), &7.into()));
        assert_eq!(report["latency_ms"], Value::Null);
        assert_eq!(report["errors"][0]["times"], 7);
    }
}

#[test]
fn a_warm_up_that_is_refused_ends_the_load() {
    let server = Server::shared("dummy");
    let flags = [&REFUSED[..], &["--warmup=1"]].concat();
    insta::assert_snapshot!(failures(server, GRPC, &[&flags]), @"
    exit 1
    error: the server refused the request: INVALID_ARGUMENT: Invalid input batch size - Expected: 1; Actual: 2; input name: b
    hint: send as many at once, in several requests, or serve the model with `--batch-size -1`, which takes any
    ");
}

#[test]
fn signals_print_what_was_measured() {
    for (name, code, what) in [("INT", 130, "interrupted"), ("TERM", 143, "terminated")] {
        for api in ALL {
            let output = stopped(api, name, &["--output=json", "--concurrency=3"]);
            assert_eq!(output.status.code(), Some(code));
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            let ok = report["ok"].as_u64().unwrap();
            assert!(ok > 0, "{report}");
            assert_eq!(report["failed"], 0);
            let text = String::from_utf8(output.stderr).unwrap();
            assert_eq!(text, format!("error: {what} after {ok} requests\n"));
        }
        let table = stopped(GRPC, name, &[]);
        assert_eq!(table.status.code(), Some(code));
        assert_eq!(String::from_utf8_lossy(&table.stdout).lines().count(), 2);
    }
}

#[test]
fn many_requests_at_once_are_answered() {
    let server = Server::shared("dummy");
    for api in ALL {
        // More than share a connection.
        let flags = ["dummy", "--zeros", "--repeat=100", "--concurrency=40"];
        assert_eq!(json(server, api, &flags)["failed"], 0);
    }
}
