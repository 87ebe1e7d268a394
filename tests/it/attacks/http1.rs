//! HTTP/1 request smuggling, long heads, and clients that close their side of the connection.

use std::{
    io::{Read as _, Write as _},
    net::Shutdown,
};

use super::WITH_METRICS;
use crate::support::{
    Server, busy, eventually,
    grpc::Grpc,
    http::{JSON_LENGTH, connect, exchange, get, head, read, read_one},
};

const INFER: &str = "/v2/models/dummy/infer";

/// Sends bytes over a connection of its own; returns the status of each answer.
fn statuses(server: &Server, bytes: &[u8]) -> Vec<u16> {
    let mut stream = connect(server);
    stream.write_all(bytes).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answers = Vec::new();
    stream.read_to_end(&mut answers).unwrap();
    String::from_utf8_lossy(&answers)
        .split("HTTP/1.")
        .skip(1)
        .map(|answer| answer[2..5].parse().unwrap())
        .collect()
}

#[test]
fn lines_that_end_with_lf_alone_are_refused() {
    let server = Server::shared("dummy");
    let good = "GET /v2/health/live HTTP/1.1\r\nHost: test\r\n\r\n";
    for bad in [
        "GET /v2/health/live HTTP/1.1\nHost: test\r\n\r\n",
        "GET /v2/health/live HTTP/1.1\r\nHost: test\n\r\n",
        "GET /v2/health/live HTTP/1.1\r\nHost: test\r\n\n",
        "GET /v2/health/live HTTP/1.1\r\nHost: test\r\nX: y\nTransfer-Encoding: chunked\r\n\r\n",
        "\nGET /v2/health/live HTTP/1.1\r\nHost: test\r\n\r\n",
    ] {
        assert_eq!(statuses(server, bad.as_bytes()), [400], "{bad:?}");
        let behind = format!("{good}{bad}");
        assert_eq!(statuses(server, behind.as_bytes()), [200, 400], "{bad:?}");
    }
    // A byte at a time, as a client that stays.
    let mut stream = connect(server);
    stream.set_nodelay(true).unwrap();
    for byte in b"GET /v2/health/live HTTP/1.1\r\nHost: test\n" {
        stream.write_all(&[*byte]).unwrap();
    }
    assert_eq!(read(&mut stream).status, 400);
    // In bodies it is a byte like any other.
    let body = "\n{\n}\n";
    let request = head("POST", INFER, body.len(), &[]) + body + good;
    assert_eq!(statuses(server, request.as_bytes()), [400, 200]);
}

#[test]
fn a_request_needs_one_host() {
    let server = Server::shared("dummy");
    let status = |head: &str| statuses(server, format!("{head}\r\n\r\n").as_bytes());
    assert_eq!(status("GET /v2/health/live HTTP/1.1"), [400]);
    assert_eq!(
        status("GET /v2/health/live HTTP/1.1\r\nHost: a\r\nHost: a"),
        [400]
    );
    assert_eq!(
        status("OPTIONS /v2 HTTP/1.1\r\nHost: a\r\nX: y\r\nHOST: b"),
        [400]
    );
    assert_eq!(status("GET /v2/health/live HTTP/1.1\r\nhost: a"), [200]);
    assert_eq!(status("GET /v2/health/live HTTP/1.0"), [200]);
}

#[test]
fn broken_chunks_are_refused() {
    let server = Server::shared("dummy");
    let head = format!("POST {INFER} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for chunks in [
        "xyz\r\n{}\r\n0\r\n\r\n",
        "\r\n{}\r\n0\r\n\r\n",
        "-2\r\n{}\r\n0\r\n\r\n",
        "2\n{}\r\n0\r\n\r\n",
        "2\r\n{}0\r\n\r\n",
        "1\r\n{}\r\n0\r\n\r\n",
        "fffffffffffffffff\r\n{}",
        // Cut short.
        "2\r\n{",
        "2\r\n{}\r\n",
    ] {
        let request = format!("{head}{chunks}");
        assert_eq!(statuses(server, request.as_bytes()), [400], "{chunks:?}");
    }
    let mut stream = connect(server);
    stream
        .write_all(format!("{head}xyz\r\n").as_bytes())
        .unwrap();
    insta::assert_snapshot!(read(&mut stream).error(), @"400: request body cannot be read: Invalid chunk size line: missing size digit");
    assert_eq!(get(server, "/v2/health/ready").status, 200);
}

