//! `ovms infer` and a server that refuses, is no such server, or is absent: texts and exit codes.

use std::{io::Read as _, net::TcpListener, process::Stdio, time::Duration};

use crate::support::{
    Server, busy,
    cli::{self, ovms},
    eventually,
    infer::{APIS, GRPC, REST, at, command, failures, infer, interrupt, redacted},
    server::{free_ports, processor_time},
};

/// Flags for an inference that takes minutes.
const ENDLESS: [&str; 4] = ["busy", "-i", "steps=20000000", "--zeros"];

/// Runs a command for a port of this machine to its end.
fn asked(port: u16, api: &str, flags: &[&str]) -> String {
    cli::run(at(port, api).args(["dummy", "--zeros"]).args(flags)).failure()
}

#[test]
fn a_model_that_the_server_does_not_have_is_reported() {
    let server = Server::shared("dummy");
    let commands: [&[&str]; 3] = [
        &["dumy", "--zeros"],
        &["dummy", "--zeros", "--model-version=7"],
        &["a/b", "--zeros"],
    ];
    insta::assert_snapshot!(failures(server, GRPC, &commands), @"
    exit 1
    error: the server refused the request: NOT_FOUND: Model with requested name is not found
    hint: did you mean `dummy`?
    hint: the server has `dummy`

    exit 1
    error: the server refused the request: NOT_FOUND: Model with requested version is not found
    hint: the server has the model: `--status` shows its versions and their states

    exit 1
    error: the server refused the request: NOT_FOUND: Model with requested name is not found
    hint: the server has `dummy`
    ");
    insta::assert_snapshot!(failures(server, REST, &commands), @"
    exit 1
    error: the server refused the request: 404 Not Found: Model with requested name is not found
    hint: did you mean `dummy`?
    hint: the server has `dummy`

    exit 1
    error: the server refused the request: 404 Not Found: Model with requested version is not found
    hint: the server has the model: `--status` shows its versions and their states

    exit 1
    error: the server refused the request: 404 Not Found: Model with requested name is not found
    hint: the server has `dummy`
    ");
}

#[test]
fn an_output_that_the_model_does_not_have_is_reported() {
    let server = Server::start("two_outputs");
    for api in APIS {
        let texts = failures(
            &server,
            api,
            &[
                &["two_outputs", "--zeros", "--output-name=totl"],
                &["two_outputs", "--zeros", "--output-name=x"],
                &["two_outputs", "--zeros", "--output-name=x", "--repeat=2"],
            ],
        );
        insta::allow_duplicates! {
            insta::assert_snapshot!(texts, @"
            exit 64
            error: the model has no output `totl`
            hint: did you mean `total`?
            hint: the outputs are `total`, `twice`

            exit 64
            error: the model has no output `x`
            hint: the outputs are `total`, `twice`

            exit 64
            error: the model has no output `x`
            hint: the outputs are `total`, `twice`
            ");
        }
    }
}

#[test]
fn what_the_server_refuses_has_its_own_text() {
    let server = Server::shared("dummy");
    let commands: [&[&str]; 3] = [
        &["dummy", "-i=b:INT32=[0,1,2,3,4,5,6,7,8,9]"],
        &["dummy", "-i=b::2,5=[0,1,2,3,4,5,6,7,8,9]"],
        &["dummy", "-i=c:FP32:1=[1]", "-i=b=[0,1,2,3,4,5,6,7,8,9]"],
    ];
    insta::assert_snapshot!(failures(server, GRPC, &commands), @"
    exit 1
    error: the server refused the request: INVALID_ARGUMENT: Invalid input precision - Expected: FP32; Actual: INT32; input name: b

    exit 1
    error: the server refused the request: INVALID_ARGUMENT: Invalid input batch size - Expected: 1; Actual: 2; input name: b

    exit 1
    error: the server refused the request: INVALID_ARGUMENT: Invalid number of inputs - Expected: 1; Actual: 2
    ");
    insta::assert_snapshot!(failures(server, REST, &commands), @"
    exit 1
    error: the server refused the request: 400 Bad Request: Invalid input precision - Expected: FP32; Actual: INT32; input name: b

    exit 1
    error: the server refused the request: 400 Bad Request: Invalid input batch size - Expected: 1; Actual: 2; input name: b

    exit 1
    error: the server refused the request: 400 Bad Request: Invalid number of inputs - Expected: 1; Actual: 2
    ");
}

#[test]
fn no_server_is_reported_with_the_address() {
    let _redacted = redacted();
    let (port, _) = free_ports();
    for api in APIS {
        insta::allow_duplicates! {
            insta::assert_snapshot!(asked(port, api, &[]), @"
            exit 69
            error: no server answers at <address>
              caused by: Connection refused (os error 111)
            hint: is `ovms serve` running? `--url` names another address
            ");
            // Nothing is measured where nothing is.
            assert_eq!(asked(port, api, &["--repeat=5"]), asked(port, api, &[]));
        }
    }
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
fn the_port_of_the_other_protocol_is_reported() {
    let _redacted = redacted();
    let server = Server::shared("dummy");
    insta::assert_snapshot!(asked(server.rest_port, GRPC, &[]), @"
    exit 69
    error: the server at <address> does not speak kserve-grpc
    hint: it speaks `--api kserve-rest`, or `--url` names another address
    ");
    insta::assert_snapshot!(asked(server.port, REST, &[]), @"
    exit 69
    error: the server at <address> does not speak kserve-rest
    hint: it speaks `--api kserve-grpc`, or `--url` names another address
    ");
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    let _redacted = redacted();
    // The system takes the connections; nobody reads.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    for api in APIS {
        insta::allow_duplicates! {
            insta::assert_snapshot!(asked(port, api, &["--timeout=50ms"]), @"
            exit 1
            error: no answer from <address> within 50ms
            hint: `--timeout` sets the limit
            ");
        }
    }
}

#[test]
fn an_inference_that_takes_too_long_is_given_up() {
    let _redacted = redacted();
    let server = busy::serve(&[]);
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

#[test]
fn ctrl_c_ends_the_wait_for_an_answer() {
    for api in APIS {
        let server = busy::serve(&[]);
        let before = server.processor_time();
        let child = command(&server, api)
            .args(ENDLESS)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        busy::wait_running(&server, before);
        interrupt(&child);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "");
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            "error: interrupted\n"
        );
    }
}

/// A large request takes a while to make, during which nothing is waited for.
#[test]
fn ctrl_c_is_not_lost_while_a_request_is_made() {
    let server = Server::start("two_outputs");
    let child = command(&server, GRPC)
        .args([
            "two_outputs",
            "-i=x::4000000,4=",
            "--random",
            "--output=raw",
        ])
        .arg("--output-name=total")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("the request is being made", || {
        (processor_time(&child) > Duration::from_millis(100)).then_some(())
    });
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "error: interrupted\n"
    );
}

#[test]
fn ctrl_c_ends_the_wait_for_the_server() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    for api in APIS {
        let child = at(port, api)
            .args(["dummy", "--zeros"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Ctrl-C is ours to handle before anything is sent.
        let (mut connection, _) = silent.accept().unwrap();
        connection.read_exact(&mut [0]).unwrap();
        interrupt(&child);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            "error: interrupted\n"
        );
    }
}

#[test]
fn a_malformed_header_is_not_shown() {
    for header in ["hunter2", "Authorization: Bearer hunter2=="] {
        let flags: [&[&str]; 2] = [&["--header", header], &[]];
        for given in flags {
            let mut command = cli::command();
            command.args(["infer", "--status"]).args(given);
            if given.is_empty() {
                command.env("OVMS_HEADER", header);
            }
            let run = cli::run(&mut command);
            assert_eq!(run.code, Some(64), "{}", run.stderr);
            assert!(!run.stderr.contains("hunter2"), "{}", run.stderr);
            assert!(run.stderr.contains("KEY=VALUE"), "{}", run.stderr);
        }
    }
}

#[test]
fn a_subcommand_of_other_programs_is_a_hint() {
    let run = cli::run(cli::command().arg("status"));
    assert_eq!(run.code, Some(64));
    let hint = "hint: `ovms infer --status` does that";
    assert!(run.stderr.contains(hint), "{}", run.stderr);
}
