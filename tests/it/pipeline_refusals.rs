//! What is refused when pipelines are loaded: the rules one by one, and what then is answered.

use serde_json::{Value, json};

use crate::support::{
    Server,
    grpc::{self, Grpc},
    http::{get, post},
    model,
    pipelines::{Config, custom, dl, status, ten, with},
    repository,
};

const X: &str = "b=request.x";

/// A pipeline that is refused, and the text that says why.
struct Refused {
    text: &'static str,
    inputs: &'static str,
    nodes: Vec<Value>,
    outputs: &'static str,
    count: Option<i64>,
}

fn refused(text: &'static str, nodes: Vec<Value>, outputs: &'static str) -> Refused {
    Refused {
        text,
        inputs: "x",
        nodes,
        outputs,
        count: None,
    }
}

fn shaped(params: &Value, input: &str) -> Value {
    custom("c", "shaped", params, input, "out=y")
}

fn fails(function: &str) -> Vec<Value> {
    let params = json!({"fail": function});
    vec![custom("c", "failing", &params, "done=request.x", "done=y")]
}

fn says(what: &str) -> Vec<Value> {
    let params = json!({"say": what});
    vec![custom("c", "nonsense", &params, "", "first=y")]
}

/// The rules of the check, in their order; the rule about names is tested elsewhere.
fn rules() -> Vec<Refused> {
    let n = |input: &str| dl("n", "dummy", input, "a=y");
    let parts = |count: i64, out: &str| {
        let node = shaped(&json!({"out": out}), "in=request.x");
        with(node, "demultiply_count", count)
    };
    let gathers = |node: Value, from: &str| with(node, "gather_from_node", from);
    let fed_by = |input: &str| vec![parts(3, "3,1,10"), n(input)];
    let strings = |name: &str, input: &str| dl(name, "passthrough_string", input, "out=y");
    let gather = |name: &str, input: &str, from: &str| {
        let node = custom(name, "shaped", &json!({"in": "3,1,10"}), input, "out=y");
        gathers(node, from)
    };
    let mut rules = vec![
        refused(
            "Pipeline refers to incorrect library",
            vec![custom("c", "stranger", &json!({}), "in=request.x", "out=y")],
            "out=c.y",
        ),
        refused(
            "Pipeline refers to incorrect library",
            vec![custom("c", "missing", &json!({}), "in=request.x", "out=y")],
            "out=c.y",
        ),
        refused(
            "Failure during custom node library initialization",
            fails("initialize"),
            "out=c.y",
        ),
        refused(
            "Functionality not implemented",
            vec![parts(-1, "0,1,10"), with(n("b=c.y"), "demultiply_count", 1)],
            "out=n.y",
        ),
        refused(
            "Pipeline definition has multiple nodes with the same name",
            vec![n(X), n(X)],
            "out=n.y",
        ),
        refused(
            "Pipeline definition has reference to missing model",
            vec![dl("n", "stranger", X, "a=y")],
            "out=n.y",
        ),
        refused(
            "Pipeline definition has reference to missing model",
            vec![with(n(X), "version", 7)],
            "out=n.y",
        ),
        refused(
            "Value of provided parameter is forbidden",
            vec![dl("n", "auto", X, "a=y")],
            "out=n.y",
        ),
        refused(
            "Stateful model cannot be subscribed to pipeline",
            vec![dl("n", "running_total", "x=request.x", "total=y")],
            "out=n.y",
        ),
        refused(
            "Demultiplication is not supported for string precision",
            vec![with(strings("n", "in=request.x"), "demultiply_count", 2)],
            "out=n.y",
        ),
        refused(
            "Custom node failed on metadata call",
            fails("getInputsInfo"),
            "out=c.y",
        ),
        refused(
            "Custom node failed on metadata call",
            fails("getOutputsInfo"),
            "out=c.y",
        ),
        refused(
            "Custom node library has returned corrupted outputs handle",
            says("no_array"),
            "out=c.y",
        ),
        refused(
            "Custom node library has produced corrupted number of outputs",
            says("no_count"),
            "out=c.y",
        ),
        refused(
            "Pipeline has not enough shape dimensions to demultiply",
            vec![parts(10, "10")],
            "out=c.y",
        ),
        refused(
            "Demultiplication count does not match tensor first dimension",
            fed_by("b=c.y")
                .into_iter()
                .map(|node| match node["name"].as_str() {
                    Some("c") => with(node, "demultiply_count", 4),
                    _ => node,
                })
                .collect(),
            "out=n.y",
        ),
        refused(
            "Gather node refers to not existing node",
            vec![gathers(n(X), "stranger")],
            "out=n.y",
        ),
        refused(
            "Gather node refers to node that isn't demultiplexer",
            vec![dl("m", "dummy", X, "a=y"), gathers(n("b=m.y"), "m")],
            "out=n.y",
        ),
        refused(
            "Pipeline definition has reference to missing node",
            vec![n("b=stranger.y")],
            "out=n.y",
        ),
        refused(
            "Pipeline definition has response node used as dependency node",
            vec![n("b=response.out")],
            "out=n.y",
        ),
        refused(
            "Pipeline definition has connection to non existing model input",
            vec![n("stranger=request.x")],
            "out=n.y",
        ),
        refused(
            "Pipeline definition has multiple connections to the same input of underlying model",
            vec![n("b=request.x b=request.x")],
            "out=n.y",
        ),
        refused(
            "Pipeline definition has reference to missing data source",
            vec![n("b=request.stranger")],
            "out=n.y",
        ),
        refused(
            "Pipeline definition has reference to missing data source",
            vec![n(X)],
            "out=n.stranger",
        ),
        refused(
            "Pipeline definition has reference to missing model output",
            vec![dl("n", "dummy", X, "stranger=y")],
            "out=n.y",
        ),
        refused(
            "Invalid input shape",
            vec![shaped(&json!({"out": "1,9"}), "in=request.x"), n("b=c.y")],
            "out=n.y",
        ),
        refused(
            "Invalid input precision",
            vec![
                shaped(&json!({"out_type": "7"}), "in=request.x"),
                n("b=c.y"),
            ],
            "out=n.y",
        ),
        refused(
            "Functionality not implemented",
            vec![strings("m", "in=request.x"), strings("n", "in=m.y")],
            "out=n.y",
        ),
        refused(
            "Pipeline definition does not have connections for all inputs of underlying models",
            vec![dl("n", "add", "input1=request.x", "sum=y")],
            "out=n.y",
        ),
        refused(
            "Pipeline definition contains a cycle",
            vec![
                dl("one", "add", "input1=request.x input2=three.y", "sum=y"),
                dl("two", "dummy", "b=one.y", "a=y"),
                dl("three", "dummy", "b=two.y", "a=y"),
            ],
            "out=three.y",
        ),
        refused(
            "Pipeline definition contains a cycle",
            vec![n("b=n.y")],
            "out=n.y",
        ),
        refused(
            "Pipeline definition has unconnected nodes",
            vec![n(X), dl("m", "dummy", X, "a=y")],
            "out=n.y",
        ),
        refused(
            "Demultiplexer and gather nodes are not in LIFO order",
            vec![
                parts(3, "3,1,10"),
                with(
                    custom("d", "shaped", &json!({"out": "3,1,10"}), "in=c.y", "out=y"),
                    "demultiply_count",
                    3,
                ),
                gather("g", "in=d.y", "c"),
            ],
            "out=g.y",
        ),
        refused(
            "Multiple nodes connected to the same pipeline input require different tensor metadata",
            vec![dl("m", "increment4d", "input=request.x", "output=y"), n(X)],
            "out=n.y other=m.y",
        ),
    ];
    let entry = |count| Refused {
        count: Some(count),
        ..refused("", vec![], "out=n.y")
    };
    rules.push(Refused {
        text: "Functionality not implemented",
        nodes: vec![parts(3, "3,1,10"), n("b=c.y")],
        ..entry(-1)
    });
    rules.push(Refused {
        text: "Demultiplication is not supported for string precision",
        nodes: vec![strings("n", "in=request.x")],
        ..entry(2)
    });
    rules
}

