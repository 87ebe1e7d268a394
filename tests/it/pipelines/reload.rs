//! Pipelines during configuration reloads: states, models, libraries, requests in flight.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{
    Server, eventually,
    grpc::Grpc,
    http::{get, post},
    model, nodes,
    pipelines::{Config, custom, dl, infer, lines, request, status, ten, wait_lines, with},
    repository,
};

const X: &str = "b=request.x";
const FAILED: &str = "412: Reloading config file failed. ";

/// Requests a reload of the unchanged file; returns the status.
fn reload(server: &Server) -> u16 {
    post(server, "/v1/config/reload", b"").status
}

/// Returns the changes of state in the log: `STATE Event`.
fn changes(server: &Server, name: &str) -> Vec<String> {
    let begin = format!("Pipeline: {name} state changed to: ");
    let log = server.log();
    let lines = log.lines().filter_map(|line| line.split_once(&begin));
    lines
        .map(|(_, rest)| rest.trim_end_matches(": ").replace(" after handling:", ""))
        .collect()
}

fn one_node() -> Config {
    let mut config = Config::of(&["dummy"]);
    config.pipeline("p", "x", &[dl("n", "dummy", X, "a=y")], "out=n.y");
    config
}

#[test]
fn an_entry_that_becomes_invalid_leaves_what_serves() {
    let mut config = one_node();
    config.library("shaped", "shaped.c");
    let log = config.beside("log");
    let nodes = [
        custom("c", "shaped", &json!({"log": log}), "in=request.x", "out=y"),
        dl("n", "dummy", "b=c.y", "a=y"),
    ];
    config.pipeline("two", "x", &nodes, "out=n.y");
    let server = config.serve();
    let client = Grpc::connect(&server);
    let answers = || ["p", "two"].map(|name| infer(&client, ten(name, 1.0)));
    let states = || ["p", "two"].map(|name| status(&server, name));
    let serves = ["out [1,10] 2", "out [1,10] 2"];
    assert_eq!(answers(), serves);

    // A model does not take the name of a pipeline that serves.
    config.model("p", &model("dummy"));
    let answer = config.reload(&server);
    assert!(answer.starts_with("500: "), "{answer}");
    server.wait_log(
        "model `p` of the configuration file is refused: Given model name is already occupied",
    );
    assert_eq!(answers(), serves);
    assert_eq!(states(), ["AVAILABLE OK"; 2]);
    config.remove("model_config_list", "p");
    assert_eq!(config.reload(&server), "201");
    assert_eq!(answers(), serves);

    for (pipeline, node) in [(0, 0), (1, 1)] {
        let nodes = &mut config.json["pipeline_config_list"][pipeline]["nodes"];
        nodes[node]["model_name"] = json!("dumy");
    }
    assert!(config.reload(&server).starts_with(FAILED));
    assert_eq!(states(), ["AVAILABLE UNKNOWN"; 2]);
    assert_eq!(answers(), serves);

    // A model that it uses is another one: what serves is checked with that, and its node stays.
    let dummy = config.remove("model_config_list", "dummy");
    let mut other = dummy.clone();
    other["config"]["nireq"] = json!(3);
    config.put("model_config_list", other);
    assert!(config.reload(&server).starts_with(FAILED));
    assert_eq!(states(), ["AVAILABLE UNKNOWN"; 2]);
    assert_eq!(answers(), serves);
    assert_eq!((lines(&log, "I").len(), lines(&log, "D").len()), (1, 0));

    // Without it nothing is left to serve, and it comes back with the model and with its entry.
    config.remove("model_config_list", "dummy");
    assert!(config.reload(&server).starts_with(FAILED));
    assert_eq!(states(), ["LOADING FAILED_PRECONDITION"; 2]);
    assert_eq!(answers(), ["Unavailable: Pipeline is not loaded yet"; 2]);
    wait_lines(&log, "D 0", 1);
    config.put("model_config_list", dummy);
    for (pipeline, node) in [(0, 0), (1, 1)] {
        let nodes = &mut config.json["pipeline_config_list"][pipeline]["nodes"];
        nodes[node]["model_name"] = json!("dummy");
    }
    assert_eq!(config.reload(&server), "201");
    assert_eq!(states(), ["AVAILABLE OK"; 2]);
    assert_eq!(answers(), serves);
}

