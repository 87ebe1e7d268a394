//! Configuration of graphs, and their metadata and status over each interface.

use std::fs;

use ovms::proto::{
    kserve::{ModelMetadataRequest, ModelReadyRequest},
    tensorflow::DataType,
    tensorflow_serving::GetModelMetadataRequest,
};
use serde_json::json;

use crate::support::{
    Server, cli, eventually,
    graphs::{LIST, PASS, TWO, add, write},
    grpc::{self, Grpc},
    http::{get, post},
    model,
    pipelines::{Config, infer, request, status},
    repository,
    tfs::{self, Tfs, spec},
};

const NOT_FOUND: &str = "404: Model with requested name is not found";

/// Returns a request with one number for the input of [`PASS`].
fn one(name: &str) -> ovms::proto::kserve::ModelInferRequest {
    request(name, &[("in", &[1, 1], &[3.0])])
}

#[test]
fn graphs_of_both_lists_are_served() {
    let mut config = Config::of(&["dummy"]);
    add(&mut config, "old/way", PASS);
    write(&config.beside("new"), PASS);
    write(&config.beside("versioned/1"), PASS);
    for name in ["new", "versioned"] {
        let entry = json!({"config": {"name": name, "base_path": name}});
        config.put("model_config_list", entry);
    }
    // Named alone.
    write(&config.beside("alone"), PASS);
    write(&config.beside("alone_versioned/1"), PASS);
    for name in ["alone", "alone_versioned"] {
        config.put("model_config_list", json!({"config": {"name": name}}));
    }
    let server = config.serve();
    let client = Grpc::connect(&server);
    for name in ["old/way", "new", "versioned", "alone", "alone_versioned"] {
        assert_eq!(infer(&client, one(name)), "out [1,1] 3");
    }
    client.check_serves();
    let body = br#"{"id":"7","inputs":[{"name":"in","shape":[1],"datatype":"INT32","data":[5]}]}"#;
    let answer = post(&server, "/v2/models/old%2Fway/infer", body).json();
    assert_eq!(answer["id"], "7");
    assert_eq!(answer["model_name"], "old/way");
    assert_eq!(answer["model_version"], "1");
    assert_eq!(answer["outputs"][0]["data"], json!([5]));
    let listed = get(&server, "/v1/config").json();
    for name in ["old/way", "new", "versioned", "dummy"] {
        let state = &listed[name]["model_version_status"][0]["state"];
        assert_eq!(*state, "AVAILABLE", "{name}");
    }
}

#[test]
fn every_interface_says_what_it_knows_of_a_graph() {
    let mut config = Config::of(&[]);
    add(&mut config, "g", TWO);
    let server = config.serve();
    let client = Grpc::connect(&server);
    let tensor = |name: &str| json!({"name": name, "datatype": "INVALID", "shape": []});
    let expected = json!({
        "name": "g", "versions": ["1"], "platform": "OpenVINO",
        "inputs": [tensor("a"), tensor("b")], "outputs": [tensor("c"), tensor("d")],
    });
    for path in [
        "/v2/models/g",
        "/v2/models/g/versions/1",
        "/v2/models/g/versions/7",
    ] {
        assert_eq!(get(&server, path).json(), expected, "{path}");
    }
    for version in ["", "1", "12"] {
        let asked = ModelMetadataRequest {
            name: "g".to_owned(),
            version: version.to_owned(),
        };
        let mut kserve = client.client.clone();
        let known = client
            .wait(async move { kserve.model_metadata(asked).await })
            .unwrap();
        assert_eq!(known.versions, ["1"]);
        assert_eq!(known.platform, "OpenVINO");
        let of = |tensors: &[ovms::proto::kserve::model_metadata_response::TensorMetadata]| {
            let tensors = tensors.iter();
            let reported = tensors.map(|it| format!("{} {} {:?}", it.name, it.datatype, it.shape));
            reported.collect::<Vec<_>>().join(", ")
        };
        assert_eq!(of(&known.inputs), "a INVALID [], b INVALID []");
        assert_eq!(of(&known.outputs), "c INVALID [], d INVALID []");
        let asked = ModelReadyRequest {
            name: "g".to_owned(),
            version: version.to_owned(),
        };
        let mut kserve = client.client.clone();
        let ready = client
            .wait(async move { kserve.model_ready(asked).await })
            .unwrap();
        assert!(ready.ready);
    }
    assert_eq!(get(&server, "/v2/models/g/ready").status, 200);
    assert_eq!(status(&server, "g"), "AVAILABLE OK");
    assert_eq!(get(&server, "/v1/models/g/metadata").error(), NOT_FOUND);
    let predict = post(
        &server,
        "/v1/models/g:predict",
        br#"{"inputs": {"a": [1], "b": [2]}}"#,
    );
    assert_eq!(predict.error(), NOT_FOUND);
    let tfs = Tfs::connect(&server);
    let not_found = "NotFound: Model with requested name is not found";
    let tensor = tfs::content(DataType::DtFloat, &[1], &[0; 4]);
    assert_eq!(tfs.refused(tfs::request("g", [("a", tensor)])), not_found);
    let asked = GetModelMetadataRequest {
        model_spec: spec("g", 1),
        metadata_field: vec!["signature_def".to_owned()],
    };
    let mut prediction = tfs.prediction.clone();
    let answer = tfs
        .grpc
        .wait(async move { prediction.get_model_metadata(asked).await });
    assert_eq!(grpc::error(&answer.unwrap_err()), not_found);
    let index = post(&server, "/v2/repository/index", b"").json();
    assert_eq!(
        index,
        json!([{"name": "g", "version": "1", "state": "READY", "reason": ""}])
    );
    let known = get(&server, "/v2/models/g/config").json();
    assert_eq!(
        known["input"][0],
        json!({"name": "a", "data_type": "TYPE_INVALID", "dims": []})
    );
    client.answered(both());
    let figures = get(&server, "/v2/models/g/stats").json();
    assert_eq!(figures["model_stats"][0]["inference_count"], 1);
    assert_eq!(get(&server, "/v2/models/h").error(), NOT_FOUND);
    assert_eq!(
        client.refused(one("h")),
        "NotFound: Model with requested name is not found"
    );
}

