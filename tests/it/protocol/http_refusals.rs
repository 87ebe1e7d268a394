//! Requests that are refused while they are still being sent: the client sends to the end, as most
//! do before they read, and then reads the response; it holds a slot for no longer than it needs.

use std::{io::Write as _, thread::sleep, time::Duration};

use super::sizes::LIMITED;
use crate::support::{
    Server,
    http::{connect, head, read, read_one},
};

/// Length above that of all socket buffers.
const MUCH: usize = 8 << 20;

/// Returns requests that [`LIMITED`] refuses long before their end, with the status of each.
fn refused(length: usize) -> [(u16, Vec<u8>); 4] {
    let path = format!("/{}", "x".repeat(70_000));
    [
        (431, "GET /v2 HTTP/1.1\r\nHost: test\r\nX: ".to_owned()),
        (414, head("POST", &path, length, &[])),
        (400, "\0".to_owned()),
        (413, head("POST", "/v2/models/dummy/infer", length, &[])),
    ]
    .map(|(status, head)| {
        let mut request = head.into_bytes();
        request.resize(request.len() + length, b'x');
        (status, request)
    })
}

#[test]
fn a_refusal_reaches_a_client_that_sends_all_before_it_reads() {
    let requests = refused(MUCH);
    for round in 0..25 {
        for (status, request) in &requests {
            let mut stream = connect(&LIMITED);
            if let Err(error) = stream.write_all(request) {
                panic!("{status}, round {round}: {error}");
            }
            assert_eq!(read(&mut stream).status, *status, "round {round}");
        }
    }
}

#[test]
fn a_refusal_reaches_a_client_that_sends_in_small_pieces() {
    // Nearly all that may come before the head is refused, and then much more.
    for (status, request) in refused(500_000) {
        let mut stream = connect(&LIMITED);
        stream.set_nodelay(true).unwrap();
        let (first, rest) = request.split_at(400_000);
        stream.write_all(first).unwrap();
        for piece in rest.chunks(500) {
            // A client that is slow; there is nothing to wait for.
            sleep(Duration::from_millis(5));
            if let Err(error) = stream.write_all(piece) {
                panic!("{status}: {error}");
            }
        }
        assert_eq!(read(&mut stream).status, status);
    }
}

#[test]
fn a_refusal_before_the_end_of_a_body_says_that_the_connection_ends() {
    let (server, usual) = (&*LIMITED, Server::shared("dummy"));
    for (server, path, length, status, ends) in [
        (server, "/v2/models/dummy/infer", 100_000, 413, true),
        (server, "/v2/nothing", 100_000, 404, true),
        (server, "/v2/nothing", 100, 404, false),
        (
            usual,
            "/v2/repository/models/dummy/load",
            100_000,
            501,
            true,
        ),
        // The body was read before its model was looked for.
        (usual, "/v1/models/nothing:predict", 100_000, 404, false),
    ] {
        let mut request = head("POST", path, length, &[]).into_bytes();
        request.resize(request.len() + length, b'x');
        let mut stream = connect(server);
        stream.write_all(&request).unwrap();
        let answer = if ends {
            read(&mut stream)
        } else {
            read_one(&mut stream)
        };
        assert_eq!(answer.status, status, "{path}");
        let says = answer.header("connection");
        assert_eq!(says, ends.then_some("close"), "{path} {length}");
    }
}

#[test]
fn a_refusal_before_a_small_body_has_come_says_that_the_connection_ends() {
    let server = Server::shared("dummy");
    let expect = [("Expect", "100-continue")];
    for headers in [&[][..], &expect] {
        let request = head("POST", "/nope", 100, headers);
        let mut stream = connect(server);
        // The body would come later.
        stream.write_all(request.as_bytes()).unwrap();
        let answer = read(&mut stream);
        assert_eq!(answer.status, 404, "{headers:?}");
        assert_eq!(answer.header("connection"), Some("close"), "{headers:?}");
    }
}
