//! `ovms pipeline run` and nodes that never end. What it reports is in `tests/conformance/pipelines/run.txt`.

use std::{fs, process::Command};

use serde_json::json;

use crate::support::{
    cli, model,
    nodes::compiled_with,
    pipelines::{connections, custom, dl},
    repository,
};

#[test]
fn boxes_with_scores_are_ranked() {
    let folder = repository::folder();
    let node = |name: &str| dl(name, "same", &format!("in=request.{name}"), "out=out");
    let config = json!({
        "model_config_list": [
            {"config": {"name": "same", "base_path": model("passthrough_f32")}},
        ],
        "pipeline_config_list": [
            {"name": "p", "inputs": ["boxes", "scores"],
             "outputs": connections("boxes=boxes.out scores=scores.out"),
             "nodes": [node("boxes"), node("scores")]},
        ],
    });
    let path = folder.path().join("config.json");
    fs::write(&path, config.to_string()).unwrap();
    let run = |scores: &str, flags: &[&str]| {
        let mut command = cli::command();
        command.args(["pipeline", "run"]).arg(&path);
        command.args(["p", "-i", "boxes=[[1,2,3,4],[5,6,7,8]]", "-i", scores]);
        cli::run(command.args(["--top", "2"]).args(flags))
    };
    let scores = "scores=[[0.25],[0.75]]";
    let table = run(scores, &[]);
    assert_eq!(table.code, Some(0), "{}", table.stderr);
    let text = table.text();
    let rows: Vec<&str> = text.lines().rev().take(3).collect();
    assert!(rows[2].starts_with("rank  score  box"), "{text}");
    assert!(rows[1].contains("0.75  5, 6, 7, 8"), "{text}");
    assert!(rows[0].contains("0.25  1, 2, 3, 4"), "{text}");
    let report = run(scores, &["--output", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let ranking = &report["ranking"];
    assert_eq!(ranking["output"], "boxes");
    assert_eq!(ranking["top"][0][0]["index"], 1);
    assert_eq!(ranking["top"][0][0]["box"], json!([5.0, 6.0, 7.0, 8.0]));
    // As many scores as boxes, or they are those of something else.
    let other = run("scores=[[0.25]]", &[]);
    assert!(
        other
            .failure()
            .contains("choose with `--output-name`: `boxes`, `scores`"),
        "{}",
        other.failure()
    );
}

#[test]
fn a_node_that_never_ends_is_not_waited_for() {
    let folder = repository::folder();
    // It does not list its inputs, so that the pipeline is refused.
    let library = compiled_with("who.c", &["-DSTAYS"]);
    let config = json!({
        "model_config_list": [],
        "custom_node_library_config_list": [{"name": "who", "base_path": library}],
        "pipeline_config_list": [
            {"name": "p", "inputs": ["x"], "outputs": connections("y=stays.o"),
             "nodes": [custom("stays", "who", &json!({}), "in=request.x", "who=o")]},
        ],
    });
    let path = folder.path().join("config.json");
    fs::write(&path, config.to_string()).unwrap();
    let mut command = Command::new("timeout");
    command.args(["60", env!("CARGO_BIN_EXE_ovms"), "pipeline", "run"]);
    let run = cli::run(command.arg(path).args(["p", "--zeros"]));
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(
        run.stderr.contains("the pipeline `p` cannot run"),
        "{}",
        run.stderr
    );
}
