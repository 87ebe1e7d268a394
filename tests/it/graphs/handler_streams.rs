//! Standard streams of handlers, and how text that is written to them comes into the log.

use serde_json::Value;

use super::{handler_output::JSON, shared};
use crate::support::{
    eventually,
    graphs::{CODE, add_python, code, reported},
    grpc::Grpc,
    pipelines::Config,
};

/// Adds the graph of these tests that has a log of lines.
pub(super) fn add_graphs(config: &mut Config) {
    let mine = "class Mine(Exception): pass\n";
    add_python(config, "chain", &[CODE, mine].concat());
}

/// Returns what the handler of a graph has printed, as `STREAM TEXT`.
fn printed(graph: &str) -> Vec<String> {
    let of = format!("graph {graph}");
    let log = JSON.log();
    let events = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ours = events.filter(|event| event["target"] == "ovms::python" && event["of"] == *of);
    let lines = ours.filter_map(|event| {
        let text = event["message"].as_str()?;
        Some(format!("{} {text}", event["stream"].as_str()?))
    });
    lines.collect()
}

/// Runs the body of a function, which returns nothing itself.
fn runs(client: &Grpc, graph: &str, body: &str) {
    let body = format!("{body}\nreturn [Tensor('out', b'fine')]");
    assert_eq!(reported(client, code(graph, &body)), "out UINT8 [4] fine");
}

/// Waits until the handler of a graph has printed these lines, and no others.
fn are_printed(graph: &str, lines: &[&str]) {
    eventually("all lines are in the log", || {
        (printed(graph).len() >= lines.len()).then_some(())
    });
    assert_eq!(printed(graph), lines);
}

#[test]
fn streams_of_handlers_take_bytes_and_settings() {
    let client = Grpc::connect(&JSON);
    for body in [
        "sys.stdout.reconfigure(line_buffering=True, encoding='utf-8')",
        "sys.stdout.buffer.write(b'one\\ntw')\nsys.stdout.buffer.write(b'o\\n')",
        // A character in two pieces, and what is none.
        "sys.stdout.buffer.write(b'\\xc3')\nsys.stdout.flush()\nsys.stdout.buffer.write(b'\\xa4 \\xff\\n')",
        "sys.stdout.buffer.write(b'half \\xc3')",
        // What scripts do to print UTF-8.
        "import io\nwrapped = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')\nprint('wrapped', file=wrapped)\ndel wrapped",
        "print(sys.stdout.name, sys.stdout.mode, sys.stdout.isatty(), sys.stdout.line_buffering)",
        "try: sys.stdout.buffer.write('text')\nexcept TypeError: print('refused')",
    ] {
        runs(&client, "takes", body);
    }
    are_printed(
        "takes",
        &[
            "stdout one",
            "stdout two",
            "stdout ä \\xff",
            "stdout half \\xc3",
            "stdout wrapped",
            "stdout <stdout> w False True",
            "stdout refused",
        ],
    );
}

#[test]
fn what_a_call_prints_without_a_line_end_is_a_line_of_the_log() {
    let client = Grpc::connect(&JSON);
    for _ in 0..5 {
        runs(&client, "ends", "print('progress', end='')");
    }
    are_printed("ends", &["stdout progress"; 5]);
    // Also where the call fails.
    let text = reported(
        &client,
        code(
            "ends",
            "print('begun', end='', file=sys.stderr)\nraise ValueError('wrong')",
        ),
    );
    assert!(text.ends_with("ValueError: wrong"), "{text}");
    eventually("it is in the log", || {
        printed("ends")
            .contains(&"stderr begun".to_owned())
            .then_some(())
    });
}

#[test]
fn a_long_chain_of_exceptions_is_shown_by_the_names_of_the_handler() {
    let (server, client) = shared::connect();
    let body = "last = None\nfor number in range(3000):\n  error = Mine(f'number {number}')\n  error.__cause__ = last\n  last = error\nraise last";
    let text = reported(&client, code("chain", body));
    assert!(text.ends_with("Mine: number 2999"), "{text}");
    server.wait_log("Mine: number 2999");
    let log = server.log();
    assert!(log.contains("\n    Mine: number 1\n"), "{log}");
    assert!(!log.contains("cannot be formatted"), "{log}");
    assert!(!log.contains("_ovms_handler_"), "{log}");
}
