//! Shutdown: no new requests, a response to those in flight, and an end within the time limit.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::process::ExitStatusExt as _,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use ovms::proto::kserve::ServerReadyRequest;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::support::{
    Server, busy, eventually,
    grpc::{Grpc, error},
    http::{connect, exchange, get, head, post},
    infer, thread,
};

/// Time limit of a shutdown with nothing to wait for, on a machine busy with other tests.
const SOON: Duration = Duration::from_secs(3);

#[test]
fn the_request_in_flight_is_answered_and_new_ones_are_refused() {
    let mut server = busy::serve(&[]);
    let grpc = Grpc::connect(&server);
    let runs = busy::running(&server, &grpc, busy::SECONDS);
    server.signal("TERM");
    server.wait_log("stopping");

    let ready = grpc.wait(grpc.client.clone().server_ready(ServerReadyRequest {}));
    assert!(!ready.unwrap().ready);
    assert_eq!(get(&server, "/v2/health/ready").status, 500);
    let health = grpc.wait(
        HealthClient::new(grpc.channel.clone()).check(HealthCheckRequest {
            service: String::new(),
        }),
    );
    assert_eq!(health.unwrap().status().as_str_name(), "NOT_SERVING");
    let refused = error(&grpc.infer(busy::request(1)).unwrap_err());
    insta::assert_snapshot!(refused, @"Unavailable: Server is shutting down");
    let body = br#"{"inputs":[{"name":"steps","shape":[1],"datatype":"INT64","data":[1]}]}"#;
    let refused = post(&server, "/v2/models/busy/infer", body).error();
    insta::assert_snapshot!(refused, @"503: Server is shutting down");

    assert!(!runs.is_answered());
    busy::check(busy::SECONDS, &runs.wait());
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
}

#[test]
fn a_second_signal_ends_at_once() {
    let mut server = busy::serve(&[]);
    let grpc = Grpc::connect(&server);
    let _runs = busy::running(&server, &grpc, busy::ENDLESS);
    server.signal("INT");
    server.wait_log("stopping");
    let started = Instant::now();
    server.signal("INT");
    let status = server.wait();
    assert_eq!(
        (status.code(), status.signal()),
        (Some(130), None),
        "{}",
        server.log()
    );
    assert!(started.elapsed() < SOON, "it took {:?}", started.elapsed());
}

#[test]
fn two_terms_together_are_one() {
    let mut server = busy::serve(&[]);
    let grpc = Grpc::connect(&server);
    let runs = busy::running(&server, &grpc, busy::SECONDS);
    // As `timeout` sends them: to the process, and to its group.
    let twice = "kill -s TERM $0; kill -s TERM $0";
    let sent = Command::new("sh")
        .args(["-c", twice, &server.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
    busy::check(busy::SECONDS, &runs.wait());
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
}

#[test]
fn requests_that_take_too_long_are_left() {
    let mut server = busy::serve(&["--shutdown_timeout_seconds", "1"]);
    let grpc = Grpc::connect(&server);
    let runs = busy::running(&server, &grpc, busy::ENDLESS);
    let started = Instant::now();
    server.signal("TERM");
    let status = server.wait();
    assert_eq!(
        (status.code(), status.signal()),
        (Some(0), None),
        "{}",
        server.log()
    );
    assert!(
        started.elapsed() < Duration::from_secs(3) + SOON,
        "it took {:?}",
        started.elapsed()
    );
    assert!(runs.wait().is_err());
    let log = server.wait_log("the shutdown timeout has passed");
    assert!(
        log.contains(" WARN ") && log.contains("requests=1"),
        "{log}"
    );
}

#[test]
fn clients_learn_that_the_connection_was_closed() {
    let flags = ["--shutdown_timeout_seconds=1", "--metrics_enable"];
    let mut server = busy::serve(&[&flags[..], &["--nireq", "2"]].concat());
    let steps = format!("steps=[{}]", busy::ENDLESS);
    let clients = infer::APIS.map(|api| {
        infer::command(&server, api)
            .args(["busy", "--random", "-i", &steps])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    });
    eventually("both requests are there", || {
        let page = get(&server, "/metrics").text();
        let line = "ovms_pending_requests 2";
        page.lines().any(|it| it == line).then_some(())
    });
    server.signal("TERM");
    server.wait();
    for (api, client) in infer::APIS.into_iter().zip(clients) {
        let port = infer::port(&server, api);
        let output = client.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(69), "{api}: {said}");
        let expected = format!(
            "error: the connection to 127.0.0.1:{port} was closed before the answer came\n"
        );
        assert!(said.starts_with(&expected), "{api}: {said}");
        assert!(
            said.contains("hint: has the server stopped"),
            "{api}: {said}"
        );
    }
}

#[test]
fn an_answer_that_is_being_sent_is_sent_to_its_end() {
    let mut server = Server::start("passthrough_f32");
    let rows = 4 << 20;
    let json = format!(
        r#"{{"inputs":[{{"name":"in","shape":[{rows},4],"datatype":"FP32","parameters":{{"binary_data_size":{}}}}}],"outputs":[{{"name":"out","parameters":{{"binary_data":true}}}}]}}"#,
        rows * 16
    );
    let length = json.len().to_string();
    let mut body = json.into_bytes();
    body.resize(body.len() + rows * 16, 0);
    let mut stream = connect(&server);
    let lines = [("Inference-Header-Content-Length", length.as_str())];
    let path = "/v2/models/passthrough_f32/infer";
    stream
        .write_all(head("POST", path, body.len(), &lines).as_bytes())
        .unwrap();
    stream.write_all(&body).unwrap();
    // The answer has begun, and is larger than all buffers between here and there.
    let mut start = [0; 15];
    stream.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 200 OK");
    server.signal("TERM");
    server.wait_log("waiting for the requests in flight");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.len() > rows * 16, "only {} bytes came", rest.len());
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
}

