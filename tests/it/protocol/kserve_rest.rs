//! KServe v2 over REST: paths, methods, metadata, and JSON bodies.

use std::io::{Read as _, Write as _};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};

use crate::support::{
    Server,
    http::{connect, exchange, head, post, send},
};

const INFER: &str = "/v2/models/dummy/infer";

/// A valid request for the model `dummy`.
const BODY: &[u8] =
    br#"{"inputs":[{"name":"b","shape":[1,10],"datatype":"FP32","data":[0,1,2,3,4,5,6,7,8,9]}]}"#;

#[test]
fn a_gzip_body_is_expanded() {
    let server = Server::shared("dummy");
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(BODY).unwrap();
    let body = gzip.finish().unwrap();
    let answer = send(
        server,
        "POST",
        INFER,
        &[("Content-Encoding", "gzip")],
        &body,
    );
    assert_eq!(answer.text(), post(server, INFER, BODY).text());
    let alias = send(
        server,
        "POST",
        INFER,
        &[("Content-Encoding", "X-GZip")],
        &body,
    );
    assert_eq!(alias.text(), answer.text());
    let broken = send(server, "POST", INFER, &[("Content-Encoding", "gzip")], BODY);
    insta::assert_snapshot!(broken.error(), @"400: request body is not valid gzip: invalid gzip header");
    let other = send(server, "POST", INFER, &[("Content-Encoding", "br")], &body);
    insta::assert_snapshot!(other.error(), @"400: Content-Encoding br is not supported; send gzip or no encoding");
}

#[test]
fn an_answer_is_gzip_for_a_client_that_asks_for_nothing_else() {
    let server = Server::shared("passthrough_f32");
    let ask = |accepted, rows: usize| {
        let data = vec!["0.5"; rows * 4].join(",");
        let body = format!(
            r#"{{"inputs":[{{"name":"in","shape":[{rows},4],"datatype":"FP32","data":[{data}]}}]}}"#
        );
        let path = "/v2/models/passthrough_f32/infer";
        let headers = [("Accept-Encoding", accepted)];
        send(server, "POST", path, &headers, body.as_bytes())
    };
    let plain = ask("gzip, deflate", 100);
    assert_eq!(plain.header("content-encoding"), None);
    assert_eq!(ask("gzip;q=0", 100).header("content-encoding"), None);
    let packed = ask("GZIP", 100);
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    let mut expanded = Vec::new();
    GzDecoder::new(&packed.body[..])
        .read_to_end(&mut expanded)
        .unwrap();
    assert_eq!(expanded, plain.body);
    // What fits in one packet is not worth it.
    let small = ask("gzip", 1);
    assert_eq!(small.status, 200);
    assert_eq!(small.header("content-encoding"), None);
}

#[test]
fn a_chunked_body_is_read() {
    let server = Server::shared("dummy");
    let mut stream = connect(server);
    let head = format!("POST {INFER} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
    let (first, second) = BODY.split_at(7);
    let mut body = Vec::new();
    for chunk in [first, second, b""] {
        write!(body, "{:x}\r\n", chunk.len()).unwrap();
        body.extend_from_slice(chunk);
        body.extend_from_slice(b"\r\n");
    }
    assert_eq!(exchange(&mut stream, &head, &body).status, 200);
}

#[test]
fn requests_sent_without_waiting_are_answered_in_order() {
    let mut stream = connect(Server::shared("dummy"));
    let ready = head("GET", "/v2/health/ready", 0, &[]);
    let last = "GET /nothing HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    let infer = head("POST", INFER, BODY.len(), &[]).into_bytes();
    let all = [ready.as_bytes(), &infer, BODY, last.as_bytes()].concat();
    stream.write_all(&all).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    let statuses: Vec<&str> = answers
        .split("HTTP/1.1 ")
        .skip(1)
        .map(|answer| &answer[..3])
        .collect();
    assert_eq!(statuses, ["200", "200", "404"]);
}
