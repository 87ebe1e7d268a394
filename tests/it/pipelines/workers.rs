//! Workers of the Python nodes of pipelines, and the states of requests there.

use std::{fs, path::PathBuf, sync::LazyLock};

use ovms::proto::kserve::ModelInferRequest;
use serde_json::{Value, json};

use crate::support::{
    Server, cli, eventually,
    graphs::{CODE, reload, reported},
    grpc::{Grpc, raw},
    http::get,
    pipelines::{Config, custom, infer, is_ready, lines, request, status, wait_lines},
    terminal,
};

/// Writes a node that runs code.
fn node(name: &str, library: &str, inputs: &str) -> Value {
    custom(name, library, &json!({}), inputs, "out=o")
}

/// Makes a file with the pipelines `p` and `other`, of a node each that runs code from requests, and `two`, whose
/// second node runs what the first returns.
fn config() -> Config {
    let mut config = Config::of(&[]);
    let path = config.beside("code.py");
    fs::write(&path, CODE).unwrap();
    config.library_at("py", &path);
    for name in ["p", "other"] {
        config.pipeline(name, "in", &[node("n", "py", "in=request.in")], "out=n.o");
    }
    let nodes = [node("a", "py", "in=request.in"), node("b", "py", "in=a.o")];
    config.pipeline("two", "in", &nodes, "out=b.o");
    config
}

/// Sets an option of the workers of `p`.
fn set(config: &mut Config, option: &str, value: impl Into<Value>) {
    config.json["pipeline_config_list"][0][option] = value.into();
}

/// Adds a pipeline like `p` whose handler does not load while a file `hold-NAME` is there.
fn add_held<'a>(config: &'a mut Config, name: &str) -> &'a mut Value {
    let path = config.beside(&format!("{name}.py"));
    let hold = config.beside(&format!("hold-{name}"));
    let waits = format!("import os, time\nwhile os.path.exists({hold:?}): time.sleep(0.01)\n");
    fs::write(&path, waits + CODE).unwrap();
    config.library_at(name, &path);
    config.pipeline(name, "in", &[node("n", name, "in=request.in")], "out=n.o")
}

/// A handler that counts the calls of a request.
const COUNTING: &str = r#"
import os
from array import array
from pyovms import Tensor

class OvmsPythonModel:
    def initialize(self, kwargs):
        self.log = os.path.join(kwargs["base_path"], "states")

    def write(self, line):
        with open(self.log, "a") as file:
            file.write(line + "\n")

    def create_state(self):
        self.write("create")
        return {"calls": 0}

    def execute(self, inputs, state):
        state["calls"] += 1
        return [Tensor("out", array("f", [float(state["calls"])] * 10), [1, 10], "FP32")]

    def destroy_state(self, state):
        self.write(f"destroy after {state['calls']}")
"#;

/// The folder and the server of the pipelines of [`config`], whose workers no test kills, and of others.
static SHARED: LazyLock<(PathBuf, Server)> = LazyLock::new(|| {
    let mut config = config();
    for name in ["exits", "crashes", "loaded"] {
        config.pipeline(name, "in", &[node("n", "py", "in=request.in")], "out=n.o");
    }
    let limited = [node("n", "py", "in=request.in")];
    let limited = config.pipeline("limited", "in", &limited, "out=n.o");
    limited["python_timeout_ms"] = json!(300);
    limited["python_memory_limit"] = json!(1 << 30);
    let counting = config.beside("counting.py");
    fs::write(&counting, COUNTING).unwrap();
    config.library_at("counting", &counting);
    let counting = [node("n", "counting", "in=request.x")];
    config.pipeline("counting", "x", &counting, "y=n.o")["demultiply_count"] = json!(-1);
    add_held(&mut config, "thrice");
    add_held(&mut config, "pair")["python_workers"] = json!(2);
    (config.beside(""), config.serve_kept(&["--metrics_enable"]))
});

const FINE: &str = "return [Tensor('out', b'fine')]";
const PID: &str = "import os; return [Tensor('out', str(os.getpid()).encode())]";

fn code(pipeline: &str, body: &str) -> ModelInferRequest {
    let length = i64::try_from(body.len()).unwrap();
    raw(pipeline, "in", "UINT8", &[length], body.as_bytes())
}

fn is_fine(client: &Grpc, pipeline: &str) {
    assert_eq!(reported(client, code(pipeline, FINE)), "out UINT8 [4] fine");
}

/// Returns the text that a pipeline gives.
fn text(client: &Grpc, pipeline: &str, body: &str) -> String {
    let answer = client.answered(code(pipeline, body));
    String::from_utf8(answer.raw_output_contents[0].to_vec()).unwrap()
}

