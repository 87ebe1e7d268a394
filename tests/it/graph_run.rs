//! `ovms graph run`: packets and times, in this process.

use std::{fs, path::Path};

use super::graph_new::{graph, shown};
use crate::support::{
    graphs::{PYTHON, TWO},
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
fn what_cannot_run_is_told() {
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
