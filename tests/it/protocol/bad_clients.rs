//! Clients that disconnect, stall, or use another protocol: others are still served.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::TcpStream,
    sync::LazyLock,
    thread::sleep,
    time::{Duration, Instant},
};

use ovms::proto::kserve::{ModelInferRequest, ModelInferResponse, ServerLiveRequest};
use tonic_prost::ProstCodec;

use crate::support::{
    Server, busy, eventually,
    grpc::{Grpc, error},
    http::{JSON_LENGTH, connect, exchange, get, head, read},
};

const INFER: &str = "/v2/models/dummy/infer";

/// A server with the minimum read timeout.
static IMPATIENT: LazyLock<Server> =
    LazyLock::new(|| Server::start_with("dummy", &["--read_timeout_seconds=1"]).kept(None));

/// A valid request for the model `dummy`.
const BODY: &[u8] =
    br#"{"inputs":[{"name":"b","shape":[1,10],"datatype":"FP32","data":[0,1,2,3,4,5,6,7,8,9]}]}"#;

#[test]
fn a_connection_between_requests_has_no_limit_of_a_head() {
    let mut stream = connect(&IMPATIENT);
    let live = head("GET", "/v2/health/live", 0, &[]);
    // Requests one after the other for longer than the limit, and then none.
    for pause in [400, 400, 400, 400, 1600] {
        assert_eq!(exchange(&mut stream, &live, b"").status, 200);
        sleep(Duration::from_millis(pause));
    }
    assert_eq!(exchange(&mut stream, &live, b"").status, 200);
    // The same after bodies: that nothing happens has no condition to wait for.
    let infer = head("POST", INFER, BODY.len(), &[]);
    assert_eq!(exchange(&mut stream, &infer, BODY).status, 200);
    assert_eq!(exchange(&mut stream, &infer, BODY).status, 200);
    sleep(Duration::from_millis(1500));
    assert_eq!(exchange(&mut stream, &infer, BODY).status, 200);
}

#[test]
fn a_client_that_leaves_within_a_body_is_forgotten() {
    let server = Server::shared("dummy");
    for _ in 0..10 {
        let mut stream = connect(server);
        let half = head("POST", INFER, 1000, &[]) + r#"{"inputs":["#;
        stream.write_all(half.as_bytes()).unwrap();
    }
    Grpc::connect(server).check_serves();
    assert_eq!(get(server, "/v2/health/ready").status, 200);
}

#[test]
fn the_slot_of_a_client_that_leaves_comes_back() {
    let server = busy::without_queue();
    let grpc = Grpc::connect(&server);
    drop(busy::running(&server, &grpc, busy::SECONDS));
    // Others are served meanwhile.
    grpc.wait(grpc.client.clone().server_live(ServerLiveRequest {}))
        .unwrap();
    let other = grpc.infer(busy::request(1)).unwrap_err();
    assert_eq!(
        other.code(),
        tonic::Code::Unavailable,
        "the run goes on to its end"
    );
    let answer = eventually("the slot is free", || grpc.infer(busy::request(1)).ok());
    busy::check(1, &Ok(answer));

    let before = server.processor_time();
    let (length, body) = busy::body(busy::SECONDS);
    let mut stream = connect(&server);
    let head = head(
        "POST",
        "/v2/models/busy/infer",
        body.len(),
        &[(JSON_LENGTH, &length)],
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&body).unwrap();
    busy::wait_running(&server, before);
    drop(stream);
    let answer = eventually("the slot is free", || grpc.infer(busy::request(1)).ok());
    busy::check(1, &Ok(answer));
}

#[test]
fn a_head_that_stalls_is_given_up() {
    let mut stream = connect(&IMPATIENT);
    stream.write_all(b"GET /v2 HTTP/1.1\r\nHost").unwrap();
    Grpc::connect(&IMPATIENT).check_serves();
    assert_eq!(get(&IMPATIENT, "/v2/health/live").status, 200);
    assert_closed(&mut stream);
}

#[test]
fn a_head_that_trickles_is_given_up() {
    let mut stream = connect(&IMPATIENT);
    let started = Instant::now();
    for byte in b"GET /v2 HTTP/1.1\r\nHost: a\r\nX: ".iter().cycle() {
        // A byte at a time, each well within the limit.
        sleep(Duration::from_millis(100));
        if stream.write_all(&[*byte]).is_err() {
            break;
        }
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "the server is patient without end"
        );
    }
    Grpc::connect(&IMPATIENT).check_serves();
}

