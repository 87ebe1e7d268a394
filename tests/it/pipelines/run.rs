//! `ovms pipeline run` and nodes that never end. What it reports is in `tests/conformance/pipelines/run.txt`.

use std::{fs, process::Command};

use serde_json::json;

use crate::support::{
    cli,
    nodes::compiled_with,
    pipelines::{connections, custom},
    repository,
};

#[test]
fn a_node_that_never_ends_is_not_waited_for() {
    let folder = repository::folder();
    // It does not tell its inputs, so that the pipeline is refused.
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
