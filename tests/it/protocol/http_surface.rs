//! Rules for every HTTP request: headers for browsers, methods, paths, addresses, versions of the
//! protocol.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::LazyLock,
    time::Duration,
};

use ovms::proto::kserve::ServerLiveRequest;

use crate::support::{
    Server, cli,
    grpc::{Grpc, dummy},
    http::{Answer, connect, exchange, get, head, post, read, send},
    model, repository,
    server::free_ports,
};

const INFER: &str = "/v2/models/dummy/infer";

/// A valid request for the model `dummy`.
const BODY: &[u8] =
    br#"{"inputs":[{"name":"b","shape":[1,10],"datatype":"FP32","data":[0,1,2,3,4,5,6,7,8,9]}]}"#;

/// A server with the flags of several tests, which do not touch one another.
static FLAGGED: LazyLock<Server> = LazyLock::new(|| {
    let folder = repository::folder();
    let key = folder.path().join("key");
    std::fs::write(&key, "secret \nsecond line\n").unwrap();
    let flags = [
        "--allow_credentials",
        "--allowed_origins=https://a.example, https://b.example",
        "--allowed_methods=",
        "--allowed_headers=Content-Type",
        "--api_key_file",
        key.to_str().unwrap(),
        "--grpc_channel_arguments=grpc.max_receive_message_length=30,grpc.lb_policy_name=x,grpc.max_connection_age_ms=300,grpc.max_concurrent_streams=3",
    ];
    Server::start_with("dummy", &flags).kept(Some(folder))
});

/// Returns the CORS headers of a response.
fn cors(answer: &Answer) -> String {
    let mut lines: Vec<String> = answer
        .headers
        .iter()
        .filter(|(name, _)| name.starts_with("access-control-"))
        .map(|(name, value)| format!("{name}: {value}\n"))
        .collect();
    lines.sort();
    lines.concat()
}

#[test]
fn every_answer_tells_browsers_what_they_may() {
    let server = Server::shared("dummy");
    let expected = "access-control-allow-headers: *\naccess-control-allow-methods: *\naccess-control-allow-origin: *\n";
    for (method, path, body) in [
        ("GET", "/v2", &b""[..]),
        ("HEAD", "/v2/health/live", b""),
        ("OPTIONS", INFER, b""),
        ("OPTIONS", "/nowhere", b""),
        ("POST", INFER, BODY),
        ("POST", INFER, b"{"),
        ("POST", "/v2", b""),
        ("GET", "/nowhere", b""),
        ("GET", "/v2/../x", b""),
        ("GET", "/v2/models/stranger", b""),
        ("GET", "/v3/models", b""),
    ] {
        let answer = send(server, method, path, &[], body);
        assert_eq!(cors(&answer), expected, "{method} {path}");
    }
    // What manages the server is not for pages of other origins.
    for path in ["/v1/config", "/metrics", "/", "/dashboard/state"] {
        assert_eq!(cors(&get(server, path)), "", "{path}");
    }
}

#[test]
fn the_flags_say_what_browsers_are_reported() {
    let expected = "access-control-allow-credentials: true\naccess-control-allow-headers: Content-Type\naccess-control-allow-origin: https://a.example, https://b.example\n";
    assert_eq!(cors(&get(&FLAGGED, "/v2")), expected);
    assert_eq!(cors(&get(&FLAGGED, "/nowhere")), expected);
}