#[test]
fn every_rule_refuses_one_pipeline_and_no_other() {
    let mut config = Config::of(&["dummy", "add", "passthrough_string", "increment4d"]);
    config.model("auto", &model("dummy"))["batch_size"] = json!("auto");
    config.model("running_total", &model("running_total"))["stateful"] = json!(true);
    config.library("shaped", "shaped.c");
    config.library("failing", "failing.c");
    config.library("nonsense", "nonsense.c");
    config.library_at("missing", "/nowhere/libnone.so".as_ref());
    let rules = rules();
    for (index, rule) in rules.iter().enumerate() {
        let name = format!("p{index}");
        let pipeline = config.pipeline(&name, rule.inputs, &rule.nodes, rule.outputs);
        if let Some(count) = rule.count {
            pipeline["demultiply_count"] = json!(count);
        }
    }
    config.pipeline("good", "x", &[dl("n", "dummy", X, "a=y")], "out=n.y");
    let server = config.serve();
    let client = Grpc::connect(&server);
    let log = server.log();
    for (index, rule) in rules.iter().enumerate() {
        let text = format!(
            "Validation of pipeline definition: p{index} failed: {}",
            rule.text
        );
        let line = log.lines().find(|line| line.contains(&text));
        let found = format!("definition: p{index} failed");
        let others: Vec<&str> = log.lines().filter(|line| line.contains(&found)).collect();
        let line = line.unwrap_or_else(|| panic!("{text}: {others:#?}"));
        assert!(line.contains("ERROR"), "{line}");
        let state = format!(
            "Pipeline: p{index} state changed to: LOADING_PRECONDITION_FAILED after handling: \
             ValidationFailed: "
        );
        assert!(log.contains(&state), "{state}");
        is_refused(&server, &client, &format!("p{index}"));
    }
    assert_eq!(status(&server, "good"), "AVAILABLE OK");
    client.answered(ten("good", 1.0));
    client.check_serves();
    assert_eq!(get(&server, "/v2/health/ready").status, 200);
}

