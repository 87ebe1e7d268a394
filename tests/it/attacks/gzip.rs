//! Bodies of some kilobytes that expand to hundreds of megabytes.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};

use super::{
    http2::{DATA, END_STREAM, HEADERS, Http2, INFER, STREAM_INFER, head, header},
    memory::{Growth, WITH_BUDGET},
    small,
};
use crate::support::{
    Server,
    grpc::{Grpc, dummy},
    http::{get, send},
    thread,
};

const PREDICT: &str = "/tensorflow.serving.PredictionService/Predict";

/// Returns 200 MB of zeros, compressed.
fn bomb() -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    for _ in 0..200 {
        encoder
            .write_all(&vec![0; 1 << 20])
            .expect("a Vec takes it");
    }
    encoder.finish().expect("a Vec takes it")
}

#[test]
fn compressed_messages_are_counted_while_they_expand() {
    let server = Server::start_with("dummy", &[WITH_BUDGET]);
    let bomb = bomb();
    assert!(bomb.len() < 300_000);
    Grpc::connect(&server).check_serves();
    let growth = Growth::of(&server);
    for path in [INFER, PREDICT, STREAM_INFER] {
        let attackers: Vec<_> = (0..8)
            .map(|_| {
                let mut connection = Http2::connect(&server, &[]);
                let mut block = head(path);
                header(&mut block, "grpc-encoding", "gzip");
                let stream = connection.open_with(&block);
                let length = u32::try_from(bomb.len()).expect("it is short");
                let mut message = vec![1];
                message.extend(length.to_be_bytes());
                message.extend(&bomb);
                for (index, piece) in message.chunks(16 << 10).enumerate() {
                    let is_last = (index + 1) * (16 << 10) >= message.len();
                    let flags = if is_last { END_STREAM } else { 0 };
                    connection.frame(DATA, flags, stream, piece);
                }
                thread(move || {
                    let end = connection.until("an answer", |frame| {
                        frame.kind == HEADERS && frame.flags & END_STREAM != 0
                    });
                    String::from_utf8_lossy(&end.payload).into_owned()
                })
            })
            .collect();
        for attacker in attackers {
            // Names and texts of headers are not in the table, so that they can be read; numbers may be.
            let end = attacker.join().unwrap();
            assert!(!end.is_empty());
        }
        Grpc::connect(&server).check_serves();
    }
    growth.check();
    let refused = send(
        &server,
        "POST",
        "/v2/models/dummy/infer",
        &[("Content-Encoding", "gzip")],
        &bomb,
    );
    insta::assert_snapshot!(refused.error(), @"413: Request is too large - it needs more than 67108864 bytes, which is the most for all requests and answers in flight; send less at once, or raise --max-bytes-in-flight");
    growth.check();
    assert_eq!(get(&server, "/v2/health/ready").status, 200);
}

#[test]
fn a_compressed_call_above_the_budget_is_reported_so() {
    let server = small();
    let grpc = Grpc::connect(&server);
    let mut large = dummy();
    large.raw_input_contents[0] = vec![0; 5_000_000].into();
    let mut client = grpc
        .client
        .clone()
        .send_compressed(tonic::codec::CompressionEncoding::Gzip);
    let status = grpc
        .wait(async move { client.model_infer(large).await })
        .unwrap_err();
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    insta::assert_snapshot!(status.message(), @"Request is too large - it needs more than 4000000 bytes, which is the most for all requests and answers in flight; send less at once, or raise --max-bytes-in-flight");
    grpc.check_serves();
}
