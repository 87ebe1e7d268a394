//! `ovms graph run`: packets and timestamps, in this process.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::graphs::new::{graph, shown};
use crate::support::{
    graphs::{PYTHON, TWO},
    infer::interrupt,
    repository,
};

/// Writes a graph with a handler.
fn write(folder: &Path, text: &str, handler: &str) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("graph.pbtxt"), text).unwrap();
    fs::write(folder.join("handler.py"), handler).unwrap();
}

/// Returns the lines of packets, without those of the nodes.
fn lines(folder: &Path, args: &[&str]) -> String {
    let run = graph(folder, &[&["run"], args].concat());
    assert_eq!(run.code, Some(0), "{}", shown(&run));
    let text = run.text();
    let (packets, nodes) = text.split_once("\n\n").unwrap();
    assert!(
        nodes.contains("longest µs") && nodes.contains("in all"),
        "{nodes}"
    );
    packets.to_owned()
}

#[test]
fn requests_in_lines_have_times_and_may_lack_inputs() {
    let folder = repository::folder();
    write(&folder.path().join("g"), TWO, "");
    let requests = [
        r#"{"a": [1, 2], "b": "text"}"#,
        "",
        r#"{"a": [[true]], "timestamp": 7}"#,
        r#"{"b": 3}"#,
    ];
    fs::write(folder.path().join("requests"), requests.join("\n")).unwrap();
    insta::assert_snapshot!(lines(folder.path(), &["g", "--requests", "requests"]));
    let from = ["g", "-i", "a=1", "--timestamp", "-5"];
    insta::assert_snapshot!(lines(folder.path(), &from));
}

#[test]
fn a_graph_that_fails_shows_what_came_before() {
    let folder = repository::folder();
    let handler = "\
class OvmsPythonModel:
    def execute(self, inputs):
        from pyovms import Tensor
        if bytes(inputs[0].data) == bytes(4):
            raise ValueError('zero')
        return [Tensor('out', inputs[0].data)]
";
    write(&folder.path().join("g"), PYTHON, handler);
    fs::write(folder.path().join("requests"), "[1]\n[0]\n[2]\n").unwrap();
    let run = graph(
        folder.path(),
        &["run", "g", "--requests", "requests", "--output", "json"],
    );
    assert_eq!(run.code, Some(1), "{}", shown(&run));
    let text = run.text();
    assert!(text.starts_with(r#"{"outputs":[{"#), "{text}");
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let error = last["error"].as_str().unwrap();
    assert!(error.contains("node \"py\" failed"), "{error}");
    assert!(run.stderr.contains("ValueError: zero"), "{}", run.stderr);
}

#[test]
fn what_cannot_run_is_reported() {
    let folder = repository::folder();
    let path = folder.path();
    write(&path.join("g"), PYTHON, "raise ValueError('at once')\n");
    write(&path.join("two"), TWO, "");
    fs::write(path.join("bad"), "{\"a\": 1}\n{]\n").unwrap();
    let run = graph(path, &["run", "g", "-i", "in=1"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("ValueError: at once"), "{}", run.stderr);
    assert_eq!(graph(path, &["run", "two"]).code, Some(64));
    assert_eq!(graph(path, &["run", "two", "-i", "c=1"]).code, Some(64));
    let run = graph(path, &["run", "two", "--requests", "bad"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("bad, line 2"), "{}", run.stderr);
    let entries =
        r#"{"model_config_list": [], "mediapipe_config_list": [{"name": "g"}, {"name": "two"}]}"#;
    fs::write(path.join("config.json"), entries).unwrap();
    assert_eq!(
        graph(path, &["run", "config.json", "-i", "a=1"]).code,
        Some(64)
    );
    assert_eq!(graph(path, &["run", "config.json", "three"]).code, Some(64));
}

/// A handler that prints its calls, and fails on request.
const TELLING: &str = "\
import os
from pyovms import Tensor
class OvmsPythonModel:
    def initialize(self, kwargs):
        self.folder = kwargs['base_path']
        assert os.path.isabs(self.folder), self.folder
    def note(self, text):
        with open(os.path.join(self.folder, 'notes'), 'a') as notes:
            notes.write(text)
    def create_state(self):
        return 0
    def destroy_state(self, state):
        self.note('destroyed ')
    def finalize(self):
        self.note('finalized')
    def execute(self, inputs, state):
        if bytes(inputs[0].data) == bytes(4):
            raise ValueError('zero')
        return [Tensor('out', inputs[0].data)]
";

/// Starts a run with requests from standard input.
fn typing(folder: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_ovms"))
        .args(["graph", "run", "g", "--requests", "-"])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits for the end of a run; returns its exit code.
fn ended(child: &mut Child) -> Option<i32> {
    let limit = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if Instant::now() > limit {
            child.kill().unwrap();
            panic!("the run does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_error_is_reported_while_more_requests_may_come() {
    let folder = repository::folder();
    write(&folder.path().join("g"), PYTHON, TELLING);
    let mut run = typing(folder.path());
    let mut stdin = run.stdin.take().unwrap();
    stdin.write_all(b"[0]\n").unwrap();
    assert_eq!(ended(&mut run), Some(1));
    let mut stderr = String::new();
    run.stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert!(stderr.contains("ValueError: zero"), "{stderr}");
    drop(stdin);
}

#[test]
fn ctrl_c_ends_states_and_handlers_and_shows_the_nodes() {
    let folder = repository::folder();
    write(&folder.path().join("g"), PYTHON, TELLING);
    let mut run = typing(folder.path());
    let mut stdin = run.stdin.take().unwrap();
    stdin.write_all(b"[1]\n").unwrap();
    let mut stdout = BufReader::new(run.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert!(line.contains("out"), "{line}");
    interrupt(&run);
    assert_eq!(ended(&mut run), Some(130));
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("longest µs"), "{rest}");
    let notes = fs::read_to_string(folder.path().join("g/notes")).unwrap();
    assert_eq!(notes, "destroyed finalized");
    drop(stdin);
}
