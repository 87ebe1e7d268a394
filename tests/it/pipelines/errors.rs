//! Errors of requests in flight through a pipeline.

use serde_json::{Value, json};

use crate::support::{
    Server,
    grpc::Grpc,
    http::post,
    pipelines::{Config, custom, dl, infer, lines, status, ten, wait_lines, with},
};

const X: &str = "in=request.x";

/// Sends ten equal numbers over REST; returns status and text of the error.
fn rest(server: &Server, name: &str, number: f32) -> String {
    let data = [number; 10];
    let body = json!({"inputs": [
        {"name": "x", "shape": [1, 10], "datatype": "FP32", "data": data}
    ]});
    let path = format!("/v2/models/{name}/infer");
    post(server, &path, body.to_string().as_bytes()).error()
}

/// Adds a node that fails if the number is 1, in the request itself and in part 1 of 3.
fn both(config: &mut Config, name: &str, params: &Value, consumer: &[Value], output: &str) {
    let bad = |input: &str| custom("bad", "shaped", params, input, "out=y");
    let split = custom("split", "shaped", &json!({"out": "3,1,10"}), X, "out=y");
    let split = with(split, "demultiply_count", 3);
    let plain = [&[bad(X)], consumer].concat();
    config.pipeline(name, "x", &plain, output);
    let parts = [&[split, bad("in=split.y")], consumer].concat();
    config.pipeline(&format!("{name}_in_parts"), "x", &parts, output);
}

#[test]
fn what_nodes_do_wrong_is_reported_with_node_and_part() {
    let mut config = Config::of(&["dummy"]);
    config.library("shaped", "shaped.c");
    let log = config.beside("log");
    let spoil = |what: &str| json!({"spoil": what, "log": log});
    let after = [dl("a", "dummy", "b=bad.y", "a=y")];
    let mut names = Vec::new();
    let mut add = |name: &'static str, params: &Value, after: &[Value], output: &str| {
        both(&mut config, name, params, after, output);
        names.push(name);
    };
    add(
        "fails",
        &json!({"fail_if": "1", "log": log}),
        &[],
        "out=bad.y",
    );
    for name in [
        "no_array",
        "no_count",
        "negative_count",
        "other_name",
        "no_name",
        "unspecified",
        "short",
        "no_data",
    ] {
        add(name, &spoil(name), &[], "out=bad.y");
    }
    for (name, out, give, kind) in [
        ("wrong_shape", "1,0", "1,9", "1"),
        ("wrong_batch", "0,10", "2,10", "1"),
        ("wrong_rank", "1,10", "10", "1"),
        ("wrong_type", "1,10", "1,10", "7"),
    ] {
        let params = json!({"out": out, "give": give, "give_type": kind, "log": log});
        add(name, &params, &after, "out=a.y");
    }
    let other = json!({"out": "1,10", "give": "1,9", "log": log});
    add("other_than_told", &other, &[], "out=bad.y");

    let mut server = config.serve();
    let client = Grpc::connect(&server);
    let mut reported = Vec::new();
    for name in &names {
        let parts = format!("{name}_in_parts");
        reported.push(format!("{name}:"));
        reported.push(client.refused(ten(name, 1.0)));
        reported.push(rest(&server, name, 1.0));
        let part = client.refused(ten(&parts, 0.0));
        let (text, shard) = part.split_once("shard: split_").unwrap_or((&part, ""));
        // Where all do it wrong, any of them may be the first.
        if !shard.is_empty() && *name != "fails" {
            assert!(["0", "1", "2"].contains(&shard), "{part}");
            reported.push(format!("{text}shard: split_N"));
        } else {
            reported.push(part);
        }
        assert_eq!(status(&server, name), "AVAILABLE OK");
    }
    insta::assert_snapshot!(reported.join("\n"), @"
        fails:
        Internal: Custom node failed during execution - Node: bad
        500: Custom node failed during execution - Node: bad
        Internal: Custom node failed during execution - Node: bad; shard: split_1
        no_array:
        Internal: Custom node library has returned corrupted outputs handle - Node: bad
        500: Custom node library has returned corrupted outputs handle - Node: bad
        Internal: Custom node library has returned corrupted outputs handle - Node: bad; shard: split_N
        no_count:
        Internal: Custom node library has produced corrupted number of outputs - Node: bad
        500: Custom node library has produced corrupted number of outputs - Node: bad
        Internal: Custom node library has produced corrupted number of outputs - Node: bad; shard: split_N
        negative_count:
        Internal: Custom node library has produced corrupted number of outputs - Node: bad
        500: Custom node library has produced corrupted number of outputs - Node: bad
        Internal: Custom node library has produced corrupted number of outputs - Node: bad; shard: split_N
        other_name:
        Internal: Custom node output is missing - Node: bad
        500: Custom node output is missing - Node: bad
        Internal: Custom node output is missing - Node: bad; shard: split_N
        no_name:
        Internal: Custom node output is missing name - Node: bad
        500: Custom node output is missing name - Node: bad
        Internal: Custom node output is missing name - Node: bad; shard: split_N
        unspecified:
        Internal: Custom node has produced tensor with unspecified precision - Node: bad
        500: Custom node has produced tensor with unspecified precision - Node: bad
        Internal: Custom node has produced tensor with unspecified precision - Node: bad; shard: split_N
        short:
        Internal: Custom node output has invalid content size - Node: bad
        500: Custom node output has invalid content size - Node: bad
        Internal: Custom node output has invalid content size - Node: bad; shard: split_N
        no_data:
        Internal: Custom node output has invalid content size - Node: bad
        500: Custom node output has invalid content size - Node: bad
        Internal: Custom node output has invalid content size - Node: bad; shard: split_N
        wrong_shape:
        InvalidArgument: Invalid input shape - Node: a input: b Invalid shape - Expected: (1,10); Actual: (1,9)
        400: Invalid input shape - Node: a input: b Invalid shape - Expected: (1,10); Actual: (1,9)
        InvalidArgument: Invalid input shape - Node: a input: b Invalid shape - Expected: (1,10); Actual: (1,9); shard: split_N
        wrong_batch:
        InvalidArgument: Invalid input batch size - Node: a input: b Invalid batch size - Expected: 1; Actual: 2
        400: Invalid input batch size - Node: a input: b Invalid batch size - Expected: 1; Actual: 2
        InvalidArgument: Invalid input batch size - Node: a input: b Invalid batch size - Expected: 1; Actual: 2; shard: split_N
        wrong_rank:
        InvalidArgument: Invalid number of shape dimensions - Node: a input: b Invalid number of shape dimensions - Expected: (1,10); Actual: (10)
        400: Invalid number of shape dimensions - Node: a input: b Invalid number of shape dimensions - Expected: (1,10); Actual: (10)
        InvalidArgument: Invalid number of shape dimensions - Node: a input: b Invalid number of shape dimensions - Expected: (1,10); Actual: (10); shard: split_N
        wrong_type:
        InvalidArgument: Invalid input precision - Node: a input: b Invalid precision - Expected: FP32; Actual: I32
        400: Invalid input precision - Node: a input: b Invalid precision - Expected: FP32; Actual: I32
        InvalidArgument: Invalid input precision - Node: a input: b Invalid precision - Expected: FP32; Actual: I32; shard: split_N
        other_than_told:
        Internal: Internal server error - Node: response
        500: Internal server error - Node: response
        Internal: Internal server error - Node: response
        ");
    // They go on serving.
    assert_eq!(infer(&client, ten("fails", 2.0)), "out [1,10] 2");
    assert_eq!(
        infer(&client, ten("fails_in_parts", 2.0)),
        "out [3,1,10] 2 3 4"
    );
    drop(client);
    server.signal("TERM");
    let ended = server.wait();
    assert!(ended.success(), "{ended}");
    // Every handle is closed once, with all its buffers back.
    let opened = lines(&log, "I");
    assert_eq!(opened.len(), 2 * names.len());
    assert_eq!(lines(&log, "D"), vec!["D 0"; opened.len()]);
}

