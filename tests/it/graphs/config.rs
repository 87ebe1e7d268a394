//! Configuration of graphs, and their metadata and status over each interface.

use std::fs;

use serde_json::json;

use crate::support::{
    Server, eventually,
    graphs::{PASS, add, write},
    grpc::Grpc,
    http::post,
    model,
    pipelines::{Config, infer, request, status},
    repository,
};

/// Returns a request with one number for the input of [`PASS`].
fn one(name: &str) -> ovms::proto::kserve::ModelInferRequest {
    request(name, &[("in", &[1, 1], &[3.0])])
}

#[test]
fn models_of_a_graph_are_served_like_all_others() {
    let mut config = Config::of(&["dummy"]);
    let graph = add(&mut config, "g", PASS);
    let folder = graph.parent().unwrap();
    repository::copy(
        &model("running_total").join("1"),
        &folder.join("models/total/1"),
    );
    let subconfig = json!({"model_config_list": [
        {"config": {"name": "total", "base_path": "models/total"}},
        {"config": {"name": "dummy", "base_path": "models/total"}},
        {"config": {"name": "g", "base_path": "models/total"}},
    ]});
    fs::write(folder.join("subconfig.json"), subconfig.to_string()).unwrap();
    add(&mut config, "broken", PASS);
    fs::write(
        config.beside("broken/subconfig.json"),
        r#"{"model_config_list": []"#,
    )
    .unwrap();
    add(&mut config, "more", PASS);
    let more = r#"{"model_config_list": [], "pipeline_config_list": []}"#;
    fs::write(config.beside("more/subconfig.json"), more).unwrap();
    let server = config.serve();
    assert_eq!(status(&server, "total"), "AVAILABLE OK");
    server.wait_log("the model `dummy` is skipped, since its name is taken");
    server.wait_log("the model `g` is skipped, since its name is taken");
    server.wait_log("cannot read the subconfig of graph `broken`");
    server.wait_log("cannot read the subconfig of graph `more`");
    let client = Grpc::connect(&server);
    client.check_serves();
    for name in ["g", "broken", "more"] {
        assert_eq!(infer(&client, one(name)), "out [1,1] 3");
    }
    // Another file of models takes effect, one that is broken takes nothing away.
    let reload = || post(&server, "/v1/config/reload", b"").status;
    fs::write(
        config.beside("broken/subconfig.json"),
        r#"{"model_config_list": []}"#,
    )
    .unwrap();
    fs::remove_file(config.beside("more/subconfig.json")).unwrap();
    assert_eq!(reload(), 200);
    fs::write(folder.join("subconfig.json"), "{").unwrap();
    assert_eq!(reload(), 412);
    assert_eq!(status(&server, "total"), "AVAILABLE OK");
    fs::write(
        folder.join("subconfig.json"),
        r#"{"model_config_list": []}"#,
    )
    .unwrap();
    assert_eq!(reload(), 201);
    eventually("the model is gone", || {
        (status(&server, "total") == "END OK").then_some(())
    });
}

#[test]
fn one_graph_is_served_without_a_file() {
    let root = repository::folder();
    let plain = ["--plugin_config", "{}"];
    for folder in ["flat", "versioned"] {
        let path = root.path().join(folder);
        let below = if folder == "flat" {
            path.clone()
        } else {
            path.join("1")
        };
        write(&below, PASS);
        let server = Server::begin("g", &path, &plain);
        server.wait_ready();
        assert_eq!(infer(&Grpc::connect(&server), one("g")), "out [1,1] 3");
    }
}
