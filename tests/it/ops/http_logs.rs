//! Logs for operators: the log as JSON, and the access log.

use std::{fs, io::Write as _, path::Path};

use serde_json::Value;

use super::{BODY, INFER};
use crate::support::{
    Server, cli, eventually,
    grpc::{Grpc, dummy},
    http::{connect, get, head, post, send},
    model,
    server::{free_ports, on},
};

/// Waits until a file has `count` lines, and returns them.
fn lines(file: &Path, count: usize) -> Vec<String> {
    eventually(&format!("{count} lines in {}", file.display()), || {
        let text = fs::read_to_string(file).unwrap_or_default();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        (lines.len() >= count && text.ends_with('\n')).then_some(lines)
    })
}

/// Waits until a file has a complete line with a text, and returns its complete lines.
fn lines_with(file: &Path, text: &str) -> String {
    eventually(&format!("`{text}` in {}", file.display()), || {
        let mut written = fs::read_to_string(file).unwrap_or_default();
        written.truncate(written.rfind('\n').map_or(0, |at| at + 1));
        written.contains(text).then_some(written)
    })
}

/// Replaces the parts that differ from run to run.
fn steady(line: &str) -> String {
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    words[0] = "<time>".to_owned();
    words[1] = "<peer>".to_owned();
    if let Some(last) = words.last_mut() {
        assert!(last.starts_with("duration_us="), "{line}");
        *last = "duration_us=<time>".to_owned();
    }
    words.join(" ")
}