fn kill(process: &str) {
    let killed = std::process::Command::new("kill")
        .args(["-s", "KILL", process])
        .status();
    assert!(killed.unwrap().success());
}

#[test]
fn nodes_of_a_pipeline_share_a_worker() {
    let client = Grpc::connect(&SHARED.1);
    let both = "import os; return [Tensor('out', (\"import os; return [Tensor('out', f'%d {os.getpid()}'.encode())]\" % os.getpid()).encode())]";
    let both = text(&client, "two", both);
    let (first, second) = both.split_once(' ').unwrap();
    assert_eq!(first, second);
    let others = [text(&client, "p", PID), text(&client, "other", PID)];
    assert!(others[0] != others[1] && !others.contains(&first.to_owned()));
}

#[test]
fn a_worker_that_dies_fails_the_calls_in_flight_and_is_replaced() {
    let server = &SHARED.1;
    let client = Grpc::connect(server);
    let other = text(&client, "other", PID);
    for (name, body, how) in [
        ("exits", "import os; os._exit(3)", "ended with status 3"),
        (
            "crashes",
            "import ctypes; ctypes.string_at(0)",
            "was killed by SIGSEGV",
        ),
    ] {
        let waits = client.call(code(name, "import time; time.sleep(100)"));
        eventually("it waits", || {
            let tasks = "import os; return [Tensor('out', str(len(os.listdir('/proc/self/task'))).encode())]";
            (text(&client, name, tasks) != "1" && text(&client, name, tasks) != "2").then_some(())
        });
        let died = format!(
            "Unavailable: Custom node failed during execution - Node: n; worker of pipeline {name} {how} in node n"
        );
        assert_eq!(reported(&client, code(name, body)), died);
        let error = waits.wait().expect_err("its worker has died");
        assert!(died.ends_with(error.message()), "{error}");
        is_fine(&client, name);
        let of = format!("of=\"pipeline {name}\"");
        server.wait_log(&format!("Python worker {how} {of}"));
        server.wait_log(&format!(
            "Python worker has restarted, with its handlers {of}"
        ));
        assert_eq!(text(&client, "other", PID), other);
    }
}

#[test]
fn a_check_finds_methods_that_cannot_be_called_as_they_are() {
    let config = config();
    let handler = "class OvmsPythonModel:\n    def execute(self):\n        return []\n";
    fs::write(config.beside("code.py"), handler).unwrap();
    let file = config.write();
    let found = "`execute` cannot be called as it is: found `def execute(self)`, expected `def execute(self, inputs)`";
    let check = |args: &[&str]| {
        let run = cli::run(cli::command().args(args).arg(&file));
        assert_eq!(run.code, Some(1), "{}{}", run.text(), run.failure());
        let shown = run.text() + &run.failure();
        let place = format!("{}:2: {found}", config.beside("code.py").display());
        assert!(shown.contains(&place), "{shown}");
    };
    check(&["pipeline", "check"]);
    check(&["serve", "--port", "1", "--check", "--config-path"]);
}

#[test]
fn an_exception_of_a_handler_is_placed_in_the_handler() {
    let config = config();
    let path = config.beside("code.py");
    fs::write(&path, format!("import json\nimport missing_module\n{CODE}")).unwrap();
    let file = config.write();
    let place = format!("{}:2:1", path.display());
    let traceback = "Traceback (most recent call last):\n";
    let check = || {
        let mut check = cli::command();
        check.args(["pipeline", "check"]).arg(&file).arg("p");
        let run = cli::run(&mut check);
        run.text() + &run.failure()
    };
    let shown = check();
    assert!(shown.starts_with(traceback), "{shown}");
    assert_eq!(shown.matches(traceback).count(), 1, "{shown}");
    assert!(shown.contains(&format!(" --> {place}\n")), "{shown}");
    assert!(shown.contains("\n2 | import missing_module\n"), "{shown}");
    let mut serve = cli::command();
    serve.args(["serve", "--port", "1", "--check", "--config-path"]);
    let run = cli::run(serve.arg(&file));
    let head = format!("error: {place}: pipeline `p`, node `n`: ");
    assert!(run.failure().contains(&head), "{}", run.failure());
    let server = config.serve();
    let line = server.wait_log(&format!("{place}: "));
    assert!(
        line.contains("ModuleNotFoundError: No module named 'missing_module'"),
        "{line}"
    );
    let log = server.log();
    let (_, rest) = log
        .split_once("Traceback (most recent call last):")
        .expect(&log);
    assert!(rest.contains("code.py\", line 2, in <module>"), "{rest}");
    assert!(
        rest.contains("Error during python node initialization for handler_path"),
        "{rest}"
    );
    // One that ends its worker as well.
    let crash = "import ctypes\nctypes.string_at(0)\n";
    fs::write(&path, format!("{crash}{CODE}")).unwrap();
    let shown = check();
    assert!(shown.contains(&format!(" --> {place}\n")), "{shown}");
    assert!(shown.contains("\n2 | ctypes.string_at(0)\n"), "{shown}");
}

