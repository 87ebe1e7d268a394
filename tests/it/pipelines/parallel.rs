//! Parallel branches, parts and requests, clients that disconnect, and nodes that never return.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use ovms::proto::kserve::{InferParameter, ModelInferRequest, infer_parameter::ParameterChoice};
use serde_json::{Value, json};

use super::shared::{SHARED, two_places};
use crate::support::{
    Server, busy,
    cli::words,
    eventually,
    grpc::{self, Grpc},
    http::get,
    model,
    pipelines::{Config, custom, dl, infer, lines, reported, request, ten, wait_lines, with},
    thread,
};

const X: &str = "b=request.x";

fn split(count: i64) -> Value {
    let params = json!({"out": format!("{count},1,10")});
    let node = custom("split", "shaped", &params, "in=request.x", "out=y");
    with(node, "demultiply_count", count)
}

/// Returns the value of one sample of the page.
fn sample(server: &Server, sample: &str) -> u64 {
    let page = get(server, "/metrics").text();
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse().unwrap())
}

/// Adds a timeout of one second, which the server enforces.
fn limited(mut message: ModelInferRequest) -> ModelInferRequest {
    let limit = InferParameter {
        parameter_choice: Some(ParameterChoice::Int64Param(1_000_000)),
    };
    message.parameters.insert("timeout".to_owned(), limit);
    message
}

const LATE: &str = "DeadlineExceeded: the client's deadline of 1s passed";

/// Adds models and pipelines to the shared server.
pub(super) fn add(config: &mut Config) {
    add_waiting(config);
    add_of_one_slot(config);
}

/// Adds pipelines whose nodes wait for each other.
fn add_waiting(config: &mut Config) {
    let (a, b) = (config.beside("a"), config.beside("b"));
    // Each waits for the other to have begun.
    let branch = |name: &str, mark: &Path, wait: &Path| {
        let params = json!({"mark": mark, "wait": wait});
        custom(name, "shaped", &params, "in=request.x", "out=y")
    };
    let nodes = [
        branch("one", &a, &b),
        branch("two", &b, &a),
        dl("sum", "add", "input1=one.y input2=two.y", "sum=y"),
    ];
    config.pipeline("branches", "x", &nodes, "out=sum.y");
    let (log, last) = (config.beside("waiting"), config.beside("last"));
    // All wait for the last one.
    let params = json!({"log": log, "mark": last, "mark_if": "7", "wait": last});
    let part = custom("part", "shaped", &params, "in=split.y", "out=y");
    config.pipeline("waiting", "x", &[split(8), part], "out=part.y");
}

/// Adds pipelines of models with one slot.
fn add_of_one_slot(config: &mut Config) {
    config.model("slot", &model("dummy"))["nireq"] = json!(1);
    config.model("slot_add", &model("add"))["nireq"] = json!(1);
    let n = |name: &str, input: &str| dl(name, "slot", input, "a=y");
    let chain = [n("one", X), n("two", "b=one.y"), n("three", "b=two.y")];
    config.pipeline("chain", "x", &chain, "out=three.y");
    let diamond = [
        n("left", X),
        n("right", X),
        dl("sum", "slot_add", "input1=left.y input2=right.y", "sum=y"),
        n("last", "b=sum.y"),
    ];
    config.pipeline("diamond", "x", &diamond, "out=last.y");
    let parts = [
        split(20),
        n("a", "b=split.y"),
        n("b", "b=split.y"),
        dl("sum", "slot_add", "input1=a.y input2=b.y", "sum=y"),
    ];
    config.pipeline("parts", "x", &parts, "out=sum.y");
    config.pipeline("entry", "x", &chain, "out=three.y")["demultiply_count"] = json!(-1);
}

#[test]
fn branches_and_parts_run_beside_each_other() {
    let client = Grpc::connect(&SHARED.server);
    assert_eq!(infer(&client, ten("branches", 1.0)), "out [1,10] 2");
    assert_eq!(
        infer(&client, ten("waiting", 0.0)),
        "out [8,1,10] 0 1 2 3 4 5 6 7"
    );
    assert_eq!(lines(&SHARED.beside("waiting"), "X").len(), 8);
}

#[test]
fn pipelines_that_share_one_slot_all_end() {
    let begun = Instant::now();
    let clients: Vec<_> = (0..8_u8)
        .map(|client| {
            let grpc = Grpc::connect(&SHARED.server);
            thread(move || {
                for round in 0..40_u8 {
                    let x = f32::from(client) * 50.0 + f32::from(round);
                    let parts: Vec<String> = (0..20_u8)
                        .map(|part| (2.0 * (x + f32::from(part)) + 2.0).to_string())
                        .collect();
                    let parts = format!("out [20,1,10] {}", parts.join(" "));
                    let both = [[x; 10], [x + 1.0; 10]].concat();
                    for (request, answer) in [
                        (ten("chain", x), format!("out [1,10] {}", x + 3.0)),
                        (ten("diamond", x), format!("out [1,10] {}", 2.0 * x + 3.0)),
                        (ten("parts", x), parts),
                        (
                            request("entry", &[("x", &[2, 1, 10], &both)]),
                            format!("out [2,1,10] {} {}", x + 3.0, x + 4.0),
                        ),
                        (
                            request("slot", &[("b", &[1, 10], &[x; 10])]),
                            format!("a [1,10] {}", x + 1.0),
                        ),
                    ] {
                        assert_eq!(infer(&grpc, request), answer);
                    }
                }
            })
        })
        .collect();
    let all = || clients.iter().all(std::thread::JoinHandle::is_finished);
    while !all() {
        assert!(begun.elapsed() < Duration::from_secs(60), "they hang");
        std::thread::sleep(Duration::from_millis(10));
    }
    for client in clients {
        client.join().unwrap();
    }
}

