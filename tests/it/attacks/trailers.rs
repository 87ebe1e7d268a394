//! Header blocks, which cost far more than their bytes, and calls without limit.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, Frame, HEADER_TABLE_SIZE, HEADERS, Http2, INFER,
    INITIAL_WINDOW_SIZE, MAX_CONCURRENT_STREAMS, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE, RST_STREAM,
    STREAM_INFER, WINDOW_UPDATE, frame, framed, head, header,
};
use crate::support::{Server, grpc::Grpc, grpc::dummy, thread};

/// Returns a header block of a number of bytes.
fn block(bytes: usize) -> Vec<u8> {
    let mut block = Vec::new();
    while block.len() < bytes {
        header(&mut block, "x-attack", "0123456789abcdef");
    }
    block
}

fn setting(settings: &[(u16, u32)], name: u16) -> Option<u32> {
    let found = settings.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| *value)
}

/// Returns the number of refused calls, and of those accepted.
fn refused(server: &Server, calls: usize) -> (usize, usize) {
    let mut attacker = Http2::connect(server, &[]);
    for _ in 0..calls {
        attacker.open(STREAM_INFER);
    }
    attacker.ping();
    let mut refused = 0;
    // The answer to a ping comes behind all that came before it.
    loop {
        let frame = attacker.read().expect("the connection goes on");
        match frame.kind {
            RST_STREAM => {
                assert_eq!(frame.payload, 7_u32.to_be_bytes(), "REFUSED_STREAM");
                refused += 1;
            }
            super::http2::PING => break,
            _ => {}
        }
    }
    (refused, calls - refused)
}

#[test]
fn a_connection_has_a_bounded_number_of_streams() {
    let server = Server::shared("dummy");
    let settings = Http2::connect(server, &[]).settings;
    assert_eq!(setting(&settings, MAX_CONCURRENT_STREAMS), Some(128));
    assert_eq!(setting(&settings, MAX_HEADER_LIST_SIZE), Some(8192));
    // A tensor of 600 KB comes in one frame, without a wait.
    for name in [INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE] {
        assert_eq!(setting(&settings, name), Some(1 << 20), "{name}");
    }
    assert_eq!(refused(server, 200), (72, 128));
    Grpc::connect(server).check_serves();

    let argument = "--grpc_channel_arguments=grpc.max_concurrent_streams=3";
    // The flag of its own says more.
    let both = [
        "--grpc_max_concurrent_streams=3",
        "--grpc_channel_arguments=grpc.max_concurrent_streams=5",
    ];
    for flags in [&[argument][..], &both] {
        let server = Server::start_with("dummy", flags);
        let settings = Http2::connect(&server, &[]).settings;
        assert_eq!(setting(&settings, MAX_CONCURRENT_STREAMS), Some(3));
        assert_eq!(refused(&server, 10), (7, 3));
    }
}

#[test]
fn header_blocks_are_bounded() {
    let server = Server::shared("dummy");
    let mut attacker = Http2::connect(server, &[]);
    // Nobody reads trailers; what is beyond the bound of a list is not even kept.
    let stream = attacker.open(INFER);
    attacker.frame(DATA, 0, stream, &framed(&dummy()));
    let last = END_HEADERS | END_STREAM;
    attacker.frame(HEADERS, last, stream, &block(10_000));
    attacker.until("an answer", |frame| {
        frame.kind == DATA && frame.stream == stream
    });
    // A head that is too long is refused with its stream.
    let stream = attacker.open_with(&[head(INFER), block(10_000)].concat());
    attacker.until("a refusal", |frame| {
        frame.kind == RST_STREAM && frame.stream == stream
    });
    let good = attacker.call(INFER, &dummy());
    attacker.until("an answer", |frame| {
        frame.kind == DATA && frame.stream == good
    });
    // Far longer ones end the connection, known from their lengths however they are cut.
    let stream = attacker.open(INFER);
    attacker.frame(HEADERS, END_STREAM, stream, &block(16_000));
    for _ in 0..2 {
        attacker.frame(CONTINUATION, 0, stream, &block(16_000));
    }
    attacker.until_closed(|_| {});
    Grpc::connect(server).check_serves();
}

#[test]
fn others_are_served_beside_calls_with_long_trailers() {
    /// Time limit of a call on a machine that is busy with other tests.
    const SOON: Duration = Duration::from_secs(5);
    let server = Server::start("dummy");
    let until = Instant::now() + Duration::from_secs(3);
    let is_over = Arc::new(AtomicBool::new(false));
    let attackers: Vec<_> = (0..4)
        .map(|_| {
            let mut attacker = Http2::connect(&server, &[(HEADER_TABLE_SIZE, 4096)]);
            let is_over = Arc::clone(&is_over);
            thread(move || {
                let mut calls = 0;
                let mut stream = 1;
                while !is_over.load(Ordering::Relaxed) {
                    let mut wire = Vec::new();
                    for _ in 0..64 {
                        let last = END_HEADERS | END_STREAM;
                        wire.extend(frame(HEADERS, END_HEADERS, stream, &head(INFER)));
                        wire.extend(frame(DATA, 0, stream, &framed(&dummy())));
                        wire.extend(frame(HEADERS, last, stream, &block(10_000)));
                        stream += 2;
                        calls += 1;
                    }
                    // It takes the answers, and all of them before it goes on.
                    wire.extend(frame(WINDOW_UPDATE, 0, 0, &65_000_u32.to_be_bytes()));
                    attacker.send(&wire);
                    let mut missing = 64;
                    while missing > 0 {
                        let is_end = |frame: &Frame| {
                            frame.kind == RST_STREAM
                                || frame.kind == HEADERS && frame.flags & END_STREAM != 0
                        };
                        attacker.until("the end of a call", is_end);
                        missing -= 1;
                    }
                }
                calls
            })
        })
        .collect();
    let grpc = Grpc::connect(&server);
    let mut longest = Duration::ZERO;
    let mut served = 0;
    // A machine that is slow takes longer for so many.
    while served <= 10 || Instant::now() < until {
        let started = Instant::now();
        grpc.check_serves();
        longest = longest.max(started.elapsed());
        served += 1;
    }
    is_over.store(true, Ordering::Relaxed);
    let calls: usize = attackers.into_iter().map(|it| it.join().unwrap()).sum();
    assert!(longest < SOON, "{longest:?} beside {calls} calls");
    assert!(calls > 100, "{served} beside {calls}");
}
