//! TensorFlow Serving over REST: paths, status, metadata, and predictions in both formats.

use std::io::{Read as _, Write as _};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};

use super::sizes::LIMITED;
use crate::support::{
    Server,
    http::{post, send},
};

const PREDICT: &str = "/v1/models/dummy:predict";

/// A valid request for the model `dummy`.
const BODY: &[u8] = br#"{"instances":[[0,1,2,3,4,5,6,7,8,9]]}"#;

/// Response to [`BODY`].
const ANSWER: &str = r#"{"predictions":[[1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0,10.0]]}"#;

#[test]
fn deep_nesting_and_ten_thousand_inputs_are_answered() {
    let server = Server::shared("dummy");
    let deep = format!(
        r#"{{"inputs":{}{}}}"#,
        "[".repeat(1_000_000),
        "]".repeat(1_000_000)
    );
    insta::assert_snapshot!(post(server, PREDICT, deep.as_bytes()).error(), @r#"400: Could not parse input content. Not valid ndarray detected - recursion limit exceeded"#);
    let many: Vec<String> = (0..10_000)
        .map(|number| format!(r#""n{number}":[[1]]"#))
        .collect();
    let body = format!(r#"{{"inputs":{{{}}}}}"#, many.join(","));
    insta::assert_snapshot!(post(server, PREDICT, body.as_bytes()).error(), @r#"400: Invalid number of inputs - Expected: 1; Actual: 10000; the model has: b"#);
    assert_eq!(post(server, PREDICT, BODY).text(), ANSWER);
}

#[test]
fn a_large_tensor_is_read_in_either_format() {
    let server = Server::shared("fullsize");
    let line = format!("[{}]", vec!["0.25"; 224].join(","));
    let plane = format!("[{}]", vec![line; 224].join(","));
    let image = format!("[{}]", vec![plane; 3].join(","));
    for (key, answer) in [
        ("instances", r#"{"predictions":[[0.25,0.25,0.25]]}"#),
        ("inputs", r#"{"outputs":[[0.25,0.25,0.25]]}"#),
    ] {
        let body = format!(r#"{{"{key}":[{image}]}}"#);
        assert_eq!(
            post(server, "/v1/models/fullsize:predict", body.as_bytes()).text(),
            answer
        );
    }
}

#[test]
fn bodies_may_be_compressed_both_ways() {
    let server = Server::shared("dummy");
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(BODY).unwrap();
    let packed = encoder.finish().unwrap();
    let headers = [("Content-Encoding", "gzip"), ("Accept-Encoding", "gzip")];
    let answer = send(server, "POST", PREDICT, &headers, &packed);
    assert_eq!(answer.text(), ANSWER, "too small to be packed");
    let large = Server::shared("passthrough_f32");
    let rows = vec!["[0.25,0.5,0.75,1.0]"; 200].join(",");
    let body = format!(r#"{{"inputs":[{rows}]}}"#);
    let path = "/v1/models/passthrough_f32:predict";
    let plain = post(large, path, body.as_bytes());
    let answer = send(large, "POST", path, &headers[1..], body.as_bytes());
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    let mut text = String::new();
    GzDecoder::new(&answer.body[..])
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, plain.text());
    let refused = send(server, "POST", PREDICT, &[("Content-Encoding", "br")], BODY);
    assert_eq!(refused.status, 400);
}

#[test]
fn a_body_above_the_limit_is_refused() {
    let body = [BODY, &[b' '; 1000]].concat();
    assert_eq!(post(&LIMITED, PREDICT, &body).status, 413);
    assert_eq!(post(&LIMITED, PREDICT, BODY).text(), ANSWER);
}
