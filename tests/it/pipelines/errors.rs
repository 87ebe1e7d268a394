//! Errors of requests in flight through a pipeline.

use serde_json::{Value, json};

use super::shared::{SHARED, two_places};
use crate::support::{
    Server,
    grpc::{self, Grpc},
    http::post,
    model,
    pipelines::{Config, custom, dl, infer, lines, request, status, ten, wait_lines, with},
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
fn what_is_refused_is_refused_by_the_names_of_inputs() {
    let mut config = Config::of(&["matrices"]);
    // The node has its inputs the other way round.
    let node = dl("n", "matrices", "b=request.b a=request.a", "product=o");
    config.pipeline("p", "a b", &[node], "product=n.o");
    let server = config.serve();
    let client = Grpc::connect(&server);
    let product = |name: &str, a: [i64; 2], b: [i64; 2]| {
        let ones = [1.0; 8];
        let of = |[rows, columns]: [i64; 2]| &ones[..usize::try_from(rows * columns).unwrap()];
        infer(
            &client,
            request(name, &[("a", &a, of(a)), ("b", &b, of(b))]),
        )
    };
    let fits = || assert_eq!(product("p", [4, 2], [2, 3]), "product [4,3] 2 2");
    fits();
    for _ in 0..3 {
        let refused = product("matrices", [2, 3], [4, 2]);
        assert!(refused.contains("f32[2,3]"), "{refused}");
    }
    fits();
    assert_eq!(product("matrices", [4, 2], [2, 3]), "product [4,3] 2 2");
}

#[test]
fn what_nodes_do_wrong_is_reported_with_node_and_part() {
    let mut config = Config::of(&["dummy"]);
    config.library("shaped", "shaped.c");
    let log = config.beside("log");
    let spoil = |what: &str| json!({"spoil": what});
    let gives =
        |out: &str, give: &str, kind: &str| json!({"out": out, "give": give, "give_type": kind});
    let count = "Custom node library has produced corrupted number of outputs - Node: bad";
    let size = "Custom node output has invalid content size - Node: bad";
    // Errors of the client come of a model behind the node.
    let rows = [
        (
            "fails",
            json!({"fail_if": "1"}),
            500,
            "Custom node failed during execution - Node: bad",
        ),
        (
            "no_array",
            spoil("no_array"),
            500,
            "Custom node library has returned corrupted outputs handle - Node: bad",
        ),
        ("no_count", spoil("no_count"), 500, count),
        ("negative_count", spoil("negative_count"), 500, count),
        (
            "other_name",
            spoil("other_name"),
            500,
            "Custom node output is missing - Node: bad",
        ),
        (
            "no_name",
            spoil("no_name"),
            500,
            "Custom node output is missing name - Node: bad",
        ),
        (
            "unspecified",
            spoil("unspecified"),
            500,
            "Custom node has produced tensor with unspecified precision - Node: bad",
        ),
        ("short", spoil("short"), 500, size),
        ("no_data", spoil("no_data"), 500, size),
        (
            "wrong_shape",
            gives("1,0", "1,9", "1"),
            400,
            "Invalid input shape - Node: a input: b Invalid shape - Expected: (1,10); Actual: (1,9)",
        ),
        (
            "wrong_batch",
            gives("0,10", "2,10", "1"),
            400,
            "Invalid input batch size - Node: a input: b Invalid batch size - Expected: 1; Actual: 2",
        ),
        (
            "wrong_rank",
            gives("1,10", "10", "1"),
            400,
            "Invalid number of shape dimensions - Node: a input: b Invalid number of shape dimensions - Expected: (1,10); Actual: (10)",
        ),
        (
            "wrong_type",
            gives("1,10", "1,10", "7"),
            400,
            "Invalid input precision - Node: a input: b Invalid precision - Expected: FP32; Actual: I32",
        ),
        (
            "other_than_declared",
            json!({"out": "1,10", "give": "1,9"}),
            500,
            "Internal server error - Node: response",
        ),
        (
            "other_than_declared_with_an_open_type",
            json!({"out": "1,10", "out_type": "0", "give": "1,9", "give_type": "1"}),
            500,
            "Internal server error - Node: response",
        ),
    ];
    let after = [dl("a", "dummy", "b=bad.y", "a=y")];
    let custom_after = [custom("a", "shaped", &json!({}), "in=bad.y", "out=y")];
    let behind = |name: &str| format!("{name}_for_custom");
    let mut opened_more = 0;
    for (name, params, status, _) in &rows {
        let mut params = params.clone();
        params["log"] = json!(log);
        let (consumer, output) = match status {
            400 => (&after[..], "out=a.y"),
            _ => (&[][..], "out=bad.y"),
        };
        both(&mut config, name, &params, consumer, output);
        if *status == 400 {
            both(&mut config, &behind(name), &params, &custom_after, output);
            opened_more += 2;
        }
    }

    let mut server = config.serve();
    let client = Grpc::connect(&server);
    for (name, _, number, text) in &rows {
        let code = if *number == 400 {
            "InvalidArgument"
        } else {
            "Internal"
        };
        assert_eq!(client.refused(ten(name, 1.0)), format!("{code}: {text}"));
        assert_eq!(rest(&server, name, 1.0), format!("{number}: {text}"));
        let part = client.refused(ten(&format!("{name}_in_parts"), 0.0));
        let shards: &[&str] = match *name {
            "fails" => &["; shard: split_1"],
            _ if name.starts_with("other_than_declared") => &[""],
            // Where all do it wrong, any of them may be the first.
            _ => &["; shard: split_0", "; shard: split_1", "; shard: split_2"],
        };
        let is_named = |shard: &&str| part == format!("{code}: {text}{shard}");
        assert!(shards.iter().any(is_named), "{name}: {part}");
        if *number == 400 {
            // Other custom nodes do not get it either.
            let refused = client.refused(ten(&behind(name), 1.0));
            let text = text.replace("input: b", "input: in");
            assert_eq!(refused, format!("{code}: {text}"));
        }
        assert_eq!(status(&server, name), "AVAILABLE OK");
    }
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
    assert_eq!(opened.len(), 2 * rows.len() + opened_more);
    assert_eq!(lines(&log, "D"), vec!["D 0"; opened.len()]);
}

/// Adds a pipeline to the server of two places.
pub(super) fn add_many_parts(config: &mut Config) {
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
    config.pipeline("fails", "x", &nodes, "out=work.y");
}

#[test]
fn the_first_failure_ends_the_rest() {
    let shared = two_places();
    let (log, gate) = (shared.beside("log"), shared.beside("gate"));
    let client = Grpc::connect(&shared.server);
    let refused = client.refused(ten("fails", 0.0));
    assert!(refused.starts_with("Internal: Custom node failed during execution - Node: work"));
    assert!(refused.contains("shard: split_1"), "{refused}");
    let begun = lines(&log, "X").len();
    assert!(begun < 10, "{begun} of 500 have begun");
    std::fs::write(&gate, "").unwrap();
    // The request in flight has ended and releases its slot: others run.
    let again = client.refused(ten("fails", 0.0));
    assert_eq!(again, refused);
    assert!(lines(&log, "X").len() < 30);
    wait_lines(&log, "X", 2);
}

/// Adds a model and a pipeline to the shared server.
pub(super) fn add(config: &mut Config) {
    config.model("fails", &model("running_fail"));
    let node = dl("n", "fails", "x=request.x split=request.split", "total=y");
    config.pipeline("failing", "x split", &[node], "out=n.y");
}

#[test]
fn a_model_that_fails_is_reported() {
    let client = Grpc::connect(&SHARED.server);
    let mut request = request("failing", &[("x", &[1, 4], &[1.0; 4])]);
    request.inputs.push(grpc::input("split", "INT64", &[1]));
    request
        .raw_input_contents
        .push(3_i64.to_le_bytes().to_vec().into());
    let refused = client.refused(request);
    assert!(
        refused.starts_with("Internal: Internal inference error"),
        "{refused}"
    );
}
