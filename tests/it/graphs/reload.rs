//! Graphs during configuration reloads and server shutdown.

use std::{fs, path::Path};

use super::{
    python::errors_of_requests_name_graph_and_node_in_the_log,
    worker_ends::a_worker_that_dies_while_it_loads_is_not_replaced,
};
use crate::support::{
    Server, eventually,
    graphs::{self, CODE, LIST, PASS, add, add_python, changes, file, reload, shown},
    grpc::{Grpc, raw},
    http::get,
    pipelines::{Config, infer, lines, request, status, wait_lines},
    repository,
};

/// Returns the message of a graph in status calls.
fn message(server: &Server, name: &str) -> String {
    let json = get(server, &format!("/v1/models/{name}")).json();
    let status = &json["model_version_status"][0]["status"];
    status["error_message"].as_str().unwrap().to_owned()
}

fn one(name: &str) -> ovms::proto::kserve::ModelInferRequest {
    request(name, &[("in", &[1, 1], &[3.0])])
}

#[test]
fn another_graph_file_takes_effect_when_somebody_asks() {
    let mut config = Config::of(&[]);
    add(&mut config, "g", PASS);
    add(&mut config, "h", PASS);
    let server = config.serve_with(&["--file_system_poll_wait_seconds", "1"]);
    let client = Grpc::connect(&server);
    assert_eq!(reload(&server), 200);
    graphs::write(&config.beside("g"), &PASS.replace(":out", ":other"));
    // The watcher sees the file of the server alone.
    config.put(LIST, serde_json::json!({"name": "late", "base_path": "h"}));
    let before = changes(&server, "g").len();
    assert_eq!(infer(&client, one("g")), "out [1,1] 3");
    assert_eq!(before, 1);
    assert_eq!(reload(&server), 201);
    assert_eq!(infer(&client, one("g")), "other [1,1] 3");
    let expected = [
        "AVAILABLE ValidationPassed",
        "RELOADING Reload",
        "AVAILABLE ValidationPassed",
    ];
    eventually("it is logged", || {
        (changes(&server, "g") == expected).then_some(())
    });
    assert_eq!(
        changes(&server, "h"),
        expected[..1],
        "nothing of it has changed"
    );
    assert_eq!(reload(&server), 200);
    // Another file of the server is brought into effect by the watcher, and what else has changed
    // with it.
    graphs::write(&config.beside("g"), PASS);
    let waiting = config.beside("waiting");
    fs::create_dir(&waiting).unwrap();
    config.model("waiting", &waiting);
    config.write();
    server.wait_log("Mediapipe: late state changed to: AVAILABLE");
    eventually("loaded again", || {
        (changes(&server, "g").len() == 5).then_some(())
    });
    assert_eq!(infer(&client, one("g")), "out [1,1] 3");
    assert_eq!(changes(&server, "h"), expected[..1]);
    // An entry is a graph as soon as its folder holds one.
    graphs::write(&waiting, PASS);
    server.wait_log("Mediapipe: waiting state changed to: AVAILABLE");
    assert_eq!(infer(&client, one("waiting")), "out [1,1] 3");
}

#[test]
fn the_folder_of_the_flags_is_a_graph_as_soon_as_it_holds_one() {
    let root = repository::folder();
    let flags = ["--file_system_poll_wait_seconds", "0"];
    let server = Server::begin("g", root.path(), &flags);
    server.wait_ready();
    graphs::write(root.path(), PASS);
    assert_eq!(reload(&server), 201);
    server.wait_log("Mediapipe: g state changed to: AVAILABLE");
    assert_eq!(infer(&Grpc::connect(&server), one("g")), "out [1,1] 3");
}

/// Returns a handler that logs its life cycle, and reports its version.
fn witness(version: &str, log: &Path) -> String {
    format!(
        r#"
import os
from pyovms import Tensor
def note(text):
    with open({log:?}, "a") as file:
        file.write(text + " {version}\n")
class OvmsPythonModel:
    def initialize(self, kwargs):
        note("begin")
    def execute(self, inputs):
        go = os.path.join(os.path.dirname(__file__), "wait")
        note("run")
        import time
        while os.path.exists(go):
            time.sleep(0.01)
        return [Tensor("out", b"{version}")]
    def finalize(self):
        note("end")
"#
    )
}

/// Sends a request and returns the response as text.
fn ask(client: &Grpc, name: &str) -> String {
    let answer = client.answered(one(name));
    String::from_utf8(answer.raw_output_contents[0].to_vec()).unwrap()
}

