//! Pipelines refused at load: the rules one by one, and responses to requests for them.

use serde_json::{Value, json};

use crate::support::{
    grpc::Grpc,
    http::get,
    model,
    pipelines::{Config, custom, dl, is_refused, status, ten, with},
};

const X: &str = "b=request.x";

/// A refused pipeline, and the text of its error.
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

/// Returns a pipeline for each rule of the check, in order, except the rule about names.
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