#[test]
fn versions_that_come_and_go_check_the_pipeline_again() {
    let root = repository::of(&[("1", "dummy")]);
    let mut config = Config::of(&[]);
    config.model("m", root.path());
    config.pipeline("p", "x", &[dl("n", "m", X, "a=y")], "out=n.y");
    let pinned = with(dl("n", "m", X, "a=y"), "version", 1);
    config.pipeline("pinned", "x", &[pinned], "out=n.y");
    let server = config.serve();
    let client = Grpc::connect(&server);
    assert_eq!(infer(&client, ten("p", 1.0)), "out [1,10] 2");

    // Another shape: the pipeline has that of the new version.
    repository::copy(&model("dummy").join("1"), &root.path().join("2"));
    let graph = root.path().join("2/model.xml");
    let text = fs::read_to_string(&graph).unwrap();
    assert!(text.contains("<dim>10</dim>") && text.contains("shape=\"1,10\""));
    let text = text.replace("<dim>10</dim>", "<dim>20</dim>");
    fs::write(&graph, text.replace("shape=\"1,10\"", "shape=\"1,20\"")).unwrap();
    assert_eq!(reload(&server), 412, "the pinned version is gone");
    let wide = request("p", &[("x", &[1, 20], &[1.0; 20])]);
    assert_eq!(infer(&client, wide), "out [1,20] 2 2");
    let shape = &get(&server, "/v2/models/p").json()["outputs"][0]["shape"];
    assert_eq!(*shape, json!([1, 20]));
    assert_eq!(status(&server, "pinned"), "LOADING FAILED_PRECONDITION");
    let json = get(&server, "/v1/models/pinned").json();
    let reason = json["model_version_status"][0]["status"]["error_message"].to_string();
    let retired = "a version that the model `m` does not have; expected a version that it has: 2;";
    assert!(reason.contains(retired), "{reason}");
    let expected = [
        "AVAILABLE ValidationPassed",
        "AVAILABLE_REQUIRED_REVALIDATION UsedModelChanged",
        "AVAILABLE ValidationPassed",
    ];
    eventually("checked again", || {
        (changes(&server, "p") == expected).then_some(())
    });

    fs::remove_dir_all(root.path().join("2")).unwrap();
    assert_eq!(reload(&server), 201);
    assert_eq!(infer(&client, ten("p", 1.0)), "out [1,10] 2");
    assert_eq!(infer(&client, ten("pinned", 1.0)), "out [1,10] 2");
}

#[test]
fn a_watcher_sees_versions_too() {
    let root = repository::of(&[("1", "dummy")]);
    let mut config = Config::of(&[]);
    config.model("m", root.path());
    config.pipeline("p", "x", &[dl("n", "m", X, "a=y")], "out=n.y");
    let node = custom("c", "none", &json!({}), "in=request.x", "out=y");
    config.pipeline("none", "x", &[node], "out=c.y");
    config.library_at("none", "/nowhere/libnone.so".as_ref());
    let server = config.serve_with(&["--file_system_poll_wait_seconds", "1"]);
    let reported = |server: &Server| server.log().matches("failed to open").count();
    let at_first = reported(&server);
    assert!(at_first > 0);
    repository::copy(&model("dummy").join("1"), &root.path().join("2"));
    server.wait_log("Pipeline: p state changed to: AVAILABLE_REQUIRED_REVALIDATION");
    eventually("checked again", || {
        (changes(&server, "p").len() == 3).then_some(())
    });
    // An unchanged pipeline is not retried and logged repeatedly.
    repository::copy(&model("dummy").join("1"), &root.path().join("3"));
    eventually("checked again", || {
        (changes(&server, "p").len() == 5).then_some(())
    });
    assert_eq!(reported(&server), at_first);
    assert_eq!(changes(&server, "none").len(), 1);
}

/// Adds a pipeline of one custom node with a log; returns the path of the log.
fn logged(config: &mut Config, params: &Value) -> std::path::PathBuf {
    let log = config.beside("log");
    let mut params = params.clone();
    params["log"] = json!(log);
    let node = custom("c", "shaped", &params, "in=request.x", "out=y");
    config.pipeline("p", "x", &[node], "out=c.y");
    log
}