#[test]
fn the_first_failure_ends_the_rest() {
    let mut config = Config::of(&["dummy"]);
    config.library("shaped", "shaped.c");
    let (log, gate) = (config.beside("log"), config.beside("gate"));
    // The first part fails once the gate is open, after which nothing begins any more.
    let split = custom("split", "shaped", &json!({"out": "500,1,10"}), X, "out=y");
    let work = custom(
        "work",
        "shaped",
        &json!({"log": log, "wait": gate, "wait_if": "0", "fail_if": "1"}),
        "in=split.y",
        "out=y",
    );
    let nodes = [with(split, "demultiply_count", 500), work];
    config.pipeline("p", "x", &nodes, "out=work.y");
    let server = config.serve_with(&["--max_custom_node_runs", "2"]);
    let client = Grpc::connect(&server);
    let refused = client.refused(ten("p", 0.0));
    assert!(refused.starts_with("Internal: Custom node failed during execution - Node: work"));
    assert!(refused.contains("shard: split_1"), "{refused}");
    let begun = lines(&log, "X").len();
    assert!(begun < 10, "{begun} of 500 have begun");
    std::fs::write(&gate, "").unwrap();
    // The request in flight has ended and releases its slot: others run.
    let again = client.refused(ten("p", 0.0));
    assert_eq!(again, refused);
    assert!(lines(&log, "X").len() < 30);
    wait_lines(&log, "X", 2);
}

#[test]
fn a_model_that_fails_is_reported() {
    let mut config = Config::of(&["dummy"]);
    config.library("shaped", "shaped.c");
    config.model("fails", &crate::support::model("running_fail"));
    let node = dl("n", "fails", "x=request.x split=request.split", "total=y");
    config.pipeline("p", "x split", &[node], "out=n.y");
    let server = config.serve();
    let client = Grpc::connect(&server);
    let mut request = crate::support::pipelines::request("p", &[("x", &[1, 4], &[1.0; 4])]);
    request
        .inputs
        .push(crate::support::grpc::input("split", "INT64", &[1]));
    request
        .raw_input_contents
        .push(3_i64.to_le_bytes().to_vec().into());
    let refused = client.refused(request);
    assert!(
        refused.starts_with("Internal: Internal inference error"),
        "{refused}"
    );
}
