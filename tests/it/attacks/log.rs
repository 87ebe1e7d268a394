//! Clients that would fill the log.

use super::http2::{ACK, END_STREAM, HEADERS, Http2, INFER, PING, RST_STREAM, frame};
use crate::support::{
    Server,
    grpc::{Grpc, dummy},
};

#[test]
fn frames_that_make_no_sense_leave_no_line_each() {
    let server = Server::start("dummy");
    let mut attacker = Http2::connect(&server, &[]);
    // Answers to questions that nobody has asked.
    attacker.send(&frame(PING, ACK, 0, &[9; 8]).repeat(1000));
    let stream = attacker.call(INFER, &dummy());
    attacker.until("the answer", |frame| {
        frame.stream == stream && frame.kind == HEADERS && frame.flags & END_STREAM != 0
    });
    // Calls that are taken back as soon as they are made, until the server has had enough.
    for _ in 0..2000 {
        let stream = attacker.open(INFER);
        attacker.frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    }
    attacker.until_closed(|_| {});
    for _ in 0..20 {
        let mut again = Http2::connect(&server, &[]);
        again.frame(HEADERS, 0, 0, b"no stream");
        again.until_closed(|_| {});
    }
    Grpc::connect(&server).check_serves();
    let warnings = server.log().matches(" WARN ").count();
    assert!(warnings <= 1, "{}", server.log());
}