#[test]
fn a_node_keeps_its_handle_until_it_is_another_one() {
    let mut config = Config::of(&["dummy"]);
    config.library("shaped", "shaped.c");
    let log = logged(&mut config, &json!({}));
    // Refused after its node was made: that is brought to an end at once.
    let refused_log = config.beside("refused");
    let params = json!({"log": refused_log});
    let nodes = [
        custom("c", "shaped", &params, "in=request.x", "out=y"),
        dl("n", "stranger", "b=c.y", "a=y"),
    ];
    config.pipeline("refused", "x", &nodes, "out=n.y");
    let mut server = config.serve();
    let client = Grpc::connect(&server);
    wait_lines(&refused_log, "D 0", 1);
    config.remove("pipeline_config_list", "refused");
    let made = || (lines(&log, "I").len(), lines(&log, "D").len());
    assert_eq!(made(), (1, 0));

    config.model("other", &model("dummy"));
    assert_eq!(config.reload(&server), "201");
    assert_eq!(infer(&client, ten("p", 1.0)), "out [1,10] 1");
    assert_eq!(made(), (1, 0), "the same node");

    let params = &mut config.json["pipeline_config_list"][0]["nodes"][0]["params"];
    params["give"] = json!("1,10");
    assert_eq!(config.reload(&server), "201");
    wait_lines(&log, "D 0", 1);
    assert_eq!(made(), (2, 1), "other parameters");

    // The same library under another path.
    let copy = config.beside("libcopy.so");
    fs::copy(nodes::compiled("shaped.c"), &copy).unwrap();
    config.remove("custom_node_library_config_list", "shaped");
    config.library_at("shaped", &copy);
    assert_eq!(config.reload(&server), "201");
    wait_lines(&log, "D 0", 2);
    assert_eq!(made(), (3, 2), "another library");

    // Gone, and there again: a check that fails leaves the node that serves.
    config.remove("custom_node_library_config_list", "shaped");
    let absent = config.beside("libabsent.so");
    config.library_at("shaped", &absent);
    assert!(config.reload(&server).starts_with(FAILED));
    assert_eq!(status(&server, "p"), "AVAILABLE UNKNOWN");
    assert_eq!(infer(&client, ten("p", 1.0)), "out [1,10] 1");
    assert_eq!(made(), (3, 2), "nothing has taken its place");
    fs::copy(nodes::compiled("shaped.c"), &absent).unwrap();
    assert_eq!(reload(&server), 201);
    wait_lines(&log, "D 0", 3);
    assert_eq!(status(&server, "p"), "AVAILABLE OK");
    assert_eq!(infer(&client, ten("p", 1.0)), "out [1,10] 1");
    assert_eq!(made(), (4, 3));

    let pipeline = config.remove("pipeline_config_list", "p");
    assert_eq!(config.reload(&server), "201");
    wait_lines(&log, "D 0", 4);
    config.put("pipeline_config_list", pipeline);
    assert_eq!(config.reload(&server), "201");
    assert_eq!(made(), (5, 4), "retired");
    drop(client);
    server.signal("TERM");
    let ended = server.wait();
    assert!(ended.success(), "{ended}");
    assert_eq!(made(), (5, 5), "the server has ended");
    assert_eq!(lines(&log, "D"), ["D 0"; 5]);
}

/// Opens the gate that requests wait for.
fn open(gate: &Path) {
    fs::write(gate, "").unwrap();
}

#[test]
fn requests_in_flight_end_on_what_they_began_with() {
    let root = repository::of(&[("1", "dummy")]);
    let mut config = Config::of(&[]);
    config.model("m", root.path());
    config.library("shaped", "shaped.c");
    let (log, gate) = (config.beside("log"), config.beside("gate"));
    let params = json!({"log": log, "wait": gate, "wait_if": "1"});
    let nodes = [
        custom("c", "shaped", &params, "in=request.x", "out=y"),
        dl("n", "m", "b=c.y", "a=y"),
    ];
    config.pipeline("p", "x", &nodes, "out=n.y");
    let server = config.serve();
    let client = Grpc::connect(&server);
    let waiting = |count| {
        let call = client.call(ten("p", 1.0));
        wait_lines(&log, "X", count);
        call
    };

    let first = waiting(1);
    // Another plan takes over.
    let other = json!({"log": log, "give": "1,10"});
    let nodes = [
        custom("c", "shaped", &other, "in=request.x", "out=y"),
        dl("n", "m", "b=c.y", "a=y"),
        dl("again", "m", "b=n.y", "a=y"),
    ];
    let before = config.remove("pipeline_config_list", "p");
    config.pipeline("p", "x", &nodes, "out=again.y");
    assert_eq!(config.reload(&server), "201");
    assert_eq!(infer(&client, ten("p", 1.0)), "out [1,10] 3");
    assert!(!first.is_answered());
    assert_eq!(lines(&log, "D").len(), 0, "the old node still runs");
    open(&gate);
    let answer = first.wait().unwrap();
    assert_eq!(crate::support::pipelines::reported(&answer), "out [1,10] 2");
    wait_lines(&log, "D 0", 1);

    // The pipeline goes, and the model with it.
    fs::remove_file(&gate).unwrap();
    config.remove("pipeline_config_list", "p");
    config.put("pipeline_config_list", before);
    assert_eq!(config.reload(&server), "201");
    let second = waiting(3);
    config.remove("pipeline_config_list", "p");
    config.remove("model_config_list", "m");
    assert_eq!(config.reload(&server), "201");
    assert_eq!(status(&server, "p"), "END OK");
    open(&gate);
    let answer = second.wait().unwrap();
    assert_eq!(crate::support::pipelines::reported(&answer), "out [1,10] 2");
    wait_lines(&log, "D 0", 3);
}

#[test]
fn requests_wait_a_moment_for_what_is_being_loaded() {
    let endless = repository::endless();
    let mut config = one_node();
    config.model("endless", endless.path());
    let server = config.begin(&[]);
    server.wait_log("REST listens");
    let client = Grpc::connect(&server);
    eventually("the name is known", || {
        (status(&server, "p") == "LOADING OK").then_some(())
    });
    let asked = Instant::now();
    assert_eq!(
        infer(&client, ten("p", 1.0)),
        "Unavailable: Pipeline is not loaded yet"
    );
    assert!(asked.elapsed() >= Duration::from_millis(500));
    // Metadata calls do not wait.
    assert_eq!(
        get(&server, "/v2/models/p").error(),
        "404: Pipeline is not loaded yet"
    );
}