#[test]
fn the_list_of_what_is_served() {
    let server = Server::shared("dummy");
    for (list, one) in [
        ("/v3/models", "/v3/models/dummy"),
        ("/v3/v1/models", "/v3/v1/models/dummy"),
    ] {
        let mut answer = get(server, list).json();
        let created = answer["data"][0]["created"].take();
        assert!(created.as_u64().unwrap() > 1_700_000_000);
        insta::allow_duplicates! {
            insta::assert_snapshot!(answer, @r#"{"data":[{"created":null,"id":"dummy","object":"model","owned_by":"OVMS"}],"object":"list"}"#);
        }
        let mut answer = get(server, one).json();
        answer["created"].take();
        insta::allow_duplicates! {
            insta::assert_snapshot!(answer, @r#"{"created":null,"id":"dummy","object":"model","owned_by":"OVMS"}"#);
        }
    }
}

#[test]
fn the_key_is_asked_for_only_of_those_who_send_something_to_v3() {
    let ask = |method: &str, path: &str, headers: &[(&str, &str)]| {
        send(&FLAGGED, method, path, headers, b"{}").error()
    };
    let chat = "/v3/chat/completions";
    let answers = [
        ask("POST", chat, &[]),
        ask("POST", chat, &[("Authorization", "Bearer wrong")]),
        ask("POST", chat, &[("Authorization", "Bearer secret")]),
        ask("GET", chat, &[]),
        ask("POST", "/v3/models", &[]),
        ask("PUT", "/v3/models", &[]),
    ];
    insta::assert_snapshot!(answers.join("\n"), @"
    401: Unauthorized request due to invalid or missing api-key
    401: Unauthorized request due to invalid or missing api-key
    404: Invalid request URL
    404: Invalid request URL
    401: Unauthorized request due to invalid or missing api-key
    405: Unsupported method
    ");
    for (method, path) in [
        ("POST", "/v3/models"),
        ("POST", "/v3/v1/models"),
        ("POST", "/v3/models/dummy"),
        ("DELETE", "/v3/v1/models/dummy"),
    ] {
        let key = [("Authorization", "Bearer secret")];
        let answer = send(&FLAGGED, method, path, &key, b"{}");
        assert_eq!(answer.error(), "405: Unsupported method", "{method} {path}");
        assert_eq!(answer.header("allow"), Some("GET, HEAD, OPTIONS"));
    }
    assert_eq!(get(&FLAGGED, "/v3/models").status, 200);
    assert_eq!(post(&FLAGGED, INFER, BODY).status, 200);
}

#[test]
fn heads_beyond_all_reason_are_refused() {
    let server = Server::shared("dummy");
    let long = "x".repeat(70_000);
    assert_eq!(get(server, &format!("/{long}")).status, 414);
    // The bound is the same one however the pieces of a head arrive.
    for _ in 0..20 {
        for (length, status) in [(409_000, 200), (410_000, 431), (500_000, 431)] {
            let value = "x".repeat(length);
            let answer = send(server, "GET", "/v2", &[("X", &value)], b"");
            assert_eq!(answer.status, status, "{length}");
        }
    }
    let many: Vec<(&str, &str)> = vec![("X", "y"); 200];
    assert_eq!(send(server, "GET", "/v2", &many, b"").status, 431);
    // What browsers and proxies send is no trouble.
    let value = "x".repeat(30_000);
    let path = format!("/v2?{value}");
    let answer = send(server, "GET", &path, &[("Cookie", &value)], b"");
    assert_eq!(answer.status, 200);
}

#[test]
fn older_clients_are_served() {
    let server = Server::shared("dummy");
    let mut stream = connect(server);
    stream
        .write_all(b"GET /v2/health/live HTTP/1.0\r\n\r\n")
        .unwrap();
    // Closed after the answer, as that version means it.
    assert_eq!(read(&mut stream).status, 200);
    let mut stream = connect(server);
    let head = format!(
        "POST {INFER} HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: {}\r\n\r\n",
        BODY.len()
    );
    assert_eq!(exchange(&mut stream, &head, BODY).status, 200);
    assert_eq!(exchange(&mut stream, &head, BODY).status, 200, "kept open");
}

#[test]
fn a_client_that_asks_before_it_sends_is_reported_to_go_on() {
    let server = Server::shared("dummy");
    let mut stream = connect(server);
    let head = head("POST", INFER, BODY.len(), &[("Expect", "100-continue")]);
    stream.write_all(head.as_bytes()).unwrap();
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(exchange(&mut stream, "", BODY).status, 200);
}

/// Starts a server on the given addresses.
fn on_addresses(addresses: &str) -> Server {
    let (port, rest_port) = free_ports();
    let mut command = cli::command();
    command
        .args(["serve", "--model_name", "dummy", "--model_path"])
        .arg(model("dummy"))
        .args([
            format!("--port={port}"),
            format!("--rest_port={rest_port}"),
            format!("--grpc_bind_address={addresses}"),
            format!("--rest_bind_address={addresses}"),
            "--access_log=-".to_owned(),
        ]);
    let server = Server::spawn(&mut command, (port, rest_port));
    server.wait_ready();
    server
}

fn answers(address: &str, port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect((address, port)) else {
        return false;
    };
    let request = b"GET /v2/health/live HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    stream.write_all(request).unwrap();
    read(&mut stream).status == 200
}

#[test]
fn both_families_are_served_on_one_port() {
    for addresses in [
        "0.0.0.0,::",
        "::,0.0.0.0",
        "::",
        "::,::1",
        "127.0.0.1,[::1]",
        "localhost,::1",
    ] {
        let server = on_addresses(addresses);
        assert!(answers("127.0.0.1", server.rest_port), "{addresses}");
        assert!(answers("::1", server.rest_port), "{addresses}");
        // Not as the address of IPv6 that stands for it.
        server.wait_log("Z 127.0.0.1:");
        assert!(
            TcpStream::connect(("::1", server.port)).is_ok(),
            "{addresses}"
        );
        Grpc::connect(&server).check_serves();
    }
}

#[test]
fn only_the_addresses_that_are_named_are_served() {
    let server = on_addresses("127.0.0.2, ::1");
    assert!(answers("127.0.0.2", server.rest_port));
    assert!(answers("::1", server.rest_port));
    assert!(!answers("127.0.0.1", server.rest_port));
}

#[test]
fn settings_of_the_grpc_library_are_taken_as_far_as_they_mean_something_here() {
    let grpc = Grpc::connect(&FLAGGED);
    let refused = grpc.infer(dummy()).unwrap_err();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    let line = FLAGGED.wait_log("grpc.lb_policy_name");
    assert!(
        line.ends_with("--grpc-channel-arguments: grpc.lb_policy_name has no effect"),
        "{line}"
    );
    // Sent a GOAWAY when it is old enough; the client's next call uses another one.
    let mut old = TcpStream::connect(("127.0.0.1", FLAGGED.port)).unwrap();
    let settings = [
        &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..],
        &[0, 0, 0, 4, 0, 0, 0, 0, 0],
    ]
    .concat();
    old.write_all(&settings).unwrap();
    old.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut has_streams = false;
    loop {
        let mut head = [0; 9];
        old.read_exact(&mut head).unwrap();
        // The type of the frame: 7 is GOAWAY, and 4 SETTINGS, of which 3 is that of streams (RFC 9113, 6).
        if head[3] == 7 {
            break;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        old.read_exact(&mut payload).unwrap();
        let mut settings = payload.chunks(6);
        has_streams |= head[3] == 4 && settings.any(|setting| setting == [0, 3, 0, 0, 0, 3]);
    }
    assert!(has_streams);
    let mut client = grpc.client.clone();
    let live = async move { client.server_live(ServerLiveRequest {}).await };
    assert!(grpc.wait(live).unwrap().live);
}
