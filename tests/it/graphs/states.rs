//! Graphs that are not available, and the responses of each interface about them.

use std::{
    fs::Permissions,
    os::unix::fs::PermissionsExt as _,
    time::{Duration, Instant},
};

use super::{shared, workers::number};
use crate::support::{
    Server, eventually,
    graphs::{self, LIST, PASS, TWO, add, changes},
    grpc::Grpc,
    http::{get, post},
    pipelines::{Config, infer, request, status},
};

/// Checks the responses of all interfaces for a graph that cannot be loaded.
fn is_refused(server: &Server, client: &Grpc, name: &str) {
    assert_eq!(status(server, name), "LOADING FAILED_PRECONDITION");
    let asked = request(name, &[("in", &[1], &[1.0])]);
    assert_eq!(
        client.refused(asked),
        "Unavailable: Mediapipe is not loaded yet"
    );
    let not_loaded = "404: Mediapipe is not loaded yet";
    let path = format!("/v2/models/{name}");
    assert_eq!(get(server, &path).error(), not_loaded);
    let body = br#"{"inputs":[{"name":"in","shape":[1],"datatype":"FP32","data":[0]}]}"#;
    let infer = post(server, &format!("{path}/infer"), body);
    assert_eq!(infer.error(), not_loaded);
    assert_ne!(get(server, &format!("{path}/ready")).status, 200);
    assert_eq!(
        changes(server, name),
        ["LOADING_PRECONDITION_FAILED ValidationFailed"]
    );
}

/// Returns graphs with errors, and what the log says of each.
fn errors() -> [(&'static str, String, &'static str); 4] {
    [
        (
            "wrong_empty",
            String::new(),
            "Trying to parse empty mediapipe graph definition: wrong_empty failed",
        ),
        (
            "wrong_typing",
            PASS.replace("node {", "nude {"),
            "Trying to parse mediapipe graph definition: wrong_typing failed",
        ),
        (
            "wrong_stranger",
            PASS.replace("PassThrough", "PassThru"),
            "Mediapipe graph: wrong_stranger initialization failed with message: ",
        ),
        (
            "wrong_inputs",
            TWO.replace("2:b", "2:a"),
            "Creating Mediapipe graph inputs name failed for: ",
        ),
    ]
}

/// Adds the graphs of these tests.
pub(super) fn add_graphs(config: &mut Config) {
    for (name, text, _) in &errors() {
        add(config, name, text);
    }
    config.put(LIST, serde_json::json!({"name": "absent"}));
}

#[test]
fn graphs_with_errors_leave_the_others_alone() {
    let (server, client) = shared::connect();
    for (name, _, log) in &errors() {
        server.wait_log(log);
        is_refused(server, &client, name);
    }
    server.wait_log("Failed to open mediapipe graph definition: absent, file: ");
    is_refused(server, &client, "absent");
    client.check_serves();
    let asked = request("pass", &[("in", &[1], &[1.0])]);
    assert_eq!(infer(&client, asked), "out [1] 1");
}

#[test]
fn one_graph_of_the_flags_that_cannot_be_loaded_is_reported_and_can_be_fixed() {
    let root = crate::support::repository::folder();
    // Features that only the C++ server has are reported as left out.
    let text = PASS.replace("PassThroughCalculator", "HttpLLMCalculator");
    graphs::write(root.path(), &text);
    let server = Server::begin("g", root.path(), &[]);
    let reported = server.wait_log("Unable to find Calculator \"HttpLLMCalculator\"; ");
    assert!(reported.contains(" ERROR "), "{reported}");
    let why = "graphs for large language models are absent from this server on purpose";
    assert!(reported.contains(why), "{reported}");
    server.wait_log("serving continues without the graph");
    server.wait_ready();
    let listed = get(&server, "/v1/config").json();
    assert_eq!(listed["g"]["model_version_status"][0]["state"], "LOADING");
    is_refused(&server, &Grpc::connect(&server), "g");
    graphs::write(root.path(), "nothing of this kind");
    assert_ne!(graphs::reload(&server), 201);
    assert_eq!(status(&server, "g"), "LOADING FAILED_PRECONDITION");
    graphs::write(root.path(), PASS);
    assert_eq!(graphs::reload(&server), 201);
    assert_eq!(status(&server, "g"), "AVAILABLE OK");
}

#[test]
fn graphs_heed_no_version() {
    let (server, client) = shared::connect();
    let body = br#"{"inputs":[{"name":"in","shape":[1],"datatype":"FP32","data":[0]}]}"#;
    for version in ["abc", "7", "-1", "99999999999999999999"] {
        let asked = |name: &str| {
            let mut asked = request(name, &[("in", &[1], &[1.0])]);
            asked.model_version = version.to_owned();
            asked
        };
        assert_eq!(infer(&client, asked("pass")), "out [1] 1");
        let of = |name: &str| format!("/v2/models/{name}/versions/{version}");
        for path in [of("pass"), of("pass") + "/ready"] {
            assert_eq!(get(server, &path).status, 200, "{path}");
        }
        let answer = post(server, &(of("pass") + "/infer"), body);
        assert_eq!(answer.status, 200, "{version}");
        assert_eq!(answer.json()["model_version"], "1");
        // Models do.
        client.refused(asked("dummy"));
        let refused = post(server, &(of("dummy") + "/infer"), body);
        assert_eq!(refused.status, 404, "{version}");
        client.refused(asked("nothing"));
    }
}

