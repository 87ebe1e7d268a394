//! `ovms graph show`: without a server and without a runtime.

use std::fs;

use crate::graphs::new::{graph, shown};
use crate::support::repository;

/// A node with an unconnected input and an unknown calculator.
const FAULTY: &str = r#"input_stream: "in"
output_stream: "out"
node { calculator: "NoCalculator" input_stream: "IN:nobody" output_stream: "OUT:out" }
"#;

#[test]
fn graphs_are_drawn_sound_or_not() {
    let folder = repository::folder();
    let run = graph(folder.path(), &["new", "words", "--generative"]);
    assert_eq!(run.code, Some(0), "{}", shown(&run));
    for path in ["words", "words/graph.pbtxt", "words/config.json"] {
        let run = graph(folder.path(), &["show", path]);
        assert_eq!(run.failure(), "exit 0\n");
        insta::assert_snapshot!("words", run.text());
    }
    fs::write(folder.path().join("faulty.pbtxt"), FAULTY).unwrap();
    let run = graph(folder.path(), &["show", "faulty.pbtxt"]);
    assert_eq!(run.failure(), "exit 0\n");
    insta::assert_snapshot!(run.text());
}

#[test]
fn every_format_can_be_written_to_a_file() {
    let folder = repository::folder();
    fs::write(folder.path().join("g.pbtxt"), FAULTY).unwrap();
    for (format, start) in [
        ("dot", "digraph \"g\""),
        ("mermaid", "---\ntitle: \"g\""),
        ("svg", "<?xml"),
        ("html", "<!DOCTYPE html>"),
        ("json", "{\n  \"name\": \"g\""),
    ] {
        let args = ["show", "g.pbtxt", "--format", format, "-o", "out"];
        let run = graph(folder.path(), &args);
        assert_eq!(shown(&run), "exit 0\n", "{format}");
        let text = fs::read_to_string(folder.path().join("out")).unwrap();
        assert!(text.starts_with(start), "{text}");
    }
}

#[test]
fn what_is_no_graph_is_reported() {
    let folder = repository::folder();
    fs::write(folder.path().join("g.pbtxt"), "node { nam: \"x\" }").unwrap();
    fs::write(
        folder.path().join("none.json"),
        r#"{"model_config_list": []}"#,
    )
    .unwrap();
    let reported = [
        &["show", "g.pbtxt"][..],
        &["show", "g.pbtxt", "name"],
        &["show", "gone"],
        &["show", "none.json"],
        &["show", "none.json", "name"],
    ]
    .map(|args| shown(&graph(folder.path(), args)));
    insta::assert_snapshot!(reported.join("\n"));
}

#[test]
fn very_large_graphs_are_not_drawn() {
    let folder = repository::folder();
    let node = "node { calculator: \"PassThroughCalculator\" input_stream: \"a\" }\n";
    let text = format!("input_stream: \"a\"\n{}", node.repeat(2001));
    fs::write(folder.path().join("graph.pbtxt"), text).unwrap();
    for format in ["text", "svg", "html"] {
        let run = graph(folder.path(), &["show", ".", "--format", format]);
        assert_eq!(run.code, Some(1), "{format}");
        assert!(run.stderr.contains("has 2001 nodes"), "{}", run.stderr);
    }
    let run = graph(folder.path(), &["show", ".", "--format", "dot"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
}
