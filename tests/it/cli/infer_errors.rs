//! `ovms infer` and a server that refuses, is no such server, or is absent: texts and exit codes.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    time::Duration,
};

use super::shared::counted;
use crate::support::{
    self, Server, busy,
    cli::{self, ovms, words},
    eventually,
    infer::{APIS, GRPC, REST, at, command, infer, interrupt, redacted, signal},
    server::processor_time,
    steps::{ALL, ended, spawn},
};

/// Flags for an inference that takes minutes.
const ENDLESS: [&str; 4] = ["busy", "-i", "steps=20000000", "--zeros"];

/// Failure of a command after Ctrl-C.
const INTERRUPTED: &str = "exit 130\nerror: interrupted\n";

/// Runs a command for a port of this machine to its end.
fn asked(port: u16, api: &str) -> String {
    cli::run(at(port, api).args(["dummy", "--zeros"])).failure()
}

#[test]
fn a_host_that_is_not_found_is_reported() {
    for api in APIS {
        let run = ovms([
            "infer",
            "dummy",
            "--zeros",
            "--api",
            api,
            "--url=nowhere.invalid:1",
        ]);
        let (text, reason) = run.stderr.split_once("caused by: ").unwrap();
        assert_eq!(run.code, Some(69));
        insta::allow_duplicates! {
            insta::assert_snapshot!(text, @"error: no server answers at nowhere.invalid:1");
        }
        // The system's own words.
        assert!(
            reason.contains("failed to lookup address information"),
            "{reason}"
        );
    }
}

#[test]
fn the_wait_for_an_answer_ends_in_time_and_at_signals() {
    let _redacted = redacted();
    // It has one slot, which the first takes for minutes.
    let server = busy::serve(&["--metrics_enable"]);
    let waits = [
        (GRPC, "INT", INTERRUPTED),
        (REST, "INT", INTERRUPTED),
        (GRPC, "TERM", "exit 143\nerror: terminated\n"),
    ];
    let waits = waits.map(|(api, name, expected)| {
        let child = spawn(command(&server, api).args(ENDLESS));
        (child, name, expected)
    });
    eventually("three inferences", || {
        let labels = r#"name="busy",version="1"}"#;
        (counted(&server, "ovms_current_requests", labels) == 3).then_some(())
    });
    for (child, name, expected) in waits {
        signal(&child, name);
        let run = ended(child);
        assert_eq!(
            (run.text(), run.failure()),
            (String::new(), expected.to_owned())
        );
    }
    for api in APIS {
        let run = infer(&server, api, &[&ENDLESS[..], &["--timeout=300ms"]].concat());
        insta::allow_duplicates! {
            insta::assert_snapshot!(run.failure(), @"
            exit 1
            error: no answer from <address> within 300ms
            hint: `--timeout` sets the limit
            ");
        }
    }
}

/// A large request takes a while to make, during which nothing is waited for.
#[test]
fn ctrl_c_is_not_lost_while_a_request_is_made() {
    let server = Server::shared("two_outputs");
    let large = words("two_outputs -i=x::4000000,4= --random --output=raw --output-name=total");
    let child = spawn(command(server, GRPC).args(large));
    eventually("the request is being made", || {
        (processor_time(&child) > Duration::from_millis(100)).then_some(())
    });
    interrupt(&child);
    assert_eq!(ended(child).failure(), INTERRUPTED);
}

#[test]
fn ctrl_c_ends_the_wait_for_the_server() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    for api in APIS {
        let child = spawn(at(port, api).args(["dummy", "--zeros"]));
        // Ctrl-C is ours to handle before anything is sent.
        let (mut connection, _) = silent.accept().unwrap();
        connection.read_exact(&mut [0]).unwrap();
        interrupt(&child);
        assert_eq!(ended(child).failure(), INTERRUPTED);
    }
}

/// Starts something that is no model server: it answers every request alike. Returns its port.
fn stranger(status: &'static str, body: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(support::thread(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            drop(support::thread(move || {
                let mut lines = stream.by_ref().lines().map_while(Result::ok);
                while lines.next().is_some_and(|line| !line.is_empty()) {}
                let length = body.len();
                // Whoever asks may have left.
                let _ = write!(
                    stream.get_mut(),
                    "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                );
            }));
        }
    }));
    port
}

#[test]
fn something_else_than_a_model_server_is_distinguished_from_one() {
    let page = "<!DOCTYPE html><html><head><title>Welcome to nginx!</title></head></html>";
    for (status, body, found) in [
        ("404 Not Found", page, "the web page `Welcome to nginx!`"),
        // As those of applications that have one page for all paths.
        ("200 OK", page, "the web page `Welcome to nginx!`"),
        (
            "404 Not Found",
            r#"{"detail":"Not Found"}"#,
            "JSON of another service",
        ),
        ("404 Not Found", "no", "HTTP of another service"),
    ] {
        let port = stranger(status, body);
        for api in APIS {
            let text = asked(port, api);
            let begin = format!(
                "exit 69\nerror: the server at 127.0.0.1:{port} is not a model server: it sends {found}\n"
            );
            assert!(text.starts_with(&begin), "{api}: {text}");
            assert!(
                text.contains("\nhint: check host and port"),
                "{api}: {text}"
            );
        }
    }
    // A service that takes every request for its own.
    let port = stranger("200 OK", r#"{"hello":"world"}"#);
    let text = asked(port, "kserve-rest");
    let begin = format!(
        "exit 69\nerror: cannot read the answer of 127.0.0.1:{port}\n  caused by: found JSON without the name of a model\n"
    );
    assert!(text.starts_with(&begin), "{text}");
}

#[test]
fn another_protocol_is_recognized_by_what_it_says_first() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(support::thread(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // Whoever asks may have left.
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n");
            drop(support::thread(move || {
                let _ = std::io::copy(&mut stream, &mut std::io::sink());
            }));
        }
    }));
    for api in ALL {
        let expected = if api.ends_with("grpc") {
            "HTTP/2"
        } else {
            "HTTP"
        };
        assert_eq!(
            asked(port, api),
            format!(
                "exit 69\nerror: the service at 127.0.0.1:{port} does not speak {expected}, which {api} needs: it \
                 answered with `SSH-2.0-OpenSSH_9.2p1 Debian-2`\nhint: check host and port of `--url`; `ovms serve` \
                 prints its own at startup\n"
            ),
            "{api}"
        );
    }
}