#[test]
fn what_hides_the_end_of_a_body_is_refused() {
    let server = Server::shared("dummy");
    let next = "GET /v2/health/live HTTP/1.1\r\nHost: test\r\n\r\n";
    let head = format!("POST {INFER} HTTP/1.1\r\nHost: a\r\n");
    for rest in [
        "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\n".to_owned(),
        "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx: y\n\r\n".to_owned(),
        format!(
            "Transfer-Encoding: chunked\r\n\r\n{}2\r\n{{}}\r\n0\r\n\r\n",
            "0".repeat(200)
        ),
        format!("Content-Length: {}2\r\n\r\n{{}}", "0".repeat(200)),
        // Two ends, of which a proxy may have taken the other.
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n".to_owned(),
        "Transfer-Encoding: chunked\r\nContent-Length: 12\r\n\r\n2\r\n{}\r\n0\r\n\r\n".to_owned(),
        "transfer-encoding:chunked\r\nX: y\r\ncontent-length:0\r\n\r\n0\r\n\r\n".to_owned(),
        "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}".to_owned(),
        "Content-Length: +2\r\n\r\n{}".to_owned(),
        "Transfer-Encoding: identity\r\n\r\n{}".to_owned(),
        "Transfer-Encoding: chunked, identity\r\n\r\n2\r\n{}\r\n0\r\n\r\n".to_owned(),
    ] {
        // What follows is not answered: where it begins is not known.
        let wire = format!("{head}{rest}{next}");
        let answers = statuses(server, wire.as_bytes());
        assert!(matches!(answers[..], [400..=412]), "{rest:?}: {answers:?}");
    }
}

#[test]
fn a_transfer_coding_is_chunked_alone() {
    let server = Server::shared("dummy");
    let next = "GET /v2/health/live HTTP/1.1\r\nHost: test\r\n\r\n";
    let answers = |codings: &str| {
        let head = format!("POST {INFER} HTTP/1.1\r\nHost: a\r\n{codings}\r\n\r\n");
        let wire = format!("{head}2\r\n{{}}\r\n0\r\n\r\n{next}");
        statuses(server, wire.as_bytes())
    };
    // What follows is not answered: another server may see it elsewhere.
    for (codings, status) in [
        ("Transfer-Encoding: chunked, chunked", 400),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            400,
        ),
        ("Transfer-Encoding: identity, chunked", 400),
        ("Transfer-Encoding: , chunked", 400),
        ("Transfer-Encoding: chunked,", 400),
        ("Transfer-Encoding: gzip, chunked", 501),
        ("Transfer-Encoding: gzip\r\ntransfer-encoding: chunked", 501),
    ] {
        assert_eq!(answers(codings), [status], "{codings}");
    }
    // The body is no request, and is read.
    for codings in [
        "Transfer-Encoding: chunked",
        "transfer-encoding:\t Chunked ",
    ] {
        assert_eq!(answers(codings), [400, 200], "{codings}");
    }
}

#[test]
fn a_client_that_has_said_all_gets_its_answer() {
    let server = busy::shared();
    let (length, body) = busy::body(busy::SECONDS);
    let headers = [(JSON_LENGTH, length.as_str())];
    let request = head("POST", "/v2/models/busy/infer", body.len(), &headers);
    let mut stream = connect(&server);
    let live = head("GET", "/v2/health/live", 0, &[]);
    assert_eq!(exchange(&mut stream, &live, b"").status, 200);
    stream.write_all(request.as_bytes()).unwrap();
    stream.write_all(&body).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read(&mut stream).status, 200);
    // One that has not: the bytes are no request, and are answered with an error.
    let mut stream = connect(&server);
    stream.write_all(request.as_bytes()).unwrap();
    stream.write_all(&body[..10]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read(&mut stream).status, 400);
    busy::check(1, &Grpc::connect(&server).infer(busy::request(1)));
}

#[test]
fn long_heads_count_until_their_requests_are_answered() {
    const LONG: usize = 300_000;
    let server = &*WITH_METRICS;
    let held = || -> usize {
        let page = get(server, "/metrics").text();
        let mut lines = page.lines();
        let bytes = lines.find_map(|line| line.strip_prefix("ovms_bytes_in_flight "));
        bytes.expect("the metric is there").parse().unwrap()
    };
    let long = "x".repeat(LONG);
    let head = head("POST", INFER, 1, &[("x", &long)]);
    let waiting = (0..10).map(|_| {
        let mut stream = connect(server);
        stream.write_all(head.as_bytes()).unwrap();
        stream
    });
    let mut waiting: Vec<_> = waiting.collect();
    eventually("all of them count", || {
        (held() >= waiting.len() * LONG).then_some(())
    });
    for stream in &mut waiting {
        stream.write_all(b"x").unwrap();
        assert!(read_one(stream).status >= 400);
    }
    eventually("none counts", || (held() < LONG).then_some(()));
    drop(waiting);
}
