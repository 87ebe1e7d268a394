//! One body or message that is nearly as large as the budget.

use super::{
    http2::{DATA, END_STREAM, HEADERS, Http2, INFER, framed},
    memory::{Growth, WITH_BUDGET},
};
use crate::support::{
    Server,
    grpc::{Grpc, raw},
    http::post,
};

/// What is left of the budget besides has room for what surrounds it.
const LENGTH: usize = 60_000_000;

#[test]
fn a_large_message_takes_its_size_once() {
    let server = Server::start_with("dummy", &[WITH_BUDGET]);
    Grpc::connect(&server).check_serves();
    let growth = Growth::of(&server);
    // Of the right form, and refused for its shape once it is decoded.
    let length = i64::try_from(LENGTH / 4).expect("it is small");
    let large = raw("dummy", "b", "FP32", &[1, length], &vec![0; LENGTH]);
    let message = framed(&large);
    let mut client = Http2::connect(&server, &[]);
    let stream = client.open(INFER);
    let pieces = message.chunks(16 << 10);
    let last = pieces.len() - 1;
    for (index, piece) in pieces.enumerate() {
        let flags = if index == last { END_STREAM } else { 0 };
        client.frame(DATA, flags, stream, piece);
        // Windows are for well-behaved clients; it reads what comes.
        if index % 32 == 31 {
            client.ping();
            client.until("an answer", |frame| frame.kind == super::http2::PING);
        }
    }
    client.until("a refusal", |frame| {
        frame.kind == HEADERS && frame.flags & END_STREAM != 0
    });
    growth.check();
    let answer = post(&server, "/v2/models/dummy/infer", &vec![b' '; LENGTH]);
    assert_eq!(answer.status, 400, "{}", answer.text());
    growth.check();
}
