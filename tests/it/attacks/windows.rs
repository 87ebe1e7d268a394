//! Responses that are never read: closed windows, and sockets that are not read.

use std::{
    io::{Read as _, Write as _},
    sync::LazyLock,
    thread::sleep,
    time::Duration,
};

use flate2::{Compression, write::GzEncoder};
use ovms::proto::kserve::ModelInferRequest;
use serde_json::json;

use super::{
    http2::{
        DATA, END_STREAM, GOAWAY, HEADERS, Http2, INFER, INITIAL_WINDOW_SIZE, PING, RST_STREAM,
        STREAM_INFER, WINDOW_UPDATE, framed, head, header,
    },
    memory::Growth,
};
use crate::support::{
    Server, busy, eventually,
    grpc::{Grpc, dummy, raw},
    http::{connect, get},
    model,
    pipelines::Config,
};

/// A server that gives a client that reads nothing one second.
static IMPATIENT: LazyLock<Server> = LazyLock::new(|| {
    let mut config = Config::of(&["dummy", "passthrough_u8"]);
    let busy = config.model("busy", &model("busy"));
    busy["plugin_config"] = serde_json::from_str(busy::PLUGIN_CONFIG).unwrap();
    busy["nireq"] = json!(1);
    config.serve_kept(&["--write_timeout_seconds=1"])
});

/// Length of a response of more than one frame; a hundred such requests fit a connection's window.
const PIECES: usize = 70_000;

/// Returns a request for a response of a number of bytes.
fn large(bytes: usize) -> ModelInferRequest {
    let length = bytes.try_into().expect("it is small");
    raw(
        "passthrough_u8",
        "in",
        "UINT8",
        &[1, length],
        &vec![7; bytes],
    )
}

#[test]
fn streams_whose_windows_stay_shut_are_reset_whatever_else_the_client_sends() {
    let mut attacker = Http2::connect(&IMPATIENT, &[(INITIAL_WINDOW_SIZE, 0)]);
    let streams: Vec<u32> = (0..100)
        .map(|_| attacker.call(INFER, &large(PIECES)))
        .collect();
    let mut reset = Vec::new();
    let mut answered = 0;
    attacker.ping();
    while reset.len() < streams.len() {
        let frame = attacker.read().expect("the connection goes on");
        match frame.kind {
            RST_STREAM => reset.push(frame.stream),
            HEADERS => answered += 1,
            DATA => assert!(frame.payload.is_empty(), "the window is shut"),
            // What keeps a connection alive, and moves no answer. More at a time would fill the socket.
            PING => {
                attacker.ping();
                attacker.say(&[(INITIAL_WINDOW_SIZE, 0)]);
            }
            _ => {}
        }
    }
    assert_eq!(answered, streams.len());
    reset.sort_unstable();
    assert_eq!(reset, streams);
    // The connection itself has done no wrong, and others neither.
    attacker.say(&[(INITIAL_WINDOW_SIZE, 1 << 20)]);
    let good = attacker.call(INFER, &large(PIECES));
    attacker.frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 20).to_be_bytes());
    let ends = |frame: &super::http2::Frame| {
        frame.stream == good && frame.kind == HEADERS && frame.flags & END_STREAM != 0
    };
    attacker.until("the answer", ends);
    let grpc = Grpc::connect(&IMPATIENT);
    let answer = grpc.answered(large(PIECES));
    assert_eq!(answer.raw_output_contents[0].len(), PIECES);
}

#[test]
fn answers_that_nobody_takes_count() {
    /// Length of the expanded message and of the response, for a compressed message of 1 or 2 KB.
    const LENGTH: usize = 3 << 19;
    /// Budget of a container of 2 GiB. Buffers of that length leave tens of megabytes with the
    /// allocator, whatever the budget.
    const LARGER: usize = 512 << 20;
    let flag = format!("--max_bytes_in_flight={LARGER}");
    // All requests come before the first that was held is given up, on a slow machine too.
    let server = Server::start_with("passthrough_u8", &[&flag, "--write_timeout_seconds=20"]);
    let grpc = Grpc::connect(&server);
    grpc.answered(large(PIECES));
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder
        .write_all(&framed(&large(LENGTH))[5..])
        .expect("a Vec takes it");
    let packed = encoder.finish().expect("a Vec takes it");
    assert!(packed.len() < 4000);
    let mut message = vec![1];
    message.extend(
        u32::try_from(packed.len())
            .expect("it is short")
            .to_be_bytes(),
    );
    message.extend(packed);
    let mut call = head(INFER);
    header(&mut call, "grpc-encoding", "gzip");
    let growth = Growth::of(&server);
    // 20 connections with 100 answers of 1.5 MB are 3 GB.
    let mut attackers: Vec<Http2> = (0..20)
        .map(|_| Http2::connect(&server, &[(INITIAL_WINDOW_SIZE, 0)]))
        .collect();
    let (mut held, mut refused) = (0, 0);
    for attacker in &mut attackers {
        for _ in 0..100 {
            let stream = attacker.open_with(&call);
            attacker.frame(DATA, END_STREAM, stream, &message);
        }
        for _ in 0..100 {
            let head = attacker.until("a head", |frame| frame.kind == HEADERS);
            match head.flags & END_STREAM {
                0 => held += 1,
                _ => refused += 1,
            }
        }
    }
    assert!(held > 5 && refused > 1500, "{held} and {refused}");
    growth.check_for(LARGER);
    eventually("there is room again", || grpc.infer(large(PIECES)).ok());
    growth.check_for(LARGER);
    drop(attackers);
}