#[test]
fn handlers_are_reloaded() {
    let mut config = Config::of(&[]);
    let log = config.beside("log");
    let handler = add_python(&mut config, "g", &witness("old", &log));
    let kept = witness("old", &config.beside("kept.log"));
    add_python(&mut config, "kept", &kept);
    add_python(&mut config, "py", CODE);
    add_python(&mut config, "dies", "import os; os._exit(7)\n");
    let mut server = config.serve();
    let client = Grpc::connect(&server);
    a_worker_that_dies_while_it_loads_is_not_replaced(&config, &server, &client);
    errors_of_requests_name_graph_and_node_in_the_log(&config, &server, &client);
    the_old_handler_serves_while_the_new_one_fails(&config, &server, &client);
    // Another one takes effect, and the old one ends with its last request.
    assert_eq!(ask(&client, "g"), "old");
    let wait = handler.with_file_name("wait");
    fs::write(&wait, "").unwrap();
    let in_flight = client.call(one("g"));
    wait_lines(&log, "run old", 2);
    // What runs goes on with what it has begun.
    fs::write(&handler, witness("new", &log)).unwrap();
    assert_eq!(reload(&server), 201);
    wait_lines(&log, "begin new", 1);
    assert_eq!(lines(&log, "end"), [""; 0]);
    fs::remove_file(&wait).unwrap();
    let answer = in_flight.wait().unwrap();
    assert_eq!(answer.raw_output_contents[0].as_ref(), b"old");
    wait_lines(&log, "end old", 1);
    assert_eq!(ask(&client, "g"), "new");
    assert_eq!(reload(&server), 200);
    server.signal("TERM");
    assert!(server.wait().success());
    let all = fs::read_to_string(&log).unwrap();
    let reported: Vec<&str> = all
        .lines()
        .filter(|line| !line.starts_with("run"))
        .collect();
    assert_eq!(reported, ["begin old", "begin new", "end old", "end new"]);
}

fn the_old_handler_serves_while_the_new_one_fails(config: &Config, server: &Server, client: &Grpc) {
    let (log, handler) = (config.beside("kept.log"), config.beside("kept/handler.py"));
    let raises = witness("bad", &log).replace("note(\"begin\")", "raise ValueError(\"no\")");
    for (text, reported) in [
        ("class (", "SyntaxError"),
        (&raises, "ValueError: no"),
        ("x = 1", "OvmsPythonModel"),
    ] {
        fs::write(&handler, text).unwrap();
        assert_eq!(reload(server), 412);
        assert_eq!(status(server, "kept"), "AVAILABLE UNKNOWN");
        let message = message(server, "kept");
        assert!(message.contains(reported), "{message}");
        assert_eq!(ask(client, "kept"), "old");
    }
    assert_eq!(lines(&log, "end old"), [""; 0]);
    fs::write(&handler, witness("new", &log)).unwrap();
    assert_eq!(reload(server), 201);
    assert_eq!(status(server, "kept"), "AVAILABLE OK");
    assert_eq!(ask(client, "kept"), "new");
    wait_lines(&log, "end old", 1);
}

#[test]
fn a_handler_that_is_saved_is_noticed() {
    let says = |text: &str| {
        format!(
            "from pyovms import Tensor\nimport helper\nclass OvmsPythonModel:\n  def execute(self, inputs): return [Tensor('out', b'{text}' + helper.SAYS)]\n"
        )
    };
    let mut config = Config::of(&[]);
    add_python(&mut config, "g", &says("first"));
    file(&config, "g/helper.py", "SAYS = b'.'\n");
    let server = config.serve_with(&["--file_system_poll_wait_seconds", "1"]);
    let client = Grpc::connect(&server);
    let request = || raw("g", "in", "UINT8", &[1], b"x");
    let comes = |text: &str| {
        eventually("the new one answers", || {
            (shown(&client.infer(request()).ok()?) == text).then_some(())
        });
    };
    comes("out UINT8 [6] first.");
    file(&config, "g/handler.py", &says("second"));
    comes("out UINT8 [7] second.");
    file(&config, "g/helper.py", "SAYS = b'!'\n");
    comes("out UINT8 [7] second!");
    // One that breaks takes nothing away, and is fixed the same way.
    file(
        &config,
        "g/handler.py",
        "raise ValueError('half written')\n",
    );
    server.wait_log("half written");
    assert_eq!(shown(&client.answered(request())), "out UINT8 [7] second!");
    file(&config, "g/handler.py", &says("third"));
    comes("out UINT8 [6] third!");
}