/// Adds a pipeline to the server of two places.
pub(super) fn add_many_parts(config: &mut Config) {
    let (log, gate) = (config.beside("parts"), config.beside("parts_gate"));
    let params = json!({"log": log, "wait": gate});
    let part = custom("part", "shaped", &params, "in=split.y", "out=y");
    config.pipeline("p", "x", &[split(100), part], "out=part.y");
}

#[test]
fn a_client_that_leaves_ends_its_request() {
    let shared = two_places();
    let (log, gate) = (shared.beside("parts"), shared.beside("parts_gate"));
    let client = Grpc::connect(&shared.server);
    let call = client.call(ten("p", 0.0));
    wait_lines(&log, "X", 2);
    drop(call);
    let fail = r#"ovms_requests_fail{api="KServe",interface="gRPC",method="ModelInfer",name="p",version="1"}"#;
    eventually("the server has seen it", || {
        (sample(&shared.server, fail) == 1).then_some(())
    });
    // What has begun ends, and nothing of it begins any more.
    fs::write(&gate, "").unwrap();
    let answer = client.answered(ten("p", 0.0));
    assert_eq!(answer.outputs[0].shape, [100, 1, 10]);
    assert_eq!(lines(&log, "X").len(), 102);
}

#[test]
fn nodes_that_never_return_take_no_more_than_their_places() {
    let mut config = Config::of(&["dummy"]);
    config.library("shaped", "shaped.c");
    let log = config.beside("log");
    let params = json!({"log": log, "wait": config.beside("never"), "wait_if": "13"});
    let nodes = [
        dl("n", "dummy", X, "a=y"),
        custom("hangs", "shaped", &params, "in=n.y", "out=y"),
        dl("m", "dummy", "b=hangs.y", "a=y"),
    ];
    config.pipeline("hung", "x", &nodes, "out=m.y");
    let other = [
        dl("n", "dummy", X, "a=y"),
        custom("c", "shaped", &json!({}), "in=n.y", "out=y"),
    ];
    config.pipeline("other", "x", &other, "out=c.y");
    let flags = words("--max_custom_node_runs 2 --shutdown_timeout_seconds 1");
    let mut server = config.serve_with(&flags);
    let client = Grpc::connect(&server);
    let others_serve = || {
        assert_eq!(infer(&client, ten("other", 1.0)), "out [1,10] 2");
        client.check_serves();
    };
    assert_eq!(infer(&client, limited(ten("hung", 12.0))), LATE);
    wait_lines(&log, "X", 1);
    others_serve();
    // The other place is free.
    assert_eq!(infer(&client, ten("hung", 1.0)), "out [1,10] 3");
    assert_eq!(infer(&client, limited(ten("hung", 12.0))), LATE);
    wait_lines(&log, "X", 3);
    // Both places are lost: this one waits until its time is over.
    assert_eq!(infer(&client, limited(ten("hung", 1.0))), LATE);
    assert_eq!(lines(&log, "X").len(), 3);
    others_serve();
    // And it does not keep the server from ending.
    drop(client);
    server.signal("TERM");
    let ended = server.wait();
    assert!(ended.success(), "{ended}");
    assert_eq!(lines(&log, "D").len(), 0, "a node that runs is left");
}

#[test]
fn a_client_that_leaves_gives_the_models_slot_back() {
    let mut config = Config::of(&[]);
    let entry = config.model("busy", &model("busy"));
    entry["nireq"] = json!(1);
    entry["plugin_config"] = serde_json::from_str(busy::PLUGIN_CONFIG).unwrap();
    let node = |name: &str, x: &str| {
        let inputs = format!("steps=request.steps x={x}");
        dl(name, "busy", &inputs, "y=y")
    };
    let nodes = [node("one", "request.x"), node("two", "one.y")];
    config.pipeline("p", "steps x", &nodes, "y=two.y");
    let server = config.serve_with(&["--metrics_enable"]);
    let client = Grpc::connect(&server);
    let ask = |steps| ModelInferRequest {
        model_name: "p".to_owned(),
        ..busy::request(steps)
    };
    let before = server.processor_time();
    let call = client.call(ask(busy::SECONDS));
    busy::wait_running(&server, before);
    drop(call);
    // The second run never begins; this waits for the end of the first.
    let answer = client.infer(ask(1));
    busy::check(2, &answer);
    let runs = r#"ovms_inference_time_us_count{name="busy",version="1"}"#;
    assert_eq!(sample(&server, runs), 3);
}

#[test]
fn requests_beyond_the_bound_are_refused_and_others_served() {
    let mut config = Config::of(&["dummy"]);
    config.library("shaped", "shaped.c");
    let (log, gate) = (config.beside("log"), config.beside("gate"));
    let params = json!({"log": log, "wait": gate});
    let node = custom("c", "shaped", &params, "in=request.x", "out=y");
    config.pipeline("p", "x", &[node], "out=c.y");
    let server = config.serve_with(&["--max_queued_requests", "2"]);
    let client = Grpc::connect(&server);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let calls: Vec<_> = (0..cores + 2).map(|_| client.call(ten("p", 1.0))).collect();
    wait_lines(&log, "X", calls.len());
    let refused = client.refused(ten("p", 1.0));
    assert!(
        refused.starts_with("ResourceExhausted") || refused.starts_with("Unavailable"),
        "{refused}"
    );
    client.check_serves();
    fs::write(&gate, "").unwrap();
    for call in calls {
        assert_eq!(reported(&call.wait().unwrap()), "out [1,10] 1");
    }
    assert_eq!(
        grpc::to_floats(&client.answered(ten("p", 1.0)).raw_output_contents[0]),
        [1.0; 10]
    );
}