#[test]
fn a_window_that_opens_in_time_gets_all_of_an_answer() {
    let mut slow = Http2::connect(&IMPATIENT, &[(INITIAL_WINDOW_SIZE, 0)]);
    let stream = slow.call(INFER, &large(300_000));
    let mut received = 0;
    // Pauses of more than the limit in all, and each well within it.
    for _ in 0..10 {
        sleep(Duration::from_millis(200));
        let more = 35_000_u32.to_be_bytes();
        slow.frame(WINDOW_UPDATE, 0, stream, &more);
        slow.frame(WINDOW_UPDATE, 0, 0, &more);
    }
    loop {
        let frame = slow.read().expect("the connection goes on");
        match frame.kind {
            DATA => received += frame.payload.len(),
            HEADERS if frame.flags & END_STREAM != 0 => break,
            kind => assert_ne!(kind, RST_STREAM),
        }
    }
    assert!(received > 300_000, "{received}");
}

#[test]
fn a_connection_whose_answers_only_h2_holds_is_closed() {
    // One byte is enough for all of a small answer to be handed on.
    let mut attacker = Http2::connect(&IMPATIENT, &[(INITIAL_WINDOW_SIZE, 1)]);
    for _ in 0..100 {
        attacker.call(INFER, &dummy());
    }
    let (took, frames) = attacker.until_closed(Http2::ping);
    assert!(took >= Duration::from_millis(900), "{took:?}");
    assert!(frames.iter().any(|frame| frame.kind == DATA));
    Grpc::connect(&IMPATIENT).check_serves();
}

#[test]
fn other_streams_of_such_a_connection_have_time_to_end() {
    let mut mixed = Http2::connect(&IMPATIENT, &[(INITIAL_WINDOW_SIZE, 1)]);
    mixed.call(INFER, &busy::request(1));
    let goes_on = mixed.open(STREAM_INFER);
    mixed.until("a notice", |frame| frame.kind == GOAWAY);
    // Not closed with it: this one still gets what it asks for.
    let more = 1_000_000_u32.to_be_bytes();
    mixed.frame(WINDOW_UPDATE, 0, goes_on, &more);
    mixed.frame(DATA, END_STREAM, goes_on, &framed(&busy::request(1)));
    mixed.until("its answer", |frame| {
        frame.kind == DATA && frame.stream == goes_on && frame.payload.len() > 100
    });
}

#[test]
fn inferences_and_streams_between_messages_are_not_stuck() {
    let limits = ["--write_timeout_seconds=1", "--idle_timeout_seconds=1"];
    let server = busy::serve(&limits);
    let grpc = Grpc::connect(&server);
    let mut talk = Http2::connect(&server, &[]);
    let stream = talk.open(STREAM_INFER);
    talk.frame(DATA, 0, stream, &framed(&busy::request(1)));
    let is_answer = |frame: &super::http2::Frame| frame.kind == DATA && frame.payload.len() > 100;
    talk.until("the first answer", is_answer);
    // Longer than either limit: the inference, and the pause of the stream meanwhile.
    let steps = 2 * busy::SECONDS;
    busy::check(steps, &grpc.infer(busy::request(steps)));
    talk.frame(DATA, END_STREAM, stream, &framed(&busy::request(1)));
    talk.until("the second answer", is_answer);
}

#[test]
fn an_http_1_client_that_reads_nothing_is_let_go() {
    let mut attacker = connect(&IMPATIENT);
    let pause = Some(Duration::from_millis(300));
    attacker.set_write_timeout(pause).expect("it takes one");
    // One behind the other, until nothing more goes either way.
    let request = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n".repeat(1000);
    let mut sent = 0;
    while attacker.write_all(&request).is_ok() {
        sent += request.len();
        assert!(sent < 1 << 28, "the server reads without end");
    }
    eventually("the connection is closed", || {
        (attacker.write(b"G").is_err_and(|error| {
            matches!(
                error.kind(),
                std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::ConnectionReset
            )
        }))
        .then_some(())
    });
    drop(attacker.read(&mut [0]));
    assert_eq!(get(&IMPATIENT, "/v2/health/ready").status, 200);
}
