//! A client that takes every slot of a port: the management port still answers.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::TcpStream,
    sync::LazyLock,
    time::Duration,
};

use tonic::Code;

use crate::support::{
    Server,
    grpc::Grpc,
    http::{Answer, connect, exchange, head, read, send},
    server::free_ports,
    wire::{self, Call},
};

/// Sends a request to the management port.
fn ask(port: u16, method: &str, path: &str) -> Answer {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let limit = Duration::from_secs(60);
    stream.set_read_timeout(Some(limit)).unwrap();
    exchange_whole(&mut stream, method, path)
}

fn exchange_whole(stream: &mut TcpStream, method: &str, path: &str) -> Answer {
    let mut head = head(method, path, 0, &[("Accept", "text/html")]);
    head.insert_str(head.len() - 2, "Connection: close\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    read(stream)
}

/// Number of connections that the REST port of [`MANAGED`] takes.
const PLACES: usize = 8;

/// A server with a management port, and that port. One test fills the REST port, and no other uses that.
static MANAGED: LazyLock<(Server, u16)> = LazyLock::new(|| {
    let port = free_ports().0;
    let flags = [
        "--metrics_enable",
        &format!("--management_port={port}"),
        &format!("--max_connections={PLACES}"),
    ];
    let server = Server::start_with("dummy", &flags);
    (server.kept(None), port)
});

#[test]
fn probes_are_answered_when_all_places_are_taken() {
    let (server, management) = (&MANAGED.0, MANAGED.1);
    let live = head("GET", "/v2/health/live", 0, &[]);
    // Each has been answered, so that it has a place.
    let mut taken: Vec<TcpStream> = (0..PLACES).map(|_| connect(server)).collect();
    for stream in &mut taken {
        assert_eq!(exchange(stream, &live, b"").status, 200);
    }
    let mut waits = connect(server);
    waits.write_all(live.as_bytes()).unwrap();

    for (method, path, status) in [
        ("GET", "/v2/health/live", 200),
        ("GET", "/v2/health/ready", 200),
        ("GET", "/v2/models/dummy/ready", 200),
        ("GET", "/v2/models/dummy/versions/1/ready", 200),
        ("GET", "/v1/models/dummy", 200),
        ("GET", "/v1/config", 200),
        ("POST", "/v1/config/reload", 200),
        ("GET", "/metrics", 200),
        ("GET", "/", 200),
        ("GET", "/dashboard/state", 200),
    ] {
        assert_eq!(ask(management, method, path).status, status, "{path}");
    }

    // The REST port has not answered meanwhile, and does as soon as there is a place.
    waits.set_nonblocking(true).unwrap();
    let nothing = waits.read(&mut [0]).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
    waits.set_nonblocking(false).unwrap();
    drop(taken.pop());
    let mut status = [0; 12];
    waits.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
}

#[test]
fn it_serves_no_inference_and_no_page_of_other_origins() {
    let management = MANAGED.1;
    for (method, path, status) in [
        ("POST", "/v2/models/dummy/infer", 404),
        ("POST", "/v1/models/dummy:predict", 404),
        ("GET", "/v1/models/dummy/versions/1:predict", 404),
        ("POST", "/v1/models/dummy/sequences/1", 405),
        ("PUT", "/v1/models/dummy", 405),
        ("GET", "/v1/models/dummy/sequences/1", 412),
        ("PUT", "/v1/models/dummy/versions/1/sequences/1", 412),
        ("DELETE", "/v1/models/dummy/sequences/1", 412),
        ("GET", "/v1/models/dummy/sequences", 412),
        ("DELETE", "/v1/models/dummy/sequences", 405),
        ("GET", "/v3/models", 404),
        ("GET", "/nowhere", 404),
        ("POST", "/v2/health/live", 405),
    ] {
        let answer = ask(management, method, path);
        assert_eq!(answer.status, status, "{method} {path}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
        let names_port = answer
            .text()
            .contains("the one of --rest-port answers inferences");
        let is_inference = status == 404 && path != "/nowhere";
        assert_eq!(names_port, is_inference, "{}", answer.text());
    }
    let mut stream = TcpStream::connect(("127.0.0.1", management)).unwrap();
    let foreign = [("Origin", "https://evil.example")];
    let live = head("GET", "/v2/health/live", 0, &foreign);
    assert_eq!(exchange(&mut stream, &live, b"").status, 403);
}

#[test]
fn the_page_shows_commands_that_reach_the_ports_of_inference() {
    let (server, management) = (&MANAGED.0, MANAGED.1);
    let page = ask(management, "GET", "/").text();
    let of_servable = ask(management, "GET", "/dashboard/servables/dummy").text();
    assert!(of_servable.contains("from the page of the REST port"));
    assert!(!of_servable.contains("data-signature"), "{of_servable}");
    let (grpc, rest) = (server.port, server.rest_port);
    assert!(page.contains(&format!("test:{grpc}")), "{page}");
    let curl = format!("curl http://test:{rest}/v2/models/dummy/infer");
    assert!(page.contains(&curl), "{page}");
    assert!(!page.contains(&format!("curl http://test:{management}/")));
}

#[test]
fn what_manages_a_server_without_opting_in_is_known() {
    let server = Server::shared("dummy");
    for (method, path, status) in [
        // Opted in by flags.
        ("GET", "/metrics", 404),
        ("GET", "/v1/models/dummy/sequences/1", 412),
        ("PUT", "/v1/models/dummy/sequences/1", 412),
        ("DELETE", "/v1/models/dummy/sequences/1", 412),
        ("GET", "/v1/models/dummy/sequences", 412),
        ("POST", "/v2/systemsharedmemory/region/x/register", 501),
        // For nobody.
        ("POST", "/v2/repository/models/dummy/load", 501),
        ("POST", "/v2/repository/models/dummy/unload", 501),
        ("POST", "/v2/cudasharedmemory/region/x/register", 501),
        ("POST", "/v2/logging", 501),
        ("GET", "/v2/trace/setting", 501),
        ("POST", "/v2/models/dummy/trace/setting", 501),
        ("DELETE", "/v1/models/dummy", 405),
        ("PUT", "/v1/models/dummy", 405),
        ("PUT", "/v1/config", 405),
        ("POST", "/v1/config", 405),
        // The file that the server was started with is read again, or what is there without one: nothing comes from the
        // request.
        ("POST", "/v1/config/reload", 200),
    ] {
        let body = br#"{"model_config_list":[]}"#;
        let answer = send(server, method, path, &[], body);
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text());
    }
    let calls = [
        "RepositoryModelLoad",
        "RepositoryModelUnload",
        "SystemSharedMemoryRegister",
        "CudaSharedMemoryRegister",
        "TraceSetting",
        "LogSettings",
    ]
    .map(|method| {
        Call::of(
            &format!("/inference.GRPCInferenceService/{method}"),
            Vec::new(),
        )
    });
    for answer in wire::send(server, &calls) {
        assert_eq!(answer.unwrap_err().code(), Code::Unimplemented);
    }
    Grpc::connect(server).check_serves();
}

#[test]
fn it_binds_the_addresses_of_rest_and_no_others() {
    let management = MANAGED.1;
    assert_eq!(ask(management, "GET", "/v2/health/live").status, 200);
    let other = TcpStream::connect(("127.0.0.2", management));
    assert_eq!(other.unwrap_err().kind(), ErrorKind::ConnectionRefused);
}