#[test]
fn a_body_that_stalls_is_given_up_and_answered() {
    let mut stream = connect(&IMPATIENT);
    let half = head("POST", INFER, 1000, &[]) + r#"{"inputs":["#;
    stream.write_all(half.as_bytes()).unwrap();
    Grpc::connect(&IMPATIENT).check_serves();
    let answer = read(&mut stream);
    insta::assert_snapshot!(answer.error(), @"504: request body stopped coming for 1 s; see --read-timeout-seconds");
    assert_eq!(answer.header("connection"), Some("close"));
}

#[test]
fn a_grpc_connection_that_says_nothing_is_closed() {
    for beginning in [&b""[..], b"PRI * HTTP/2.0\r\n"] {
        let mut stream = connect_grpc(&IMPATIENT);
        stream.write_all(beginning).unwrap();
        Grpc::connect(&IMPATIENT).check_serves();
        assert_closed(&mut stream);
    }
}

#[test]
fn a_grpc_message_that_stalls_is_given_up_and_answered() {
    let grpc = Grpc::connect(&IMPATIENT);
    let status = grpc.runtime.block_on(async {
        let mut client = tonic::client::Grpc::new(grpc.channel.clone());
        client.ready().await.expect("the server listens");
        let path = "/inference.GRPCInferenceService/ModelInfer"
            .parse()
            .unwrap();
        let codec = ProstCodec::<ModelInferRequest, ModelInferResponse>::default();
        let nothing = tonic::Request::new(futures::stream::pending());
        client
            .client_streaming(nothing, path, codec)
            .await
            .expect_err("nothing was sent")
    });
    insta::assert_snapshot!(error(&status), @"DeadlineExceeded: request body stopped coming for 1 s; see --read-timeout-seconds");
    grpc.check_serves();
}

#[test]
fn a_grpc_connection_stays_open_between_requests_for_as_long_as_its_client_likes() {
    let grpc = Grpc::connect(&IMPATIENT);
    grpc.check_serves();
    // Longer than a request may pause: that nothing happens has no condition to wait for.
    sleep(Duration::from_millis(1500));
    grpc.check_serves();
}

#[test]
fn what_is_no_http_2_on_the_grpc_port_is_refused() {
    let server = Server::shared("dummy");
    for bytes in [
        &b"GET /v2/health/live HTTP/1.1\r\nHost: test\r\n\r\n"[..],
        // A preface, and then a frame longer than any may be.
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\x00\x00\x00\x00\x00\x00",
        &TLS_HELLO,
        &[0xa5; 4096],
    ] {
        let mut stream = connect_grpc(server);
        stream.write_all(bytes).unwrap();
        assert_closed(&mut stream);
    }
    Grpc::connect(server).check_serves();
}

#[test]
fn what_is_no_http_on_the_rest_port_is_refused() {
    let server = Server::shared("dummy");
    let endless_head = [&b"GET / HTTP/1.1\r\nX: "[..], &[b'x'; 1 << 20]].concat();
    for bytes in [&TLS_HELLO[..], &[0; 100], b"GET\r\n\r\n", &endless_head] {
        let mut stream = connect(server);
        // The server may close before it has read all.
        let _ = stream.write_all(bytes);
        assert_closed(&mut stream);
    }
    Grpc::connect(server).check_serves();
}

/// First bytes of a TLS ClientHello.
const TLS_HELLO: [u8; 16] = [
    0x16, 0x03, 0x01, 0x00, 0xf4, 0x01, 0x00, 0x00, 0xf0, 0x03, 0x03, 0x5c, 0x0d, 0x0a, 0x0d, 0x0a,
];

fn connect_grpc(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", server.port)).expect("the server listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .expect("sockets take limits");
    stream
}

/// Asserts that the server closes a connection, and ignores all bytes before.
fn assert_closed(stream: &mut TcpStream) {
    let mut buffer = [0; 1024];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
            Err(error) => panic!("the server keeps the connection open: {error}"),
        }
    }
}