/// A handler that loads only once there is a file `go` beside it.
const SLOW: &str = r#"
import os, time
from pyovms import Tensor
class OvmsPythonModel:
    def initialize(self, kwargs):
        go = os.path.join(os.path.dirname(__file__), "go")
        while not os.path.exists(go):
            time.sleep(0.01)
    def execute(self, inputs):
        return [Tensor("out", b"done")]
"#;

#[test]
fn a_load_that_does_not_end_holds_up_nobody_for_ever() {
    let mut config = Config::of(&["dummy"]);
    let handler = graphs::add_python(&mut config, "slow", SLOW);
    add(&mut config, "good", PASS);
    let server = config.begin(&["--graph_load_seconds", "2"]);
    server.wait_log("Mediapipe: good state changed to: AVAILABLE");
    // It is being loaded, and requests wait a little.
    let client = Grpc::connect(&server);
    assert_eq!(status(&server, "slow"), "LOADING OK");
    let since = Instant::now();
    let asked = request("slow", &[("in", &[1], &[1.0])]);
    assert_eq!(
        client.refused(asked),
        "Unavailable: Mediapipe is not loaded yet"
    );
    assert!(since.elapsed() >= Duration::from_millis(500));
    server.wait_log("it took longer than 2s; check what its nodes do at startup");
    server.wait_ready();
    client.check_serves();
    assert_eq!(status(&server, "slow"), "LOADING FAILED_PRECONDITION");
    // Its worker was killed, so that another load can begin.
    server.wait_log("Python worker was killed: its handler has not loaded within 2s");
    let line = server.wait_log("the handler was at ");
    assert!(line.contains("handler.py:8 in initialize"), "{line}");
    assert_eq!(graphs::reload(&server), 412);
    std::fs::write(handler.with_file_name("go"), "").unwrap();
    eventually("loaded at last", || {
        (graphs::reload(&server) == 201).then_some(())
    });
    assert_eq!(status(&server, "slow"), "AVAILABLE OK");
}

#[test]
fn a_load_ends_though_its_worker_has_not_come() {
    let mut config = Config::of(&[]);
    graphs::add_python(&mut config, "slow", graphs::CODE);
    // An interpreter that begins when a file is there.
    let bin = config.beside("environment").join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let program = bin.join("python3");
    let python = concat!(env!("WORKSPACE_ROOT"), "/.venv/bin/python");
    let waits = "until [ -e \"$0.go\" ]; do sleep 0.02; done";
    std::fs::write(
        &program,
        format!("#!/bin/sh\n{waits}\nexec {python} \"$@\"\n"),
    )
    .unwrap();
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let environment = bin.parent().unwrap().to_str().unwrap();
    let flags = [
        "--graph_load_seconds",
        "2",
        "--python_environment",
        environment,
    ];
    let server = config.begin(&flags);
    server.wait_log("it took longer than 2s; check what its nodes do at startup");
    // The next one does not wait for it.
    assert_eq!(graphs::reload(&server), 412);
    let log = server.log();
    assert!(!log.contains("its previous load is still running"), "{log}");
    std::fs::write(bin.join("python3.go"), "").unwrap();
    eventually("it is loaded", || {
        (graphs::reload(&server) == 201).then_some(())
    });
    // The workers of loads that had ended come to nothing.
    let workers = "len(open(f'/proc/{os.getppid()}/task/{os.getppid()}/children').read().split())";
    let client = Grpc::connect(&server);
    eventually("one worker is left", || {
        (number(&client, "slow", workers) == 1).then_some(())
    });
}

#[test]
fn a_request_waits_for_a_graph_that_is_about_to_be_loaded() {
    let mut config = Config::of(&[]);
    let handler = graphs::add_python(&mut config, "slow", SLOW);
    let server = config.begin(&[]);
    let client = eventually("the ports are open", || {
        let listens = |port| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        let both = listens(server.port) && listens(server.rest_port);
        both.then(|| Grpc::connect(&server))
    });
    eventually("it is known", || {
        (status(&server, "slow") == "LOADING OK").then_some(())
    });
    let call = client.call(request("slow", &[("in", &[1], &[1.0])]));
    std::fs::write(handler.with_file_name("go"), "").unwrap();
    server.wait_log("Mediapipe: slow state changed to: AVAILABLE");
    // Unless the machine was too slow for that, it has waited.
    if let Err(status) = call.wait() {
        assert_eq!(status.message(), "Mediapipe is not loaded yet");
    }
    server.wait_ready();
    let asked = request("slow", &[("in", &[1], &[1.0])]);
    assert_eq!(client.answered(asked).outputs[0].name, "out");
}