#[test]
fn each_request_has_its_line_and_files_are_opened_again_at_a_hangup() {
    let folder = tempfile::tempdir().unwrap();
    let [file, log] = ["access", "log"].map(|name| folder.path().join(name));
    let flags = [
        "--access_log",
        file.to_str().unwrap(),
        "--log_path",
        log.to_str().unwrap(),
    ];
    let server = Server::start_with("dummy", &flags);
    let mut expected = 0;
    let mut line = || {
        expected += 1;
        steady(lines(&file, expected).last().unwrap())
    };
    let mut all = Vec::new();
    get(&server, "/v2/health/live");
    all.push(line());
    post(&server, INFER, BODY);
    all.push(line());
    post(&server, "/v2/models/stranger/versions/7/infer?x=y", BODY);
    all.push(line());
    post(&server, INFER, b"{");
    all.push(line());
    send(&server, "OPTIONS", "/%7F", &[], b"");
    all.push(line());
    send(&server, &"A".repeat(100_000), "/v2", &[], b"");
    all.push(line());
    let grpc = Grpc::connect(&server);
    grpc.check_serves();
    all.push(line());
    let mut stranger = dummy();
    stranger.model_name = "a \"b\"\nc".to_owned();
    grpc.refused(stranger);
    all.push(line());
    let mut client = grpc.client.clone();
    let live = async move {
        let request = ovms::proto::kserve::ServerLiveRequest {};
        client.server_live(request).await
    };
    grpc.wait(live).unwrap();
    all.push(line());
    // The client leaves within its body.
    let mut stream = connect(&server);
    stream
        .write_all(head("POST", INFER, 100, &[]).as_bytes())
        .unwrap();
    stream.write_all(b"{").unwrap();
    drop(stream);
    all.push(line());
    insta::assert_snapshot!(all.join("\n"), @r#"
    <time> <peer> HTTP GET /v2/health/live status=200 bytes_in=0 bytes_out=0 duration_us=<time>
    <time> <peer> HTTP POST /v2/models/dummy/infer status=200 model=dummy version=1 bytes_in=87 bytes_out=150 duration_us=<time>
    <time> <peer> HTTP POST /v2/models/stranger/versions/7/infer status=404 model=stranger bytes_in=87 bytes_out=50 duration_us=<time>
    <time> <peer> HTTP POST /v2/models/dummy/infer status=412 model=dummy bytes_in=1 bytes_out=85 duration_us=<time>
    <time> <peer> HTTP OPTIONS /%7F status=200 bytes_in=0 bytes_out=0 duration_us=<time>
    <time> <peer> HTTP AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA… /v2 status=405 bytes_in=0 bytes_out=30 duration_us=<time>
    <time> <peer> gRPC POST /inference.GRPCInferenceService/ModelInfer status=0 model=dummy version=1 bytes_in=69 bytes_out=72 duration_us=<time>
    <time> <peer> gRPC POST /inference.GRPCInferenceService/ModelInfer status=5 model="a \"b\"\nc" bytes_in=71 bytes_out=0 duration_us=<time>
    <time> <peer> gRPC POST /inference.GRPCInferenceService/ServerLive status=0 bytes_in=5 bytes_out=7 duration_us=<time>
    <time> <peer> HTTP POST /v2/models/dummy/infer status=400 model=dummy bytes_in=1 bytes_out=82 duration_us=<time>
    "#);

    // Files that were moved away are opened again at a hangup.
    for path in [&file, &log] {
        fs::rename(path, path.with_extension("old")).unwrap();
    }
    server.signal("HUP");
    eventually("new files", || {
        (file.exists() && log.exists()).then_some(())
    });
    get(&server, "/v2/models/dummy");
    assert!(lines(&file, 1)[0].contains("GET /v2/models/dummy "));
    assert_eq!(lines(&file.with_extension("old"), 10).len(), 10);
    lines(&log, 1);
}

#[test]
fn lines_may_be_json_as_those_of_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access");
    let log = folder.path().join("log");
    let server = Server::begin(
        "dummy",
        &model("dummy"),
        &[
            "--log_format=json",
            "--access_log",
            file.to_str().unwrap(),
            "--log_path",
            log.to_str().unwrap(),
        ],
    );
    // One event is the summary.
    let line = server.wait_log(r#""message":"serving""#);
    let event: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&event["served"], &event["failed"]), (&1.into(), &0.into()));
    assert_eq!(event["names"], "dummy");
    assert_eq!(event["grpc"], format!("localhost:{}", server.port));
    let ready = r#""message":"ready""#;
    post(&server, INFER, BODY);
    let mut line: Value = serde_json::from_str(&lines(&file, 1)[0]).unwrap();
    for changing in ["timestamp", "peer", "duration_us"] {
        assert!(!line[changing].take().is_null(), "{changing} is there");
    }
    insta::assert_snapshot!(line, @r#"{"bytes_in":87,"bytes_out":150,"duration_us":null,"method":"POST","model":"dummy","path":"/v2/models/dummy/infer","peer":null,"protocol":"HTTP","status":200,"timestamp":null,"version":1}"#);
    // Each line goes to stdout first, and to the file after that.
    for text in [server.log(), lines_with(&log, ready)] {
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let ready = lines
            .iter()
            .find(|line| line["message"] == "ready")
            .unwrap();
        assert_eq!(ready["level"], "INFO");
        assert_eq!(ready["target"], "ovms::server");
        assert!(ready["timestamp"].is_string());
    }
}

#[test]
fn the_last_lines_are_written_before_the_end_and_stdout_will_do() {
    let mut server = Server::start_with("dummy", &["--access_log", "-"]);
    for _ in 0..100 {
        get(&server, "/v2/health/ready");
    }
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    server.wait_log("stopped");
    let count = eventually("every line", || {
        let count = server
            .log()
            .matches("GET /v2/health/ready status=200")
            .count();
        (count >= 100).then_some(count)
    });
    assert_eq!(count, 100);
}

#[test]
fn a_log_that_cannot_be_opened_ends_the_start() {
    let mut command = cli::command();
    command
        .args(["serve", "--model_name", "dummy", "--model_path"])
        .arg(model("dummy"))
        .args(on(free_ports()))
        .arg("--access_log=/nowhere/at/all");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap(), @"
    error: cannot open access log /nowhere/at/all
      caused by: No such file or directory (os error 2)
    ");
}

#[test]
fn a_log_that_cannot_be_written_loses_lines_and_no_requests() {
    // Every write to this file says that the disk is full.
    let server = Server::start_with("dummy", &["--access_log", "/dev/full"]);
    assert_eq!(get(&server, "/v2/health/ready").status, 200);
    let line = server.wait_log("lines were lost");
    assert!(line.contains("WARN"), "{line}");
    Grpc::connect(&server).check_serves();
}
