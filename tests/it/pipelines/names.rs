//! Names of pipelines, models and versions, and lists of them.

use serde_json::json;

use crate::support::{
    Server,
    grpc::{Grpc, error},
    http::{get, post},
    pipelines::{Config, dl, infer, status, ten, with},
    repository,
};

const X: &str = "b=request.x";

#[test]
fn versions_are_those_that_nodes_name_or_the_default() {
    let root = repository::of(&[("1", "dummy"), ("2", "dummy"), ("3", "dummy")]);
    // To distinguish the versions: version 2 doubles.
    let graph = root.path().join("2/model.xml");
    let text = std::fs::read_to_string(&graph).unwrap();
    std::fs::write(&graph, text.replace("type=\"Add\"", "type=\"Subtract\"")).unwrap();
    let mut config = Config::of(&[]);
    config.model("m", root.path())["model_version_policy"] = json!({"all": {}});
    let node = dl("n", "m", X, "a=y");
    config.pipeline(
        "pinned",
        "x",
        &[with(node.clone(), "version", 2)],
        "out=n.y",
    );
    config.pipeline("latest", "x", &[node], "out=n.y");
    let server = config.serve();
    let client = Grpc::connect(&server);
    assert_eq!(infer(&client, ten("pinned", 5.0)), "out [1,10] 4");
    assert_eq!(infer(&client, ten("latest", 5.0)), "out [1,10] 6");
}

#[test]
fn mapped_names_are_the_names_of_a_model() {
    let root = repository::of(&[("1", "dummy")]);
    let mapping = json!({"inputs": {"b": "from"}, "outputs": {"a": "to"}});
    std::fs::write(
        root.path().join("1/mapping_config.json"),
        mapping.to_string(),
    )
    .unwrap();
    let mut config = Config::of(&[]);
    config.model("m", root.path());
    let mapped = dl("n", "m", "from=request.x", "to=y");
    config.pipeline("mapped", "x", &[mapped], "out=n.y");
    config.pipeline("real", "x", &[dl("n", "m", X, "a=y")], "out=n.y");
    let server = config.serve();
    let client = Grpc::connect(&server);
    assert_eq!(infer(&client, ten("mapped", 5.0)), "out [1,10] 6");
    server.wait_log(
        "Validation of pipeline definition: real failed: Pipeline definition has connection to \
         non existing model input",
    );
}

#[test]
fn lists_have_pipelines_beside_models() {
    let mut config = Config::of(&["dummy"]);
    config.pipeline("chain", "x", &[dl("n", "dummy", X, "a=y")], "out=n.y");
    let server = config.serve();
    let client = Grpc::connect(&server);
    client.answered(ten("chain", 1.0));
    let index = post(&server, "/v2/repository/index", b"{}").json();
    let names: Vec<&str> = index
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["chain", "dummy"]);
    assert_eq!(index[0]["state"], "READY");

    let config = get(&server, "/v1/config").json();
    assert_eq!(
        config["chain"]["model_version_status"][0]["state"],
        "AVAILABLE"
    );
    assert!(config["dummy"].is_object());

    let statistics = get(&server, "/v2/models/chain/stats").json();
    let statistics = &statistics["model_stats"][0];
    assert_eq!(
        json!([statistics["name"], statistics["version"]]),
        json!(["chain", "1"])
    );
    assert_eq!(statistics["inference_stats"]["success"]["count"], 1);

    let models = get(&server, "/v3/models").text();
    assert!(models.contains("chain"), "{models}");
}

#[test]
fn two_names_that_differ_little_and_two_hundred_nodes() {
    let mut config = Config::of(&["dummy"]);
    let node = |index: usize| {
        let source = match index {
            0 => X.to_owned(),
            _ => format!("b=n{}.y", index - 1),
        };
        dl(&format!("n{index}"), "dummy", &source, "a=y")
    };
    let nodes: Vec<_> = (0..200).map(node).collect();
    config.pipeline("long", "x", &nodes, "out=n199.y");
    config.pipeline("Long", "x", &nodes[..1], "out=n0.y");
    config.pipeline("long ", "x", &nodes[..2], "out=n1.y");
    // The second of one name is left out.
    config.pipeline("long", "x", &nodes[..3], "out=n2.y");
    let server = config.serve();
    server.wait_log("Duplicated pipeline names");
    let client = Grpc::connect(&server);
    assert_eq!(infer(&client, ten("long", 0.0)), "out [1,10] 200");
    assert_eq!(infer(&client, ten("Long", 0.0)), "out [1,10] 1");
    assert_eq!(infer(&client, ten("long ", 0.0)), "out [1,10] 2");
    assert_eq!(status(&server, "Long"), "AVAILABLE OK");
    let unknown = client.infer(ten("LONG", 0.0)).unwrap_err();
    assert_eq!(
        error(&unknown),
        "NotFound: Model with requested name is not found"
    );
}

#[test]
fn a_model_has_its_name_before_a_pipeline() {
    let mut config = Config::of(&["dummy"]);
    let node = dl("n", "dummy", X, "a=y");
    config.pipeline("dummy", "x", std::slice::from_ref(&node), "out=n.y");
    config.pipeline("other", "x", &[node], "out=n.y");
    let server = config.serve();
    server.wait_log(
        "Validation of pipeline definition: dummy failed: Pipeline has the same name as model",
    );
    Grpc::connect(&server).check_serves();
    let serves = |server: &Server, name: &str| status(server, name) == "AVAILABLE OK";
    assert!(serves(&server, "dummy") && serves(&server, "other"));
}
