//! Invalid configuration files and libraries of pipelines.

use serde_json::{Value, json};

use super::shared::SHARED;
use crate::support::{
    grpc::{self, Grpc},
    nodes,
    pipelines::{Config, custom, dl, infer, is_refused, ten},
};

const X: &str = "b=request.x";

/// Returns configurations that the schema refuses.
fn wrong_files() -> Vec<(&'static str, Config)> {
    let good = || {
        let mut config = Config::of(&["dummy"]);
        config.pipeline("p", "x", &[dl("n", "dummy", X, "a=y")], "out=n.y");
        config
    };
    let node = "/pipeline_config_list/0/nodes/0";
    let pipeline = "/pipeline_config_list/0";
    let wrong = |place: &str, key: &str, value: Value| {
        let mut config = good();
        let object = config.json.pointer_mut(place).unwrap();
        if value.is_null() {
            object.as_object_mut().unwrap().remove(key);
        } else {
            object[key] = value;
        }
        config
    };
    vec![
        ("an unknown key", wrong(pipeline, "stranger", json!(1))),
        (
            "an unknown key of a node",
            wrong(node, "stranger", json!(1)),
        ),
        ("no inputs", wrong(pipeline, "inputs", json!(null))),
        ("no name", wrong(node, "name", json!(null))),
        ("another type", wrong(node, "type", json!("other"))),
        (
            "too many parts",
            wrong(node, "demultiply_count", json!(10_001)),
        ),
        (
            "too few parts",
            wrong(pipeline, "demultiply_count", json!(-2)),
        ),
        ("version 0", wrong(node, "version", json!(0))),
        ("no model", wrong(node, "model_name", json!(null))),
        ("a library", wrong(node, "library_name", json!("l"))),
        (
            "two gathers",
            wrong(node, "gather_from_node", json!(["a", "b"])),
        ),
        ("inputs as an object", wrong(node, "inputs", json!({}))),
        (
            "two in one",
            wrong(
                node,
                "inputs",
                json!([{"b": {"node_name": "request", "data_item": "x"},
                    "c": {"node_name": "request", "data_item": "x"}}]),
            ),
        ),
    ]
}

#[test]
fn files_that_the_schema_refuses_do_not_start_and_do_not_come_into_effect() {
    let mut good = Config::of(&["dummy"]);
    good.pipeline("p", "x", &[dl("n", "dummy", X, "a=y")], "out=n.y");
    let server = good.serve();
    let client = Grpc::connect(&server);
    for (what, wrong) in wrong_files() {
        let mut refused = wrong.begin(&[]);
        assert!(!refused.wait().success(), "{what}");
        // The same file for the server that runs.
        good.json = wrong.json;
        let answer = good.reload(&server);
        assert!(answer.starts_with("412: "), "{what}: {answer}");
        client.answered(ten("p", 1.0));
    }
}

/// Adds libraries that cannot be opened, and their pipelines, to the shared server.
pub(super) fn add(config: &mut Config) {
    let text = config.beside("libtext.so");
    std::fs::write(&text, "not a library").unwrap();
    config.library_at("text", &text);
    config.library_at("climbs", "../libclimbs.so".as_ref());
    config.library_at("old", &nodes::compiled("old_interface.c"));
    for name in ["text", "climbs", "old"] {
        let node = custom("c", name, &json!({}), "in=request.x", "out=y");
        config.pipeline(name, "x", &[node], "out=c.y");
    }
    config.pipeline("good", "x", &[dl("n", "dummy", X, "a=y")], "out=n.y");
}

#[test]
fn all_libraries_that_cannot_be_opened_leave_the_rest_alone() {
    let server = &SHARED.server;
    let client = Grpc::connect(server);
    for name in ["text", "climbs", "old"] {
        server.wait_log(&format!(
            "Validation of pipeline definition: {name} failed: Pipeline refers to incorrect library"
        ));
        is_refused(server, &client, name);
    }
    for line in [
        "Library name: text failed to open base_path: ",
        "escape with .. is forbidden.",
        "Failed to load library name: old with error: ",
    ] {
        server.wait_log(line);
    }
    assert_eq!(infer(&client, ten("good", 1.0)), "out [1,10] 2");
    let stranger = grpc::error(&client.infer(ten("stranger", 1.0)).unwrap_err());
    assert_eq!(stranger, "NotFound: Model with requested name is not found");
}
