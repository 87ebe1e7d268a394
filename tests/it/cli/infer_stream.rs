//! `ovms infer --stream`: requests over one stream, to this server and to a fake server of graphs.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use crate::support::{
    eventually,
    generator::Generator,
    infer::{GRPC, at, interrupt, redacted},
    repository,
    steps::ended,
};

/// Starts a stream with requests from standard input.
fn spawn(server: &Generator, args: &[&str]) -> Child {
    at(server.port, GRPC)
        .args(["graph", "--stream"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn requests_go_out_as_they_are_typed_and_ctrl_c_cancels() {
    let server = Generator::start();
    let mut child = spawn(&server, &["-i", "text=-"]);
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    for word in ["one", "two"] {
        writeln!(stdin, "\"{word}\"").unwrap();
        line.clear();
        stdout.read_line(&mut line).unwrap();
        assert!(line.contains(word), "{line}");
    }
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap(), @r"
    Model `graph`, version 1:
    error: interrupted after 2 answers
    ");
}

#[test]
fn ctrl_c_ends_a_stream_whose_output_nobody_reads() {
    let server = Generator::start();
    let child = spawn(&server, &["--param", "count=100000000"]);
    let started = Instant::now();
    // The pipe is full long before.
    std::thread::sleep(Duration::from_millis(500));
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(started.elapsed() < Duration::from_secs(10));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("error: interrupted after "), "{stderr}");
}

#[test]
fn a_server_that_takes_no_more_requests_is_given_up() {
    let server = Generator::start();
    let folder = repository::folder();
    let path = folder.path().join("many.jsonl");
    // Several times as much as a connection holds.
    let line = format!("{{\"text\": \"{}\"}}\n", "x".repeat(1 << 20));
    fs::write(&path, line.repeat(16)).unwrap();
    let flags = [
        "--param",
        "silence=true",
        "--timeout",
        "500ms",
        "--requests",
    ];
    let mut child = spawn(&server, &[&flags[..], &[path.to_str().unwrap()]].concat());
    eventually("the end of the stream", || child.try_wait().unwrap());
    let _redacted = redacted();
    insta::assert_snapshot!(ended(child).failure(), @"
    exit 1
    error: no answer from <address> within 500ms
    hint: `--timeout` sets the limit
    ");
}
