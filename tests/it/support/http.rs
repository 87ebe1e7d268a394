//! An HTTP client for tests that sends exactly the given bytes.

use std::{
    fmt::Write as _,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use super::Server;

/// Name of the header with the length of the JSON part of a body.
pub(crate) const JSON_LENGTH: &str = "inference-header-content-length";

/// Ways to write paths of management.
pub(crate) const SPELLINGS: [&str; 44] = [
    "/v1/config",
    "/v1/config/",
    "/v1//config",
    "//v1/config",
    "///v1/config",
    "/v1/./config",
    "/./v1/config",
    "/v1/x/../config",
    "/V1/config",
    "/v1/CONFIG",
    "/%761/config",
    "/v1/%63onfig",
    "/v1/config%2f",
    "/v1%2fconfig",
    "/v1/config.",
    "/v1/config%20",
    "/v1/config%00",
    "/v1/config;a=b",
    "/v1/config?a=b",
    "/v1/config%3f",
    "/v1/config/reload",
    "/v1/config/reload/",
    "/v1/config/reload.",
    "/v1/config/%72eload",
    "//v1//config/reload",
    "http://localhost/v1/config",
    "http://evil.example/v1/config/reload",
    "HTTP://LOCALHOST/v1/config/reload",
    "/metrics/",
    "/METRICS",
    "//metrics",
    "/metrics?x",
    "/dashboard//state",
    "//dashboard/state",
    "/dashboard/state/",
    "/v2//repository/index",
    "//v2/repository/index",
    "/v2/repository/index/",
    "/v1/models/dummy/sequences/1",
    "//v1/models/dummy/sequences/1",
    "/v1/models/dummy/sequences/1/",
    "/v1/models/dummy/%73equences/1",
    "/v1/models/dummy/sequences/%31",
    "/v1/models/dummy/versions/1/sequences/1",
];

/// A response as received.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Returns a header by its lower-case name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns the body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("the body is text")
    }

    /// Returns the body as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }

    /// Returns status and error text in one line.
    pub(crate) fn error(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/json"));
        let json = self.json();
        format!(
            "{}: {}",
            self.status,
            json["error"].as_str().expect("an error has a text")
        )
    }

    /// Returns the JSON and the binary data after it, as divided by the header.
    pub(crate) fn parts(&self) -> (serde_json::Value, &[u8]) {
        let length = self.header(JSON_LENGTH).expect("there is binary data");
        let (json, binary) = self.body.split_at(length.parse().expect("it is a number"));
        (
            serde_json::from_slice(json).expect("the first part is JSON"),
            binary,
        )
    }
}

/// Connects to a port from another address of this machine.
pub(crate) fn connect_from(address: [u8; 4], port: u16) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from((address, 0))).unwrap();
    connect(&socket, &SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
    TcpStream::from(socket)
}

/// Opens a connection.
pub(crate) fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", server.rest_port)).expect("the server listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("sockets take limits");
    stream
}

/// Sends a GET.
pub(crate) fn get(server: &Server, path: &str) -> Answer {
    send(server, "GET", path, &[], b"")
}

/// Sends a POST.
pub(crate) fn post(server: &Server, path: &str, body: &[u8]) -> Answer {
    send(server, "POST", path, &[], body)
}

/// Sends a request over a connection of its own.
pub(crate) fn send(
    server: &Server,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let mut stream = connect(server);
    let mut head = head(method, path, body.len(), headers);
    head.insert_str(head.len() - 2, "Connection: close\r\n");
    // A server that refuses early may close before it has read all; its answer is there.
    let _ = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(body));
    read(&mut stream)
}

/// Writes the head of a request over a connection that stays open.
pub(crate) fn head(method: &str, path: &str, length: usize, headers: &[(&str, &str)]) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: test\r\n");
    for (name, value) in headers {
        write!(head, "{name}: {value}\r\n").expect("a String takes all text");
    }
    write!(head, "Content-Length: {length}\r\n\r\n").expect("a String takes all text");
    head
}

/// Sends a request over a connection and reads its answer; the connection stays open.
pub(crate) fn exchange(stream: &mut TcpStream, head: &str, body: &[u8]) -> Answer {
    stream.write_all(head.as_bytes()).expect("the server reads");
    stream.write_all(body).expect("the server reads");
    read_one(stream)
}

/// Reads a response by its length; the connection stays open.
pub(crate) fn read_one(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream
            .read_exact(&mut byte)
            .expect("the answer has a whole head");
        bytes.push(byte[0]);
    }
    let mut answer = parse(&bytes);
    let length = answer
        .header("content-length")
        .map_or(0, |length| length.parse().unwrap());
    answer.body.resize(length, 0);
    stream
        .read_exact(&mut answer.body)
        .expect("the answer has a whole body");
    answer
}

/// Interim answer, which a client passes over that has said all and waits for long.
const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Reads a response to the end of the connection.
pub(crate) fn read(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    stream
        .read_to_end(&mut bytes)
        .expect("the answer comes, and then the end of the connection");
    let mut answer = &bytes[..];
    while let Some(rest) = answer.strip_prefix(INTERIM) {
        answer = rest;
    }
    parse(answer)
}

fn parse(bytes: &[u8]) -> Answer {
    let split = bytes
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(bytes)));
    let head = String::from_utf8_lossy(&bytes[..split]).into_owned();
    let mut lines = head.lines();
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .and_then(|status| status.parse().ok())
        .expect("an answer begins with its status");
    let headers = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    Answer {
        status,
        headers,
        body: bytes[split + 4..].to_vec(),
    }
}
