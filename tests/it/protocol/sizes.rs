//! Messages and bodies above `--max-message-size`, compressed and expanded.

use std::{io::Write as _, sync::LazyLock};

use tonic::codec::CompressionEncoding;

use crate::support::{
    Server,
    grpc::{Grpc, error, raw},
    http::{connect, exchange, head, post, read},
    pipelines::Config,
};

const INFER: &str = "/v2/models/dummy/infer";

/// A server with a limit above the size of a valid request for `dummy`.
pub(crate) static LIMITED: LazyLock<Server> = LazyLock::new(|| {
    Config::of(&["dummy", "two_outputs"]).serve_kept(&["--max_message_size", "1000"])
});

#[test]
fn a_grpc_message_above_the_limit_is_refused() {
    let grpc = Grpc::connect(&LIMITED);
    let large = raw("dummy", "b", "FP32", &[1, 250], &[0; 1000]);
    insta::assert_snapshot!(grpc.refused(large), @"ResourceExhausted: Error, decoded message length too large: found 1026 bytes, the limit is: 1000 bytes; see --max-message-size");
    grpc.check_serves();
}

#[test]
fn a_grpc_message_that_expands_above_the_limit_is_refused() {
    let grpc = Grpc::connect(&LIMITED);
    let mut client = grpc
        .client
        .clone()
        .send_compressed(CompressionEncoding::Gzip);
    let bomb = raw("dummy", "b", "FP32", &[1, 10_000], &[0; 40_000]);
    let status = grpc.wait(client.model_infer(bomb)).unwrap_err();
    insta::assert_snapshot!(error(&status), @"ResourceExhausted: request body is larger than 1000 bytes; see --max-message-size");
    grpc.check_serves();
}

#[test]
fn a_grpc_answer_above_the_limit_is_refused() {
    let grpc = Grpc::connect(&LIMITED);
    let ask = |rows: u8| {
        let data = vec![0; usize::from(rows) * 16];
        raw("two_outputs", "x", "FP32", &[rows.into(), 4], &data)
    };
    // 20 bytes come back for each 16.
    insta::assert_snapshot!(grpc.refused(ask(55)), @"ResourceExhausted: Error, encoded message length too large: found 1159 bytes, the limit is: 1000 bytes; see --max-message-size");
    grpc.answered(ask(40));
}

#[test]
fn a_body_above_the_limit_is_refused() {
    let answer = post(&LIMITED, INFER, &[b' '; 1001]);
    insta::assert_snapshot!(answer.error(), @"413: request body is larger than 1000 bytes; see --max-message-size");
    Grpc::connect(&LIMITED).check_serves();
}

#[test]
fn a_body_that_is_announced_above_the_limit_is_refused_before_it_is_sent() {
    let server = Server::shared("dummy");
    let announced = head("POST", INFER, 1 << 40, &[]);
    let answer = exchange(&mut connect(server), &announced, b"");
    assert_eq!(answer.status, 413);
    Grpc::connect(server).check_serves();
}

#[test]
fn a_client_that_asks_before_it_sends_too_much_is_refused_at_once() {
    let mut stream = connect(&LIMITED);
    let headers = [("Expect", "100-continue"), ("Connection", "close")];
    let head = head("POST", INFER, 1001, &headers);
    stream.write_all(head.as_bytes()).unwrap();
    insta::assert_snapshot!(read(&mut stream).error(), @"413: request body is larger than 1000 bytes; see --max-message-size");
}

#[test]
fn a_body_of_unknown_length_is_refused_at_the_limit() {
    let head = format!("POST {INFER} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
    // The end of the body is never sent.
    let body = format!("{:x}\r\n{}\r\n", 1001, " ".repeat(1001));
    let answer = exchange(&mut connect(&LIMITED), &head, body.as_bytes());
    assert_eq!(answer.status, 413);
    Grpc::connect(&LIMITED).check_serves();
}