#[test]
fn a_worker_that_is_killed_under_load_fails_what_it_has_and_no_more() {
    let client = Grpc::connect(&SHARED.1);
    for _ in 0..2 {
        let worker = text(&client, "loaded", PID);
        let slow = format!("import time; time.sleep(0.2)\n{FINE}");
        let calls: Vec<_> = (0..30)
            .map(|_| client.call(code("loaded", &slow)))
            .collect();
        is_fine(&client, "loaded");
        kill(&worker);
        let died = calls.into_iter().filter_map(|call| call.wait().err());
        let died: Vec<_> = died.map(|error| error.message().to_owned()).collect();
        assert!(!died.is_empty());
        let how = "Custom node failed during execution - Node: n; worker of pipeline loaded was killed by SIGKILL";
        assert!(died.iter().all(|text| text.starts_with(how)), "{died:?}");
        is_fine(&client, "loaded");
        assert_ne!(text(&client, "loaded", PID), worker);
    }
}

#[test]
fn after_three_deaths_a_pipeline_is_not_ready_until_a_worker_has_started() {
    let (folder, server) = &*SHARED;
    let client = Grpc::connect(server);
    let counts = || {
        let page = get(server, "/metrics").text();
        let ours = page
            .lines()
            .filter(|line| line.starts_with("ovms_python_worker"));
        let ours = ours.filter(|line| line.contains(r#"name="thrice""#));
        ours.map(str::to_owned).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(
        counts(),
        r#"ovms_python_worker_deaths{name="thrice"} 0; ovms_python_worker_restarts{name="thrice"} 0"#
    );
    for _ in 0..2 {
        let worker = text(&client, "thrice", PID);
        kill(&worker);
        eventually("another one is there", || {
            let answer = client.infer(code("thrice", PID)).ok()?;
            (answer.raw_output_contents[0] != worker).then_some(())
        });
    }
    assert!(is_ready(server, &client, "thrice"));
    let worker = text(&client, "thrice", PID);
    fs::write(folder.join("hold-thrice"), "").unwrap();
    kill(&worker);
    eventually("it is not ready", || {
        (!is_ready(server, &client, "thrice")).then_some(())
    });
    let reason = "worker of pipeline thrice was killed by SIGKILL, 3 times within a minute; it restarts after 2 s";
    assert_eq!(
        reported(&client, code("thrice", FINE)),
        format!("Unavailable: Pipeline is not ready - {reason}")
    );
    assert_eq!(status(server, "thrice"), "LOADING UNKNOWN");
    let error = get(server, "/v2/models/thrice/ready").error();
    assert_eq!(error, format!("404: Pipeline is not ready - {reason}"));
    // Its metadata is known all the same, and nobody else is held up.
    assert_eq!(get(server, "/v2/models/thrice").status, 200);
    assert_eq!(get(server, "/v2/health/ready").status, 200);
    assert!(is_ready(server, &client, "other"));
    is_fine(&client, "other");
    fs::remove_file(folder.join("hold-thrice")).unwrap();
    eventually("it is ready", || {
        is_ready(server, &client, "thrice").then_some(())
    });
    is_fine(&client, "thrice");
    assert_eq!(status(server, "thrice"), "AVAILABLE OK");
    assert_eq!(
        counts(),
        r#"ovms_python_worker_deaths{name="thrice"} 3; ovms_python_worker_restarts{name="thrice"} 3"#
    );
}

#[test]
fn requests_go_to_the_worker_with_the_fewest_calls() {
    let (folder, server) = &*SHARED;
    let client = Grpc::connect(server);
    let (log, gate) = (folder.join("log"), folder.join("gate"));
    let waits = format!(
        "import os\nopen({log:?}, 'a').write('x\\n')\nwhile not os.path.exists({gate:?}): time.sleep(0.01)\n{PID}"
    );
    let calls = [(); 2].map(|()| client.call(code("pair", &waits)));
    wait_lines(&log, "x", 2);
    fs::write(&gate, "").unwrap();
    let workers = calls.map(|call| call.wait().unwrap().raw_output_contents[0].clone());
    assert_ne!(workers[0], workers[1]);
    // One that does not come back leaves the other.
    fs::write(folder.join("hold-pair"), "").unwrap();
    kill(std::str::from_utf8(&workers[0]).unwrap());
    server.wait_log("Python worker was killed by SIGKILL of=\"pipeline pair\"");
    for _ in 0..3 {
        is_fine(&client, "pair");
    }
    assert!(is_ready(server, &client, "pair"));
    fs::remove_file(folder.join("hold-pair")).unwrap();
}

#[test]
fn a_pipeline_may_have_limits_of_time_and_memory() {
    let client = Grpc::connect(&SHARED.1);
    let error = reported(&client, code("limited", "while True: pass"));
    let reason = "worker of pipeline limited was killed after 300 ms (python_timeout_ms) in node n";
    assert!(error.ends_with(reason), "{error}");
    let state = get(&SHARED.1, "/dashboard/state").json();
    let mut servables = state["servables"].as_array().unwrap().iter();
    let limited = servables.find(|it| it["name"] == "limited").unwrap();
    assert_eq!(limited["condition"], "warning", "{limited}");
    let failed = limited["versions"][0]["last_error"].as_str();
    assert!(failed.unwrap().ends_with(reason), "{limited}");
    let error = reported(&client, code("limited", "bytearray(2 << 30)"));
    assert!(error.ends_with("Node: n - MemoryError"), "{error}");
    is_fine(&client, "limited");
}

#[test]
fn a_run_at_a_terminal_has_no_limit_of_time() {
    let mut config = config();
    set(&mut config, "python_timeout_ms", 300);
    let path = config.write();
    let body = format!("import time; time.sleep(1); {FINE}");
    let input = format!("in:UINT8={:?}", body.as_bytes());
    let args = ["pipeline", "run", path.to_str().unwrap(), "p", "-i", &input];
    let steps = [("python_timeout_ms (300) is ignored at a terminal", Some(""))];
    let screen = terminal::run(200, &args, &[], &steps);
    assert_eq!(screen.code, 0, "{}", screen.text());
    let run = cli::ovms(args);
    assert_eq!(run.code, Some(1), "{}", run.failure());
    let reason = "was killed after 300 ms (python_timeout_ms) in node n";
    assert!(run.stderr.contains(reason), "{}", run.stderr);
    assert!(!run.stderr.contains("is ignored"), "{}", run.stderr);
}

#[test]
fn a_reload_starts_new_workers_for_other_options_and_other_code() {
    let mut config = config();
    let server = config.serve();
    let client = Grpc::connect(&server);
    let pids = || ["p", "other"].map(|name| text(&client, name, PID));
    let first = pids();
    assert_eq!(reload(&server), 200);
    assert_eq!(pids(), first);
    set(&mut config, "python_timeout_ms", 60_000);
    assert_eq!(config.reload(&server), "201");
    let second = pids();
    assert!(second[0] != first[0] && second[1] == first[1]);
    // What ends its worker when it is loaded does not end that which serves.
    fs::write(config.beside("code.py"), "import os\nos._exit(3)\n").unwrap();
    assert_eq!(reload(&server), 412);
    assert_eq!(pids(), second);
    assert_eq!(status(&server, "p"), "AVAILABLE UNKNOWN");
    fs::write(config.beside("code.py"), CODE).unwrap();
    assert_eq!(reload(&server), 201);
    is_fine(&client, "p");
    // The other node of the pipeline found the worker dead; what is logged of that stands before all that came since.
    server.wait_log("Python worker ended with status 3");
    let log = server.log();
    let deaths = log.lines().filter(|line| {
        line.contains("Python worker ended with status 3") && line.contains("of=\"pipeline two\"")
    });
    assert_eq!(deaths.count(), 1, "{log}");
}

#[test]
fn each_request_has_a_state_of_its_own() {
    let client = Grpc::connect(&SHARED.1);
    let log = SHARED.0.join("states");
    for round in 1..=2 {
        let answer = infer(&client, request("counting", &[("x", &[3, 1], &[0.0; 3])]));
        let mut calls: Vec<&str> = answer.split(' ').skip(2).collect();
        calls.sort_unstable();
        assert_eq!(calls, ["1", "2", "3"], "{answer}");
        eventually("states", || {
            (lines(&log, "destroy after 3").len() == round).then_some(())
        });
        assert_eq!(lines(&log, "create").len(), round);
    }
}
