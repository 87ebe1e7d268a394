//! Idle connections, and the release of their slots.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::TcpStream,
    process::Command,
    sync::LazyLock,
    time::{Duration, Instant},
};

use super::http2::{END_HEADERS, GOAWAY, HEADERS, Http2, INFER, STREAM_INFER, frame, head};
use crate::support::{
    Server, cli, eventually,
    grpc::{Grpc, dummy},
    http::{connect, exchange, get, head as http1_head, read_one},
    model,
    server::{free_ports, on},
};

const LIVE: &str = "/v2/health/live";

/// A server that closes what is idle for a second.
static IMPATIENT: LazyLock<Server> =
    LazyLock::new(|| Server::start_with("dummy", &["--idle_timeout_seconds=1"]).kept(None));

/// Waits until the server closes; discards all bytes before.
fn until_closed(stream: &mut TcpStream) {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
            Err(error) => panic!("the server keeps the connection open: {error}"),
        }
    }
}

#[test]
fn http_1_connections_are_closed_when_idle_in_any_state() {
    let request = http1_head("GET", LIVE, 0, &[]);
    let mut fresh = connect(&IMPATIENT);
    let mut half = connect(&IMPATIENT);
    half.write_all(&request.as_bytes()[..20]).unwrap();
    let mut used = connect(&IMPATIENT);
    assert_eq!(exchange(&mut used, &request, b"").status, 200);
    let mut begun = connect(&IMPATIENT);
    begun.write_all(request.as_bytes()).unwrap();
    begun.write_all(&request.as_bytes()[..20]).unwrap();
    for stream in [&mut fresh, &mut half, &mut used, &mut begun] {
        until_closed(stream);
    }
}

#[test]
fn http_2_connections_are_closed_when_idle_in_any_state() {
    let fresh = Http2::connect(&IMPATIENT, &[]);
    let mut used = Http2::connect(&IMPATIENT, &[]);
    used.call(INFER, &dummy());
    let mut half_block = Http2::connect(&IMPATIENT, &[]);
    half_block.frame(HEADERS, 0, 1, &head(INFER)[..20]);
    let mut half_frame = Http2::connect(&IMPATIENT, &[]);
    half_frame.send(&frame(HEADERS, END_HEADERS, 1, &head(INFER))[..20]);
    let mut open = Http2::connect(&IMPATIENT, &[]);
    let stream = open.open(STREAM_INFER);
    for mut idle in [fresh, used, half_block, half_frame] {
        let (_, frames) = idle.until_closed(|_| {});
        assert!(frames.iter().any(|frame| frame.kind == GOAWAY));
    }
    // Pings are no requests.
    let mut pings = Http2::connect(&IMPATIENT, &[]);
    pings.until_closed(Http2::ping);
    // All that while one stream was open, and that is a request.
    open.frame(super::http2::DATA, 1, stream, &[]);
    let end = open.until("its end", |frame| {
        frame.kind == HEADERS && frame.flags & super::http2::END_STREAM != 0
    });
    assert_eq!(end.stream, stream);
}

#[test]
fn idle_connections_make_room_for_probes_and_the_log_says_so_once() {
    let server = Server::start_with("dummy", &["--max_connections=64"]);
    let mut rest: Vec<TcpStream> = (0..100).map(|_| connect(&server)).collect();
    let grpc: Vec<Http2> = (0..100).map(|_| Http2::waiting(&server)).collect();
    let started = Instant::now();
    // Behind those that wait already.
    for _ in 0..20 {
        assert_eq!(get(&server, "/v2/health/ready").status, 200);
    }
    Grpc::connect(&server).check_serves();
    let took = started.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    // Attackers that come again make no more lines.
    rest.extend((0..100).map(|_| connect(&server)));
    assert_eq!(get(&server, LIVE).status, 200);
    let lines = |port: &str| {
        let text = format!("all 64 connections that the {port} port may have are open");
        server.log().matches(&text).count()
    };
    eventually("a line of each port", || {
        (lines("REST") >= 1 && lines("gRPC") >= 1).then_some(())
    });
    assert_eq!((lines("REST"), lines("gRPC")), (1, 1), "{}", server.log());
    drop((rest, grpc));
}

