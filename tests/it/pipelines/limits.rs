//! Pipelines that could crash or block the server: empty shapes, slow custom nodes, and conflicting
//! names.

use std::time::{Duration, Instant};

use serde_json::json;

use super::shared::SHARED;
use crate::support::{
    cli,
    grpc::Grpc,
    http::get,
    pipelines::{Config, custom, dl, infer, request, status, ten, wait_lines},
};

const X: &str = "b=request.x";

/// Adds pipelines to the shared server.
pub(super) fn add(config: &mut Config) {
    config.pipeline("rows", "x", &[], "out_string=request.x");
    let node = [dl("n", "dummy", X, "a=y")];
    config.pipeline("itself", "x", &node, "out=n.y x=request.x");
    config.pipeline("counted", "x", &node, "out=n.y");
    let deep = custom(
        "c",
        "shaped",
        &json!({"stack": "6000"}),
        "in=request.x",
        "out=y",
    );
    config.pipeline("deep", "x", &[deep], "out=c.y");
}

#[test]
fn custom_nodes_have_the_stack_of_other_servers() {
    let client = Grpc::connect(&SHARED.server);
    assert_eq!(infer(&client, ten("deep", 1.0)), "out [1,10] 1");
    let config = SHARED.beside("config.json");
    for words in [&["run", "--zeros"][..], &["check"]] {
        let mut command = cli::command();
        command
            .args(["pipeline", words[0]])
            .arg(&config)
            .arg("deep");
        let done = cli::run(command.args(&words[1..]));
        assert_eq!(done.code, Some(0), "{words:?}: {}", done.stderr);
    }
}

#[test]
fn rows_of_nothing_are_bounded() {
    let client = Grpc::connect(&SHARED.server);
    let empty = |rows: i64| {
        let mut request = request("rows", &[("x", &[rows, 0], &[])]);
        request.inputs[0].datatype = "UINT8".to_owned();
        request
    };
    insta::assert_snapshot!(client.refused(empty(1 << 40)), @"InvalidArgument: Invalid input shape - Expected: 1048576 rows at most in a tensor without elements; Actual: (1099511627776,0); input name: x");
    insta::assert_snapshot!(client.refused(empty(i64::MAX)), @"InvalidArgument: Invalid input shape - Expected: 1048576 rows at most in a tensor without elements; Actual: (9223372036854775807,0); input name: x");
    let answer = client.answered(empty(3));
    assert_eq!(answer.outputs[0].datatype, "BYTES");
    assert_eq!(answer.outputs[0].shape, [3]);
}

#[test]
fn a_custom_node_that_takes_its_time_to_be_made_holds_up_nobody_for_long() {
    let mut config = Config::of(&["dummy"]);
    config.library("shaped", "shaped.c");
    let gate = config.beside("gate");
    let late = custom(
        "c",
        "shaped",
        &json!({"wait_at_first": gate}),
        "in=request.x",
        "out=y",
    );
    config.pipeline("late", "x", &[late], "out=c.y");
    config.pipeline("good", "x", &[dl("n", "dummy", X, "a=y")], "out=n.y");
    let server = config.begin(&["--custom_node_load_seconds", "3"]);
    // It comes after the other in the file.
    server.wait_log("Loading pipeline definition: good succeeded");
    let client = Grpc::connect(&server);
    assert_eq!(infer(&client, ten("good", 1.0)), "out [1,10] 2");
    server.wait_ready();
    let line = server.wait_log("Validation of pipeline definition: late failed: ");
    assert!(
        line.contains("failed: Failure during custom node library initialization: ",)
            && line.contains("found custom nodes that took longer than 3s; "),
        "{line}"
    );
    assert_eq!(status(&server, "late"), "LOADING FAILED_PRECONDITION");
    // The thread that waits is let go.
    std::fs::write(&gate, "").unwrap();
    assert_eq!(config.reload(&server), "201");
    assert_eq!(status(&server, "late"), "AVAILABLE OK");
}

#[test]
fn an_output_that_has_the_name_of_an_input_leaves_its_type_alone() {
    let server = &SHARED.server;
    let metadata = get(server, "/v2/models/itself").json();
    let types = |side: &str| metadata[side][0]["datatype"].clone();
    assert_eq!(types("inputs"), "FP32");
    assert_eq!(metadata["outputs"][1]["datatype"], "UNDEFINED");
    let client = Grpc::connect(server);
    let mut wrong = ten("itself", 1.0);
    wrong.inputs[0].datatype = "INT32".to_owned();
    let refused = client.refused(wrong);
    assert!(
        refused.starts_with("InvalidArgument: Invalid input precision"),
        "{refused}"
    );
}

#[test]
fn a_stop_does_not_wait_long_for_a_node_whose_client_has_left() {
    let mut config = Config::of(&[]);
    config.library("shaped", "shaped.c");
    let (mark, gate) = (config.beside("mark"), config.beside("gate"));
    let params = json!({"mark": mark, "wait": gate});
    let node = custom("c", "shaped", &params, "in=request.x", "out=y");
    config.pipeline("p", "x", &[node], "out=c.y");
    let mut server = config.serve_with(&["--shutdown_timeout_seconds", "60"]);
    let client = Grpc::connect(&server);
    let call = client.call(ten("p", 1.0));
    wait_lines(&mark, "", 1);
    drop(call);
    drop(client);
    let asked = Instant::now();
    server.signal("TERM");
    assert!(server.wait().success());
    assert!(
        asked.elapsed() < Duration::from_secs(40),
        "{:?}",
        asked.elapsed()
    );
}

#[test]
fn statistics_of_a_pipeline_are_of_its_requests() {
    let server = &SHARED.server;
    let client = Grpc::connect(server);
    client.answered(ten("counted", 1.0));
    let statistics = get(server, "/v2/models/counted/stats").json();
    let statistics = &statistics["model_stats"][0];
    assert_eq!(statistics["inference_count"], 1);
    assert_eq!(statistics["execution_count"], 1);
    assert!(statistics["last_inference"].as_u64() > Some(0));
    for stage in [
        "success",
        "compute_input",
        "compute_infer",
        "compute_output",
    ] {
        let stage = &statistics["inference_stats"][stage];
        assert_eq!(stage["count"], 1, "{stage}");
        assert!(stage["ns"].as_u64() > Some(0), "{stage}");
    }
}

#[test]
fn a_check_takes_time_in_proportion_to_the_nodes() {
    const COUNT: usize = 5000;
    let mut config = Config::of(&["dummy"]);
    let node = |number: usize| {
        let name = format!("n{number}");
        match number {
            0 => dl(&name, "dummy", X, "a=y"),
            _ => dl(&name, "dummy", &format!("b=n{}.y", number - 1), "a=y"),
        }
    };
    let nodes: Vec<_> = (0..COUNT).map(node).collect();
    config.pipeline("chain", "x", &nodes, &format!("out=n{}.y", COUNT - 1));
    let path = config.write();
    let began = Instant::now();
    let run = cli::run(cli::command().args(["pipeline", "check"]).arg(path));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    // It takes a third of a second, unoptimized; if each node looked at all others, or at all of the
    // file, it would be 40 seconds.
    let took = began.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
}