fn both() -> ovms::proto::kserve::ModelInferRequest {
    request("g", &[("a", &[1], &[1.0]), ("b", &[1], &[2.0])])
}

#[test]
fn outputs_that_are_asked_for_come_in_that_order() {
    let mut config = Config::of(&[]);
    add(&mut config, "g", TWO);
    let server = config.serve();
    let client = Grpc::connect(&server);
    let ask = |outputs: &[&str]| {
        let mut request = both();
        request.id = "mine".to_owned();
        request.model_version = "9".to_owned();
        request.outputs = outputs.iter().map(|name| grpc::wanted(name)).collect();
        match client.infer(request) {
            Ok(answer) => {
                assert_eq!((&*answer.id, &*answer.model_version), ("mine", "1"));
                crate::support::pipelines::reported(&answer)
            }
            Err(status) => grpc::error(&status),
        }
    };
    assert_eq!(ask(&[]), "c [1] 1; d [1] 2");
    assert_eq!(ask(&["d", "c"]), "d [1] 2; c [1] 1");
    assert_eq!(ask(&["d"]), "d [1] 2");
    assert_eq!(
        ask(&["e"]),
        "InvalidArgument: Invalid output name - Requested output: e; the graph has: c, d"
    );
    assert_eq!(
        ask(&["d", "d"]),
        "InvalidArgument: Invalid output name - Requested output: d is listed twice"
    );
    assert_eq!(
        client.refused(request("g", &[("a", &[1], &[1.0]), ("x", &[1], &[2.0])])),
        "InvalidArgument: Unexpected input - x is unexpected"
    );
    assert_eq!(
        client.refused(request("g", &[("a", &[1], &[1.0])])),
        "InvalidArgument: Invalid number of inputs - Not all input packets created"
    );
}

#[test]
fn names_are_given_once() {
    let mut config = Config::of(&["dummy"]);
    add(&mut config, "g", PASS);
    config.put(LIST, json!({"name": "g", "base_path": "/nowhere"}));
    config.put(LIST, json!({"name": "dummy", "base_path": "g"}));
    let server = config.serve();
    server.wait_log(
        "Duplicated mediapipe names: g defined in config file. Only first graph will be loaded.",
    );
    server.wait_log("Mediapipe graph name: dummy is already occupied by model or pipeline.");
    server.wait_log("Given mediapipe graph name is already occupied");
    let client = Grpc::connect(&server);
    assert_eq!(infer(&client, one("g")), "out [1,1] 3");
    client.check_serves();
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
    server.wait_log("the model `dummy` is left out, since its name is taken");
    server.wait_log("the model `g` is left out, since its name is taken");
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
    let run = |flags: &[&str]| {
        let path = root.path().join("flat");
        let begin = ["serve", "--port", "1", "--model_name", "g", "--model_path"];
        let begin = begin.into_iter().chain([path.to_str().unwrap()]);
        let run = cli::ovms(begin.chain(flags.iter().copied()));
        run.failure()
            .replace(root.path().to_str().unwrap(), "<folder>")
    };
    insta::assert_snapshot!(run(&["--nireq", "2", "--shape", "auto"]), @"
    exit 64
    options validation error - a graph is started with model_name, model_path and plugin_config alone; found the graph <folder>/flat/graph.pbtxt, and beside them shape, nireq
    ");
}

#[test]
fn a_check_reads_graphs() {
    let mut config = Config::of(&[]);
    add(&mut config, "good", PASS);
    add(&mut config, "empty", "");
    add(&mut config, "typing", &PASS.replace("node {", "nude {"));
    config.put(LIST, json!({"name": "missing"}));
    let path = config.write();
    let run = cli::ovms(["serve", "--check", "--config_path", path.to_str().unwrap()]);
    let folder = path.parent().unwrap().to_str().unwrap();
    assert_eq!(run.code, Some(1));
    let shown = run.text().replace(folder, "<folder>");
    let rows: Vec<Vec<&str>> = shown
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows[1..],
        [
            ["good", "graph", "1", "ok"],
            ["empty", "graph", "-", "error"],
            ["typing", "graph", "-", "error"],
            ["missing", "graph", "-", "error"],
        ]
    );
    let reported = run.stderr;
    for text in [
        "graph `empty`",
        "graph `typing`",
        "graph `missing`",
        "3 errors",
    ] {
        assert!(reported.contains(text), "{text}: {reported}");
    }
}