#[test]
fn addresses_of_a_port_have_their_places_together_and_connections_at_work_keep_theirs() {
    // Those that wait until it is ready have no more than two at a time.
    let flags = [
        "--max_connections=4",
        "--rest_bind_address=127.0.0.1,127.0.0.2",
    ];
    let server = Server::start_with("dummy", &flags);
    let body = http1_head("POST", "/v2/models/dummy/infer", 1000, &[]);
    let mut held: Vec<TcpStream> = (0..4).map(|_| connect(&server)).collect();
    for stream in &mut held {
        stream.write_all(body.as_bytes()).unwrap();
    }
    let mut other = TcpStream::connect(("127.0.0.2", server.rest_port)).unwrap();
    let limit = Some(Duration::from_secs(60));
    other.set_read_timeout(limit).unwrap();
    let live = http1_head("GET", LIVE, 0, &[]);
    other.write_all(live.as_bytes()).unwrap();
    server.wait_log("all 4 connections that the REST port may have are open");
    drop(held.pop());
    assert_eq!(read_one(&mut other).status, 200);
    drop(other);

    // Of each port, one place is left.
    let mut talks = [(); 3].map(|()| Http2::connect(&server, &[]));
    let streams = talks.each_mut().map(|talk| talk.open(STREAM_INFER));
    for _ in 0..8 {
        assert_eq!(get(&server, LIVE).status, 200);
        let mut idle = connect(&server);
        assert_eq!(exchange(&mut idle, &live, b"").status, 200);
        Grpc::connect(&server).check_serves();
    }
    for (talk, stream) in talks.iter_mut().zip(streams) {
        talk.frame(super::http2::DATA, 1, stream, &[]);
        talk.until("its end", |frame| {
            frame.kind == HEADERS && frame.stream == stream
        });
    }
    for half in &mut held {
        half.write_all(&[b' '; 1000]).unwrap();
        let mut status = [0; 12];
        half.read_exact(&mut status).unwrap();
        assert_eq!(&status, b"HTTP/1.1 412");
    }
}

#[test]
fn one_address_has_only_as_many_as_it_may() {
    let server = Server::start_with("dummy", &["--max_connections_per_address=3"]);
    let request = http1_head("GET", LIVE, 0, &[]);
    let mut mine: Vec<TcpStream> = (0..3).map(|_| connect(&server)).collect();
    for stream in &mut mine {
        assert_eq!(exchange(stream, &request, b"").status, 200);
    }
    for _ in 0..50 {
        until_closed(&mut connect(&server));
    }
    // Another address, and the other port, have places of their own.
    Grpc::connect(&server).check_serves();
    drop(mine.pop());
    eventually("the place is free", || {
        let mut again = connect(&server);
        again.write_all(request.as_bytes()).ok()?;
        let mut status = [0; 12];
        again.read_exact(&mut status).ok()?;
        (&status == b"HTTP/1.1 200").then_some(())
    });
    let line = "closed a REST connection of 127.0.0.1, which has as many open as one address may";
    server.wait_log(line);
    assert_eq!(server.log().matches(line).count(), 1, "{}", server.log());
}

#[test]
fn a_server_without_handles_says_so_once_and_recovers() {
    const HANDLES: &str = "ulimit -n 100; exec \"$@\"";
    let (ports, served) = (free_ports(), cli::command());
    let mut command = Command::new("sh");
    command
        .args(["-c", HANDLES, "sh"])
        .arg(served.get_program())
        .args(["serve", "--model_name", "dummy", "--model_path"])
        .arg(model("dummy"))
        .args(on(ports));
    let server = Server::spawn(&mut command, ports);
    server.wait_ready();
    let attackers: Vec<TcpStream> = (0..200).map(|_| connect(&server)).collect();
    let refused = "cannot accept a REST connection";
    server.wait_log(refused);
    // Twenty times a second it is tried again.
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(server.log().matches(refused).count(), 1);
    drop(attackers);
    assert_eq!(get(&server, LIVE).status, 200);
    Grpc::connect(&server).check_serves();
}