/// Checks what is answered by all interfaces.
fn is_refused(server: &Server, client: &Grpc, name: &str) {
    assert_eq!(status(server, name), "LOADING FAILED_PRECONDITION");
    assert_eq!(
        client.refused(ten(name, 1.0)),
        "Unavailable: Pipeline is not loaded yet"
    );
    let not_loaded = "404: Pipeline is not loaded yet";
    let path = format!("/v2/models/{name}");
    assert_eq!(get(server, &path).fault(), not_loaded);
    let body = br#"{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[0]}]}"#;
    let infer = post(server, &format!("{path}/infer"), body);
    assert_eq!(infer.fault(), not_loaded);
    let body = br#"{"instances":[{"x":[0]}]}"#;
    let predict = post(server, &format!("/v1/models/{name}:predict"), body);
    assert_eq!(predict.fault(), not_loaded);
    assert_ne!(get(server, &format!("{path}/ready")).status, 200);
    let ready = ovms::proto::kserve::ModelReadyRequest {
        name: name.to_owned(),
        version: String::new(),
    };
    let mut kserve = client.client.clone();
    let ready = client.wait(async move { kserve.model_ready(ready).await });
    assert!(!ready.unwrap().ready);
}

/// Configurations that the schema refuses.
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

#[test]
fn all_libraries_that_cannot_be_opened_leave_the_rest_alone() {
    let mut config = Config::of(&["dummy"]);
    let folder = repository::folder();
    let text = folder.path().join("libtext.so");
    std::fs::write(&text, "not a library").unwrap();
    config.library_at("text", &text);
    config.library_at("climbs", "../libclimbs.so".as_ref());
    config.library_at("old", &crate::support::nodes::compiled("old_interface.c"));
    for name in ["text", "climbs", "old"] {
        let node = custom("c", name, &json!({}), "in=request.x", "out=y");
        config.pipeline(name, "x", &[node], "out=c.y");
    }
    config.pipeline("good", "x", &[dl("n", "dummy", X, "a=y")], "out=n.y");
    let server = config.serve();
    let client = Grpc::connect(&server);
    for name in ["text", "climbs", "old"] {
        server.wait_log(&format!(
            "Validation of pipeline definition: {name} failed: Pipeline refers to incorrect library"
        ));
        is_refused(&server, &client, name);
    }
    for line in [
        "Library name: text failed to open base_path: ",
        "escape with .. is forbidden.",
        "Failed to load library name: old with error: ",
    ] {
        server.wait_log(line);
    }
    assert_eq!(
        crate::support::pipelines::infer(&client, ten("good", 1.0)),
        "out [1,10] 2"
    );
    let stranger = grpc::fault(&client.infer(ten("stranger", 1.0)).unwrap_err());
    assert_eq!(stranger, "NotFound: Model with requested name is not found");
}
