//! `ovms infer` as a program: its help, one request and its bytes on the wire, and exit codes.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::json;

use super::shared::served;
use crate::support::{
    Server,
    cli::{self, ovms, words},
    dtypes, grpc,
    infer::{APIS, GRPC, REST, TFS_GRPC, TFS_REST, at, command, data, infer, json, port},
    pipelines::Config,
    relay::Relay,
    repository,
    steps::{ALL, ended, spawn},
};

/// Runs a command through a relay; returns the bytes on the wire, as text.
fn sent(server: &Server, api: &str, args: &[&str]) -> String {
    String::from_utf8_lossy(&sent_bytes(server, api, args)).into_owned()
}

/// Runs a command that succeeds through a relay; returns the bytes on the wire.
fn sent_bytes(server: &Server, api: &str, args: &[&str]) -> Vec<u8> {
    let relay = Relay::to(port(server, api));
    let run = cli::run(at(relay.port, api).args(args));
    assert_eq!(run.code, Some(0), "{args:?}: {}", run.stderr);
    relay.sent()
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn without_an_api_it_is_grpc() {
    let server = Server::shared("dummy");
    let url = format!("grpc://localhost:{}", server.port);
    let run = ovms(["infer", "dummy", "--zeros", "--url", &url]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
}

#[test]
fn id_and_parameters_go_with_the_request() {
    let server = Server::shared("dummy");
    let flags = words(
        r#"dummy --zeros --id id-1 --param yes=true --param less=-7 --param text=a=b --param quoted="7""#,
    );
    let body = sent(server, REST, &flags);
    for part in [
        r#""id":"id-1""#,
        r#""yes":true"#,
        r#""less":-7"#,
        r#""text":"a=b""#,
        r#""quoted":"7""#,
    ] {
        assert!(body.contains(part), "{part} is not in {body}");
    }
    let message = sent(server, GRPC, &flags);
    for part in ["id-1", "yes", "less", "text", "a=b", "quoted"] {
        assert!(message.contains(part), "{part} is not in {message}");
    }
    for api in APIS {
        assert_eq!(json(server, api, &flags)["id"], "id-1");
    }
}

#[test]
fn headers_go_with_every_request() {
    let server = Server::shared("dummy");
    let flags = words("dummy --zeros --header x-one=1 --header X-Two=a=b");
    let requests = sent(server, REST, &flags);
    assert_eq!(requests.matches("HTTP/1.1\r\n").count(), 2, "{requests}");
    assert_eq!(requests.matches("x-one: 1\r\n").count(), 2, "{requests}");
    assert_eq!(requests.matches("x-two: a=b\r\n").count(), 2, "{requests}");
    // Compressed over gRPC.
    assert_eq!(infer(server, GRPC, &flags).code, Some(0));
}

#[test]
fn a_version_is_asked_for_by_its_number() {
    let server = Server::shared("dummy");
    let flags = ["dummy", "--zeros", "--model-version", "1"];
    for api in ALL {
        assert_eq!(json(server, api, &flags)["model_version"], "1", "{api}");
    }
    for (api, heads) in [
        (REST, &["POST /v2/models/dummy/versions/1/infer "][..]),
        (
            TFS_REST,
            &[
                "GET /v1/models/dummy/versions/1/metadata ",
                "POST /v1/models/dummy/versions/1:predict ",
            ],
        ),
    ] {
        let requests = sent(server, api, &flags);
        for head in heads {
            assert!(requests.contains(head), "{head} is not in {requests}");
        }
    }
}

#[test]
fn elements_travel_in_the_form_asked_for() {
    let server = Server::shared("passthrough_i32");
    let elements = [7_i32, -8, 9];
    let raw: Vec<u8> = elements.iter().flat_map(|it| it.to_le_bytes()).collect();
    for (api, flags, is_raw) in [
        (GRPC, &[][..], true),
        (GRPC, &["--raw"], true),
        (GRPC, &["--typed"], false),
        (REST, &[], true),
        (REST, &["--binary"], true),
        (REST, &["--json-data"], false),
        (TFS_GRPC, &[], true),
        (TFS_GRPC, &["--raw"], true),
        (TFS_GRPC, &["--typed"], false),
        (TFS_REST, &[], false),
        (TFS_REST, &["--json-data"], false),
    ] {
        let args = [&["passthrough_i32", "-i", "[[7,-8,9]]"], flags].concat();
        let bytes = sent_bytes(server, api, &args);
        assert_eq!(has(&bytes, &raw), is_raw, "{api} {flags:?}");
        assert_eq!(data(server, api, &args), json!(elements));
        let in_json = has(&bytes, br#""data":[7,-8,9]"#);
        assert_eq!(in_json, api == REST && !is_raw, "{flags:?}");
        let in_lists = has(&bytes, br#"{"inputs":{"in":[[7,-8,9]]}}"#);
        assert_eq!(in_lists, api == TFS_REST, "{flags:?}");
    }
}

/// Every datatype arrives as it was sent, in each form that it has.
#[test]
fn every_datatype_travels_in_every_form() {
    let server = served();
    let folder = repository::folder();
    let file = folder.path().join("in.bin");
    let from_file = format!("in::1,{}=@{}", dtypes::ELEMENTS, file.display());
    for row in dtypes::rows() {
        std::fs::write(&file, &row.raw).unwrap();
        let from_json = format!("in::1,{}={}", dtypes::ELEMENTS, row.json);
        let expected: serde_json::Value = serde_json::from_str(row.json).unwrap();
        // Whatever it is read from and written as, it is the same on the wire.
        let args = [row.model, "-i", &from_json];
        let raw = infer(server, GRPC, &[&args[..], &["--output", "raw"]].concat());
        assert_eq!(raw.failure(), "exit 0\n", "{args:?}");
        assert_eq!(raw.stdout, row.raw, "{args:?}");
        assert_eq!(data(server, GRPC, &args), expected, "{args:?}");
        for (api, form) in [
            (GRPC, "--raw"),
            (GRPC, "--typed"),
            (REST, "--binary"),
            (REST, "--json-data"),
            (TFS_GRPC, "--raw"),
            (TFS_GRPC, "--typed"),
            (TFS_REST, "--json-data"),
        ] {
            let is_kserve = [GRPC, REST].contains(&api);
            let args = [row.model, "-i", &from_file, form];
            let has_form = row.typed.is_some() || ["--raw", "--binary"].contains(&form);
            if is_kserve && !has_form {
                let text = infer(server, api, &args).failure();
                insta::allow_duplicates! {
                    insta::assert_snapshot!(text.replace(row.datatype, "<datatype>"), @"
                    exit 64
                    error: cannot write the request
                      caused by: <datatype> of input `in` has only a raw form
                    hint: leave out `--typed` or `--json-data`
                    ");
                }
                continue;
            }
            assert_eq!(data(server, api, &args), expected, "{api} {args:?}");
        }
    }
}

#[test]
fn a_closed_pipe_is_a_quiet_end() {
    let server = Server::shared("dummy");
    for flags in [
        "--zeros --output table --top 3",
        "--zeros --output json",
        "--zeros --output npy",
        "--zeros --output raw",
        "--zeros --repeat 2",
        "--zeros --repeat 2 --output json",
        "--status",
        "--metadata",
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = command(server, GRPC);
        command.arg("dummy").args(flags.split(' '));
        let child = command.stdout(writer).stderr(Stdio::piped()).spawn();
        let output = child.unwrap().wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{flags:?}");
        let notes = String::from_utf8_lossy(&output.stderr).into_owned();
        // The time of a response is printed before the response.
        let rest: Vec<_> = notes
            .lines()
            .filter(|it| !it.starts_with("Model "))
            .collect();
        assert!(rest.is_empty(), "{flags:?}: {notes}");
    }
}

#[test]
fn a_full_disk_is_reported() {
    let server = Server::shared("dummy");
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut child = command(server, GRPC);
    child.args(["dummy", "--zeros", "--output", "json"]);
    let output = child.stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let output = output.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stderr), @"
    error: cannot write to standard output
      caused by: No space left on device (os error 28)
    ");
}

#[test]
fn neither_help_nor_inference_takes_a_runtime() {
    let server = Server::shared("dummy");
    let home = repository::folder();
    let bare = |args: &[&str]| cli::run(cli::bare(home.path()).args(args));
    assert_eq!(bare(&["infer", "--help"]).failure(), "exit 0\n");
    let url = format!("localhost:{}", server.port);
    let run = bare(&[
        "infer", "dummy", "--zeros", "--url", &url, "--output", "raw",
    ]);
    assert_eq!(run.failure(), "exit 0\n");
    assert_eq!(grpc::to_floats(&run.stdout), [1.0; 10]);
}

#[test]
fn a_server_that_accepts_and_never_answers_is_given_up_at_the_limit() {
    // The system accepts what nobody takes off its list.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = silent.local_addr().unwrap();
    let within = format!("no answer from {url} within 1s\nhint: `--timeout` sets the limit");
    let not_ready = format!(
        "is not ready after 1s: {url} does not answer\nhint: is that a model server? `--url` names another address"
    );
    // All wait at once.
    let asked = ALL.map(|api| {
        let lines = [
            ("dummy --zeros --timeout 1", 1, &within),
            ("dummy --status --wait 1", 69, &not_ready),
            ("--status --wait 1", 69, &not_ready),
        ];
        lines.map(|(flags, code, text)| {
            let begun = Instant::now();
            let child = spawn(at(url.port(), api).args(words(flags)));
            (api, child, begun, code, text)
        })
    });
    for (api, child, begun, code, text) in asked.into_iter().flatten() {
        let run = ended(child);
        let took = begun.elapsed();
        assert_eq!(run.code, Some(code), "{api}: {}", run.stderr);
        assert!(run.stderr.contains(text), "{api}: {}", run.stderr);
        assert!(took < Duration::from_millis(2500), "{api}: {took:?}");
    }
}

#[test]
fn a_result_is_saved_whole_or_not_at_all() {
    let server = Server::shared("dummy");
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    for place in [path("a.npy"), path("all")] {
        let run = infer(server, GRPC, &["dummy", "--zeros", "-q", "-o", &place]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
    }
    let names = |folder: &Path| {
        let names = fs::read_dir(folder)
            .unwrap()
            .map(|it| it.unwrap().file_name());
        let mut names: Vec<_> = names.map(|it| it.into_string().unwrap()).collect();
        names.sort();
        names
    };
    // Nothing else is left beside them.
    assert_eq!(names(folder.path()), ["a.npy", "all"]);
    assert_eq!(names(&folder.path().join("all")), ["a.npy"]);
    let run = infer(server, GRPC, &words("dummy --zeros -q -o -"));
    insta::assert_snapshot!(run.failure(), @"
    exit 64
    error: cannot save to -: `--save` takes a file for NumPy (.npy), a table (.csv), or a folder
    hint: `--output npy` writes an output to stdout, `--output csv` all of them
    ");
}

#[test]
fn a_wait_for_the_server_ends_when_a_servable_has_failed() {
    let server = Config::of(&["broken", "dummy"]).serve_with(&[]);
    for api in [GRPC, REST, TFS_GRPC, TFS_REST] {
        let run = infer(&server, api, &words("--status --wait 30"));
        assert_eq!(run.code, Some(1), "{api}: {}", run.stderr);
        let begin = "error: 1 of 2 servables failed to load\n  `broken`: version 1: ";
        assert!(run.stderr.starts_with(begin), "{api}: {}", run.stderr);
        assert!(run.stderr.contains("cannot read"), "{api}: {}", run.stderr);
        // The one that is named has failed, too.
        let run = infer(&server, api, &words("broken --status --wait 30"));
        assert_eq!(run.code, Some(1), "{api}: {}", run.stderr);
        let begin = "error: the servable failed to load\n  `broken`: version 1: ";
        assert!(run.stderr.starts_with(begin), "{api}: {}", run.stderr);
        // One that serves is not held up by it.
        let run = infer(&server, api, &words("dummy --status --wait 30"));
        assert_eq!(run.code, Some(0), "{api}: {}", run.stderr);
    }
    // It may be loaded yet.
    let root = repository::endless();
    let server = Server::begin("endless", root.path(), &[]);
    server.wait_log("loading");
    for api in [REST, TFS_REST] {
        let run = infer(&server, api, &words("--status --wait 600ms"));
        assert_eq!(run.code, Some(1), "{api}: {}", run.stderr);
        let begin = "error: the server is not ready after 600ms";
        assert!(run.stderr.starts_with(begin), "{api}: {}", run.stderr);
    }
}