#[test]
fn a_request_that_comes_when_idle_connections_close_is_answered() {
    // There is a moment for it, which a thread of a busy machine may miss.
    let is_answered = (0..5).any(|_| {
        let mut server = Server::start("dummy");
        let mut used = connect(&server);
        exchange(&mut used, &head("GET", "/v2/health/live", 0, &[]), b"");
        server.signal("TERM");
        // Connections close from about when nothing listens any more.
        eventually("nothing listens", || {
            TcpStream::connect(("127.0.0.1", server.rest_port)).err()
        });
        let mut answer = Vec::new();
        let asked = used.write_all(head("GET", "/v2/health/ready", 0, &[]).as_bytes());
        let read = asked.and_then(|()| used.read_to_end(&mut answer));
        assert_eq!(server.wait().code(), Some(0), "{}", server.log());
        let answer = String::from_utf8_lossy(&answer).to_lowercase();
        read.is_ok() && answer.starts_with("http/1.1 500") && answer.contains("connection: close")
    });
    assert!(is_answered);
}

/// Asks over connections of its own until nothing listens; returns how often one was closed without an answer.
fn cut_connections(port: u16) -> usize {
    let request = head("GET", "/v2/health/ready", 0, &[]);
    let mut cut = 0;
    let begun = Instant::now();
    while let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "it still listens"
        );
        stream.set_read_timeout(Some(SOON)).unwrap();
        let mut status = [0; 12];
        let asked = stream.write_all(request.as_bytes());
        match asked.and_then(|()| stream.read_exact(&mut status)) {
            Ok(()) => assert_eq!(status[..9], *b"HTTP/1.1 "),
            Err(_) => cut += 1,
        }
    }
    cut
}

#[test]
fn connections_that_wait_when_the_server_stops_are_answered() {
    // One may come in the moment in which the port closes.
    let is_none_cut = (0..5).any(|_| {
        let mut server = Server::start("dummy");
        let port = server.rest_port;
        let clients: Vec<_> = (0..8)
            .map(|_| thread(move || cut_connections(port)))
            .collect();
        server.signal("TERM");
        let cut: usize = clients.into_iter().map(|it| it.join().unwrap()).sum();
        assert_eq!(server.wait().code(), Some(0), "{}", server.log());
        cut == 0
    });
    assert!(is_none_cut);
}

#[test]
fn idle_connections_do_not_hold_up_the_end_after_one_interrupt() {
    let mut server = Server::start("dummy");
    let grpc = Grpc::connect(&server);
    grpc.check_serves();
    let mut used = connect(&server);
    exchange(&mut used, &head("GET", "/v2", 0, &[]), b"");
    let mut unused = connect(&server);
    let mut halfway = connect(&server);
    halfway.write_all(b"GET /v2 HT").unwrap();
    let started = Instant::now();
    server.signal("INT");
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    assert!(started.elapsed() < SOON, "it took {:?}", started.elapsed());
    for stream in [&mut used, &mut unused] {
        assert_eq!(
            stream.read(&mut [0]).unwrap_or(0),
            0,
            "the connection is closed"
        );
    }
}
