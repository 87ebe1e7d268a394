//! `ovms pipeline check`: its output about pipelines, and exit codes.

use std::{fs, path::Path};

use crate::support::{
    checks::{Case, dummy, entry, file, library, node, pipeline, shown, sound},
    ir, model, nodes,
};

#[test]
fn errors_are_reported_with_line_and_connection() {
    let case = Case::new();
    ir::relu(&case.path().join("models/wide"), "in", "out", &[1, 20]);
    fs::create_dir(case.path().join("models/empty")).unwrap();
    case.config(
        r#"{
    "model_config_list": [
        {"config": {"name": "wide", "base_path": "models/wide"}},
        {"config": {"name": "wider", "base_path": "models/wide", "shape": "(1,30)"}},
        {"config": {"name": "empty", "base_path": "models/empty"}},
        {"config": {"name": "far", "base_path": "s3://bucket/far"}} // not looked at
    ],
    "pipeline_config_list": [
        {
            "name": "first",
            "inputs": ["x", "idle"],
            "nodes": [
                {
                    "name": "one", "type": "DL model", "model_name": "wide",
                    "inputs": [{"in": {"node_name": "request", "data_item": "x"}}],
                    "outputs": [{"data_item": "out", "alias": "a"}]
                },
                {
                    "name": "two", "type": "DL model", "model_name": "wider",
                    "inputs": [
                        {"in": {"node_name": "one", "data_item": "a"}},
                        {"inn": {
                            "node_name": "one", "data_item": "b"
                        }}
                    ],
                    "outputs": [{"data_item": "out", "alias": "a"}]
                },
                {
                    "name": "three", "type": "DL model", "model_name": "empty",
                    "gather_from_node": "on",
                    "inputs": [{"in": {"node_name": "two", "data_item": "a"}}],
                    "outputs": [{"data_item": "out", "alias": "a"}]
                },
                {
                    "name": "four", "type": "DL model", "model_name": "far",
                    "inputs": [{"in": {"node_name": "two", "data_item": "a"}}],
                    "outputs": [{"data_item": "out", "alias": "a"}]
                }
            ],
            "outputs": [
                {"y": {"node_name": "three", "data_item": "a"}}, {"z": {"node_name": "four", "data_item": "a"}}
            ]
        },
        {"name": "wide", "inputs": [], "nodes": [], "outputs": []},
        {
            "name": "straight", "inputs": ["x"], "nodes": [],
            "outputs": [{"x": {"node_name": "request", "data_item": "x"}}]
        }
    ]
}
"#,
    );
    insta::assert_snapshot!(shown(&case.check(&[])), @r#"
    pipeline `first`: 5 errors, 2 things that could not be checked

    error: Invalid input shape [rule 21]
      --> config.json:21:25
       |
    21 |                         {"in": {"node_name": "one", "data_item": "a"}},
       |                         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       |
       = one ──a──▶ two.in
       = found     FP32 (1,20) from `one`
         expected  (1,30)
       = help: connect an output of the same shape, or put a node between

    error: Pipeline definition has connection to non existing model input [rule 17]
      --> config.json:22:25
       |
    22 |                         {"inn": {
       |                         ^^^^^^^^^
       |
       = one ──b──▶ two.inn
       = found     the input `inn`
         expected  an input of what it runs: in
       = help: did you mean `in`?

    error: Pipeline definition has reference to missing data source [rule 19]
      --> config.json:22:25
       |
    22 |                         {"inn": {
       |                         ^^^^^^^^^
       |
       = one ──b──▶ two.inn
       = found     the data_item `b` of `one`
         expected  an alias of its outputs: a
       = help: add it to the outputs of that node

    error: Pipeline definition has reference to missing model [rule 6]
      --> config.json:29:72
       |
    29 |                     "name": "three", "type": "DL model", "model_name": "empty",
       |                                                                        ^^^^^^^
       |
       = node `three`
       = found     the model `empty`, which is not available: there is no version to serve in <folder>/models/empty
         expected  a model that is available
       = help: fix that first

    error: Gather node refers to not existing node [rule 13]
      --> config.json:30:41
       |
    30 |                     "gather_from_node": "on",
       |                                         ^^^^
       |
       = node `three`
       = found     `on`, which is no node
         expected  a node with demultiply_count, of which there is none
       = help: change gather_from_node, or give that node a demultiply_count

      config.json:29:72: not checked: node `three`: its inputs and outputs, and what depends on them, since the model cannot be asked
      config.json:35:71: not checked: node `four`: its files are in the cloud, at s3://bucket/far

    pipeline `wide`: 1 error

    error: Pipeline has the same name as model [rule 1]
      --> config.json:44:9
       |
    44 |         {"name": "wide", "inputs": [], "nodes": [], "outputs": []},
       |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       |
       = found     the name `wide`, which a model has
         expected  a name of its own
       = help: rename the pipeline; the rest of it is looked at then

    pipeline `straight`: no errors
    exit 1
    error: 2 of 3 pipelines cannot be served: 6 errors, 2 things that could not be checked
    "#);
    insta::assert_snapshot!(shown(&case.check(&["straight"])), @"
    pipeline `straight`: no errors
    exit 0
    ");
}

#[test]
fn every_rule_is_found_in_one_file() {
    let case = Case::new();
    let made = |name: &str, input: &str, dims: &[usize]| {
        let path = case.path().join(name);
        ir::relu(&path, input, "a", dims);
        entry(name, &path, "")
    };
    let models = [
        dummy(),
        entry("add", &model("add"), ""),
        entry("auto", &model("dummy"), r#", "shape": "auto""#),
        entry("stateful", &model("dummy"), r#", "stateful": true"#),
        entry("ints", &model("passthrough_i32"), r#", "shape": "(1,10)""#),
        entry("text", &model("passthrough_string"), ""),
        made("wide", "b", &[1, 20]),
        made("four", "b", &[4, 1, 10]),
    ];
    let libraries = [
        library("failing", &nodes::compiled("failing.c")),
        library("nonsense", &nodes::compiled("nonsense.c")),
        library("text", &case.path().join("config.json")),
    ];
    let request = ["b < request.x"];
    let says = |what: &str| format!(r#", "params": {what}"#);
    let lib = |name: &str, runs: &str, params: &str| {
        node(name, runs, &["in < request.x"], &["out"], &says(params))
    };
    let plain = |name: &str, model: &str, source: &str| {
        node(name, model, &[&*format!("b < {source}")], &["a"], "")
    };
    let split = |count: i32| format!(r#", "demultiply_count": {count}"#);
    let gather = |from: &str| format!(r#", "gather_from_node": "{from}""#);
    let pipelines = [
        pipeline("dummy", &[], &[], ""),
        pipeline(
            "libraries",
            &[
                lib("n2", "@nope", "{}"),
                lib("n2b", "@text", "{}"),
                lib("n3", "@failing", r#"{"fail": "initialize"}"#),
                lib("n9", "@failing", r#"{"fail": "getInputsInfo"}"#),
                lib("n10", "@nonsense", r#"{"say": "no_array"}"#),
                lib("n10b", "@nonsense", r#"{"say": "no_count"}"#),
            ],
            &["o < n2.out"],
            "",
        ),
        pipeline(
            "nodes",
            &[
                node("a", "dummy", &request, &["a"], &split(3)),
                plain("a", "dummy", "request.x"),
                plain("b", "dumy", "request.x"),
                plain("c", "auto", "request.x"),
                plain("d", "stateful", "request.x"),
                node("e", "text", &["in < request.x"], &["out"], &split(2)),
                node("f", "four", &request, &["a"], &split(3)),
                node("g", "dummy", &request, &["a"], &gather("ghost")),
                node("h", "dummy", &request, &["a"], &gather("g")),
            ],
            &["o < a.a"],
            &split(-1),
        ),
        pipeline(
            "connections",
            &[
                plain("a", "dummy", "ghost.a"),
                plain("b", "dummy", "response.a"),
                plain("c", "dummy", "a.z"),
                node("d", "dummy", &["q < a.a", "q < a.a"], &["a", "z"], ""),
                plain("e", "dummy", "d.z"),
                plain("f", "wide", "a.a"),
                node("g", "ints", &["in < a.a"], &["out"], ""),
                node("h", "text", &["in < request.x"], &["out"], ""),
                node("i", "text", &["in < h.out"], &["out"], ""),
                node("j", "add", &["input1 < a.a"], &["sum"], ""),
            ],
            &["o < i.out"],
            "",
        ),
        pipeline(
            "cycle",
            &[
                node("a", "add", &["input1 < b.a", "input2 < b.a"], &["sum"], ""),
                plain("b", "dummy", "a.sum"),
            ],
            &["o < b.a"],
            "",
        ),
        pipeline(
            "order",
            &[
                node("d", "four", &["b < request.x"], &["a"], &split(4)),
                plain("e", "dummy", "d.a"),
                plain("f", "dummy", "request.x"),
            ],
            &["p < e.a", "q < f.a"],
            "",
        ),
    ];
    case.config(&file(&models, &libraries, &pipelines));
    let (code, report) = case.json(&[]);
    assert_eq!(code, Some(1));
    let pipelines = report["pipelines"].as_array().unwrap();
    let errors = pipelines
        .iter()
        .flat_map(|pipeline| pipeline["faults"].as_array().unwrap());
    let mut rules: Vec<(u64, &str)> = errors
        .map(|failure| {
            for key in ["line", "column"] {
                assert!(failure[key].as_u64().unwrap() > 0, "{failure}");
            }
            for key in ["file", "path", "found", "expected", "next"] {
                assert_ne!(failure[key].as_str().unwrap(), "", "{failure}");
            }
            (
                failure["rule"].as_u64().unwrap(),
                failure["status"].as_str().unwrap(),
            )
        })
        .collect();
    rules.sort_unstable();
    rules.dedup();
    let reported: Vec<String> = rules
        .iter()
        .map(|(rule, status)| format!("{rule} {status}"))
        .collect();
    insta::assert_snapshot!(reported.join("\n"), @"
    1 Pipeline has the same name as model
    2 Pipeline refers to incorrect library
    3 Failure during custom node library initialization
    4 Functionality not implemented
    5 Pipeline definition has multiple nodes with the same name
    6 Pipeline definition has reference to missing model
    7 Stateful model cannot be subscribed to pipeline
    7 Value of provided parameter is forbidden
    8 Demultiplication is not supported for string precision
    9 Custom node failed on metadata call
    10 Custom node library has produced corrupted number of outputs
    10 Custom node library has returned corrupted outputs handle
    11 Pipeline has not enough shape dimensions to demultiply
    12 Demultiplication count does not match tensor first dimension
    13 Gather node refers to not existing node
    14 Gather node refers to node that isn't demultiplexer
    15 Pipeline definition has reference to missing node
    16 Pipeline definition has response node used as dependency node
    17 Pipeline definition has connection to non existing model input
    18 Pipeline definition has multiple connections to the same input of underlying model
    19 Pipeline definition has reference to missing data source
    20 Pipeline definition has reference to missing model output
    21 Invalid input shape
    22 Invalid input precision
    23 Functionality not implemented
    24 Pipeline definition does not have connections for all inputs of underlying models
    25 Pipeline definition contains a cycle
    26 Pipeline definition has unconnected nodes
    27 Demultiplexer and gather nodes are not in LIFO order
    28 Multiple nodes connected to the same pipeline input require different tensor metadata
    ");
    let names = |key: &str| -> Vec<&str> {
        let values = pipelines.iter().map(|pipeline| pipeline[key].as_str());
        values.map(Option::unwrap).collect()
    };
    assert_eq!(
        names("name"),
        [
            "dummy",
            "libraries",
            "nodes",
            "connections",
            "cycle",
            "order"
        ]
    );
    assert_eq!(names("verdict"), ["faults"; 6]);
    assert_eq!(report["verdict"], "faults");
}

#[test]
fn without_a_runtime_what_needs_none_is_checked() {
    let case = Case::new();
    let models = [
        dummy(),
        entry("auto", &model("dummy"), r#", "batch_size": "auto""#),
        entry("gone", &case.path().join("gone"), ""),
    ];
    let nodes = [
        node("a", "dummy", &["b < request.y"], &["a"], ""),
        node("c", "auto", &["b < a.a"], &["a"], ""),
        node("d", "gone", &["b < c.a"], &["a"], ""),
        node("e", "dummy", &["b < d.a"], &["a"], r#", "version": 7"#),
    ];
    case.config(&file(
        &models,
        &[],
        &[pipeline("p", &nodes, &["o < e.a"], "")],
    ));
    insta::assert_snapshot!(shown(&case.check_bare(&[])), @r#"
    pipeline `p`: 4 errors, 4 things that could not be checked

    error: Pipeline definition has reference to missing data source [rule 19]
      --> config.json:11:13
       |
    11 |  "inputs": [{"b": {"node_name": "request", "data_item": "y"}}],
       |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       |
       = request ──y──▶ a.b
       = found     the data_item `y` of `request`
         expected  an input of the pipeline: x
       = help: add it to the inputs of the pipeline

    error: Value of provided parameter is forbidden [rule 7]
      --> config.json:13:49
       |
    13 | {"name": "c", "type": "DL model", "model_name": "auto",
       |                                                 ^^^^^^
       |
       = node `c`
       = found     a model whose batch size or shape is auto
         expected  a fixed shape, -1 or a range
       = help: change batch_size or shape of the model, for example to -1

    error: Pipeline definition has reference to missing model [rule 6]
      --> config.json:16:49
       |
    16 | {"name": "d", "type": "DL model", "model_name": "gone",
       |                                                 ^^^^^^
       |
       = node `d`
       = found     the model `gone`, which is not available: The provided base path is invalid or doesn't exists - <folder>/gone: No such file or directory (os error 2)
         expected  a model that is available
       = help: fix that first

    error: Pipeline definition has reference to missing model [rule 6]
      --> config.json:19:69
       |
    19 | {"name": "e", "type": "DL model", "model_name": "dummy", "version": 7,
       |                                                                     ^
       |
       = node `e`
       = found     a version that the model `dummy` does not have
         expected  a version that it has: 1
       = help: change the version, or leave it out for the default one

      config.json:10:49: not checked: node `a`: no OpenVINO runtime found
      config.json:13:49: not checked: node `c`: no OpenVINO runtime found
      config.json:16:49: not checked: node `d`: its inputs and outputs, and what depends on them, since the model cannot be asked
      config.json:19:69: not checked: node `e`: its inputs and outputs, and what depends on them, since the model cannot be asked

    exit 1
    error: the pipeline `p` cannot be served: 4 errors, 4 things that could not be checked
    hint: run `ovms setup` for a runtime, which models are looked at with
    "#);
    case.config(&file(&[dummy()], &[], &[sound("p")]));
    insta::assert_snapshot!(shown(&case.check_bare(&[])), @"
    pipeline `p`: 1 thing that could not be checked

      config.json:8:49: not checked: node `a`: no OpenVINO runtime found

    exit 2
    warning: no errors, but 1 thing that could not be checked
    hint: run `ovms setup` for a runtime, which models are looked at with
    ");
}

#[test]
fn the_end_says_how_it_looks() {
    let case = Case::new();
    case.config(&file(&[dummy()], &[], &[sound("p"), sound("q")]));
    insta::assert_snapshot!(shown(&case.check(&[])), @"
    pipeline `p`: no errors
    pipeline `q`: no errors
    2 pipelines: no errors
    exit 0
    ");
    insta::assert_snapshot!(shown(&case.check(&["q"])), @"
    pipeline `q`: no errors
    exit 0
    ");
    insta::assert_snapshot!(shown(&case.check(&["pp"])), @"
    exit 64
    error: the configuration file config.json has no pipeline `pp`
    hint: did you mean `p`?
    hint: its pipelines are `p`, `q`
    ");
    insta::assert_snapshot!(shown(&case.check(&["zebra"])), @"
    exit 64
    error: the configuration file config.json has no pipeline `zebra`
    hint: its pipelines are `p`, `q`
    ");
    insta::assert_snapshot!(shown(&case.check(&["p", "q"])), @"
    exit 64
    error parsing options: unexpected argument 'q' found

    Usage: ovms pipeline check [OPTIONS] <CONFIG> [NAME]

    For more information, try '--help'.
    ");

    // Warnings: of the file, and of a pipeline.
    let idle = sound("idle").replace("[\"x\"]", "[\"x\", \"y\"]");
    case.config(&file(&[dummy()], &[], &[sound("p"), sound("p"), idle]));
    insta::assert_snapshot!(shown(&case.check(&[])), @r#"
    pipeline `p`: no errors
    pipeline `idle`: 1 warning

    warning: the input `y` is left out, since no node uses it
      --> config.json:18:28
       |
    18 | {"name": "idle", "inputs": ["x", "y"],
       |                            ^^^^^^^^^^

    the file:

    warning: Duplicated pipeline names - `p` is listed above; this one is left out
      --> config.json:12:1
       |
    12 | {"name": "p", "inputs": ["x"],
       | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

    exit 2
    warning: no errors, but 2 warnings
    "#);
    assert_eq!(case.check(&["p"]).code, Some(0));

    case.config(r#"{"model_config_list": []}"#);
    insta::assert_snapshot!(shown(&case.check(&[])), @"
    no pipelines in the file
    exit 0
    ");
    insta::assert_snapshot!(shown(&case.check(&["p"])), @"
    exit 64
    error: the configuration file config.json has no pipeline `p`
    hint: it has no pipelines
    ");
}

#[test]
fn scripts_get_json() {
    let case = Case::new();
    let nodes = [
        node("a", "dummy", &["b < request.x"], &["a"], ""),
        node("b", "far", &["b < a.z"], &["a"], ""),
    ];
    let far = entry("far", Path::new("gs://bucket/far"), "");
    let faulty = pipeline("faulty", &nodes, &["o < b.a"], "");
    case.config(&file(&[dummy(), far], &[], &[sound("sound"), faulty]));
    let run = case.check(&["--output", "json"]);
    assert_eq!(run.code, Some(1));
    insta::assert_snapshot!(run.text(), @r#"
    {
      "file": "config.json",
      "verdict": "faults",
      "faults": [],
      "pipelines": [
        {
          "name": "sound",
          "file": "config.json",
          "verdict": "ok",
          "status": null,
          "faults": [],
          "warnings": [],
          "unchecked": []
        },
        {
          "name": "faulty",
          "file": "config.json",
          "verdict": "faults",
          "status": "Pipeline definition has reference to missing data source",
          "faults": [
            {
              "file": "config.json",
              "line": 19,
              "column": 13,
              "path": "pipeline_config_list[1].nodes[1].inputs[0]",
              "rule": 19,
              "status": "Pipeline definition has reference to missing data source",
              "node": "b",
              "connection": {
                "from": "a",
                "data_item": "z",
                "to": "b",
                "input": "b"
              },
              "message": "found the data_item `z` of `a`; expected an alias of its outputs: a",
              "found": "the data_item `z` of `a`",
              "expected": "an alias of its outputs: a",
              "next": "add it to the outputs of that node",
              "hint": "add it to the outputs of that node"
            }
          ],
          "warnings": [],
          "unchecked": [
            {
              "file": "config.json",
              "line": 18,
              "column": 49,
              "path": "pipeline_config_list[1].nodes[1].model_name",
              "rule": null,
              "status": null,
              "node": "b",
              "connection": null,
              "message": "its files are in the cloud, at gs://bucket/far",
              "reason": "its files are in the cloud, at gs://bucket/far",
              "hint": null
            }
          ]
        }
      ],
      "warnings": []
    }
    "#);
}

#[test]
fn scripts_get_what_hides_behind_a_missing_model_or_library() {
    let case = Case::new();
    let nodes = [
        node("a", "dumy", &["q < request.x"], &["z"], ""),
        node("b", "@gone", &["q < a.z"], &["z"], r#", "params": {}"#),
        node("c", "dummy", &["b < b.z"], &["a"], ""),
    ];
    let faulty = pipeline("p", &nodes, &["o < c.a"], "");
    case.config(&file(&[dummy()], &[], &[faulty]));
    let (code, report) = case.json(&[]);
    assert_eq!(code, Some(1));
    let found = &report["pipelines"][0];
    assert_eq!(found["verdict"], "faults");
    assert_eq!(found["faults"].as_array().unwrap().len(), 2);
    let unchecked = found["unchecked"].as_array().unwrap().iter();
    let reported: Vec<String> = unchecked
        .map(|not| format!("{} {} {}", not["path"], not["node"], not["reason"]))
        .collect();
    insta::assert_snapshot!(reported.join("\n"), @r#"
    "pipeline_config_list[0].nodes[0].model_name" "a" "its inputs and outputs, and what depends on them, since the model cannot be asked"
    "pipeline_config_list[0].nodes[1].library_name" "b" "its inputs and outputs, and what depends on them, since the custom node cannot be asked"
    "#);
}
