//! `ovms pipeline check`: files, models and libraries.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use serde_json::Value;

use crate::support::{
    checks::{Case, dummy, entry, file, library, node, pipeline, shown, sound},
    cli, ir, loaded, model, nodes, repository,
};

#[test]
fn files_that_are_no_configuration_are_refused() {
    let case = Case::new();
    insta::assert_snapshot!(shown(&case.check(&[])), @"
    exit 1
    error: cannot read the configuration file config.json
      caused by: No such file or directory (os error 2)
    hint: CONFIG names a JSON file; is config.json the right one?
    ");
    insta::assert_snapshot!(case.check(&["--output=json"]).text(), @r#"
    {
      "file": "config.json",
      "verdict": "faults",
      "faults": [
        {
          "file": "config.json",
          "line": null,
          "column": null,
          "path": null,
          "rule": null,
          "status": null,
          "node": null,
          "connection": null,
          "message": "found No such file or directory (os error 2); expected a file that can be read",
          "found": "No such file or directory (os error 2)",
          "expected": "a file that can be read",
          "next": null,
          "hint": null
        }
      ],
      "pipelines": [],
      "warnings": []
    }
    "#);

    let path = case.path().join("config.json");
    fs::create_dir(&path).unwrap();
    insta::assert_snapshot!(shown(&case.check(&[])), @"
    exit 1
    error: cannot read the configuration file config.json
      caused by: Is a directory (os error 21)
    hint: CONFIG names a JSON file; is config.json the right one?
    ");
    fs::remove_dir(&path).unwrap();

    case.config("# no\nmodels");
    insta::assert_snapshot!(shown(&case.check(&[])), @"
    exit 1
    error: the configuration file config.json is no JSON
      found `models` (unexpected word); expected JSON
       --> config.json:2:1
        |
      2 | models
        | ^^^^^^
    ");

    case.config("{\"model_config_list\": [],\n \"pipeline_config_list\": [{\"name\": 7}]}");
    insta::assert_snapshot!(shown(&case.check(&[])), @r#"
    exit 1
    error: the configuration file config.json has 4 errors
      pipeline_config_list[0].inputs: found nothing; expected the key `inputs`
       --> config.json:2:27
        |
      2 |  "pipeline_config_list": [{"name": 7}]}
        |                           ^
      pipeline_config_list[0].nodes: found nothing; expected the key `nodes`
       --> config.json:2:27
        |
      2 |  "pipeline_config_list": [{"name": 7}]}
        |                           ^
      pipeline_config_list[0].outputs: found nothing; expected the key `outputs`
       --> config.json:2:27
        |
      2 |  "pipeline_config_list": [{"name": 7}]}
        |                           ^
      pipeline_config_list[0].name: found 7; expected a text
       --> config.json:2:36
        |
      2 |  "pipeline_config_list": [{"name": 7}]}
        |                                    ^
    "#);
    let (code, report) = case.json(&[]);
    assert_eq!(code, Some(1));
    insta::assert_snapshot!(report["faults"][0].to_string(), @r#"{"column":27,"connection":null,"expected":"the key `inputs`","file":"config.json","found":"nothing","hint":null,"line":2,"message":"found nothing; expected the key `inputs`","next":null,"node":null,"path":"pipeline_config_list[0].inputs","rule":null,"status":null}"#);
    assert_eq!(report["verdict"], "faults");
}

#[test]
fn a_file_without_rights_is_refused() {
    let case = Case::new();
    case.config(&file(&[dummy()], &[], &[sound("p")]));
    let path = case.path().join("config.json");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    let command = cli::without_rights(&path);
    insta::assert_snapshot!(shown(&case.run(command, &[])), @"
    exit 1
    error: cannot read the configuration file config.json
      caused by: Permission denied (os error 13)
    hint: permission denied: let the user that runs ovms read config.json
    ");
}

#[test]
fn libraries_run_only_if_they_may_and_never_speak_on_stdout() {
    let case = Case::new();
    let custom = node(
        "a",
        "@chatty",
        &["input_numbers < request.x"],
        &["output_numbers"],
        "",
    );
    let p = pipeline("p", &[custom], &["o < a.output_numbers"], "");
    let path = case.path().join("libchatty.so");
    fs::copy(nodes::compiled("chatty.c"), &path).unwrap();
    case.config(&file(
        &[],
        &[library("chatty", Path::new("libchatty.so"))],
        &[p],
    ));
    insta::assert_snapshot!(shown(&case.check(&[])), @"
    pipeline `p`: no errors
    exit 0
    the library says hello
    ");
    let (code, report) = case.json(&[]);
    assert_eq!((code, &report["verdict"]), (Some(0), &"ok".into()));
    // No model is there, so that no runtime is missed.
    assert_eq!(case.check_bare(&[]).code, Some(0));

    insta::assert_snapshot!(shown(&case.check(&["--no-custom-nodes"])), @"
    pipeline `p`: 1 thing that could not be checked

      config.json:8:49: not checked: node `a`: custom nodes are not to be run

    exit 2
    warning: no errors, but 1 thing that could not be checked
    ");
    fs::remove_file(path).unwrap();
    insta::assert_snapshot!(shown(&case.check(&[])), @r#"
    pipeline `p`: 1 error, 1 thing that could not be checked

    error: Pipeline refers to incorrect library [rule 2]
     --> config.json:8:49
      |
    8 | {"name": "a", "type": "custom", "library_name": "chatty",
      |                                                 ^^^^^^^^
      |
      = node `a`
      = found     the library `chatty`, which does not open: <folder>/libchatty.so: cannot open shared object file: No such file or directory
        expected  a library that opens and has all six functions
      = help: build it, or correct its base_path

      config.json:8:49: not checked: node `a`: its inputs and outputs, and what depends on them, since the custom node cannot be asked

    exit 1
    error: the pipeline `p` cannot be served: 1 error, 1 thing that could not be checked
    "#);
}

#[test]
fn versions_are_chosen_as_a_server_does() {
    let case = Case::new();
    let base = case.path().join("model");
    ir::relu(&base, "b", "a", &[1, 10]);
    repository::copy(&base.join("1"), &base.join("3"));
    fs::create_dir(base.join("4")).unwrap();
    fs::write(base.join("4/model.xml"), "<net").unwrap();
    fs::write(base.join("4/model.bin"), "").unwrap();
    let at = |version: &str| {
        let more = format!(r#", "version": {version}"#);
        let inner = node("a", "m", &["b < request.x"], &["a"], &more);
        pipeline(&format!("at_{version}"), &[inner], &["o < a.a"], "")
    };
    let default = sound("default").replace("dummy", "m");
    let pipelines = [default, at("1"), at("3"), at("4"), at("9")];
    let verdicts = |policy: &str| -> String {
        let policy = match policy {
            "" => String::new(),
            policy => format!(r#", "model_version_policy": {policy}"#),
        };
        case.config(&file(&[entry("m", &base, &policy)], &[], &pipelines));
        let (_, report) = case.json(&[]);
        let pipelines = report["pipelines"].as_array().unwrap();
        let found = |pipeline: &Value| {
            let found = pipeline["faults"][0]["expected"].as_str();
            format!(
                "{}: {}",
                pipeline["name"].as_str().unwrap(),
                found.unwrap_or("ok")
            )
        };
        let pipelines: Vec<String> = pipelines.iter().map(found).collect();
        pipelines.join("\n")
    };
    insta::assert_snapshot!(verdicts(""), @"
    default: ok
    at_1: a version that it has: 3
    at_3: ok
    at_4: a model that is available
    at_9: a version that it has: 3
    ");
    insta::assert_snapshot!(verdicts(r#"{"all": {}}"#), @"
    default: ok
    at_1: ok
    at_3: ok
    at_4: a model that is available
    at_9: a version that it has: 1, 3, 4
    ");
    insta::assert_snapshot!(verdicts(r#"{"specific": {"versions": [1]}}"#), @"
    default: ok
    at_1: ok
    at_3: a version that it has: 1
    at_4: a version that it has: 1
    at_9: a version that it has: 1
    ");
    case.config(&file(&[entry("m", &base, "")], &[], &pipelines[..1]));
    let run = case.check(&[]);
    assert_eq!(run.code, Some(2));
    assert!(
        run.text().contains(
            "warning: version 4 of the model `m` cannot be loaded, so that a lower one is served: "
        ),
        "{}",
        run.text()
    );
}

#[test]
fn names_layouts_and_shapes_of_the_configuration_count() {
    let case = Case::new();
    let base = case.path().join("model");
    ir::relu(&base, "b", "a", &[1, 3, 8, 8]);
    fs::write(
        base.join("1/mapping_config.json"),
        r#"{"inputs": {"b": "image"}, "outputs": {"a": "result"}}"#,
    )
    .unwrap();
    let models = [
        entry("plain", &base, ""),
        entry("turned", &base, r#", "layout": "NHWC:NCHW""#),
        entry("batch", &base, r#", "batch_size": "2""#),
    ];
    let to = |name: &str| {
        let first = node("a", "plain", &["image < request.x"], &["result"], "");
        let second = node("b", name, &["image < a.result"], &["result"], "");
        pipeline(
            &format!("to_{name}"),
            &[first, second],
            &["o < b.result"],
            "",
        )
    };
    case.config(&file(&models, &[], &["plain", "turned", "batch"].map(to)));
    let (_, report) = case.json(&[]);
    let reported = report["pipelines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pipeline| {
            let failure = &pipeline["faults"][0];
            let part = |key: &str| failure[key].as_str().unwrap_or("-").to_owned();
            format!(
                "{}: {}; {}",
                pipeline["name"],
                part("found"),
                part("expected")
            )
        });
    insta::assert_snapshot!(reported.collect::<Vec<_>>().join("\n"), @r#"
    "to_plain": -; -
    "to_turned": FP32 (1,3,8,8) from `a`; (1,8,8,3)
    "to_batch": FP32 (1,3,8,8) from `a`; (2,3,8,8)
    "#);
}

#[test]
fn the_check_of_a_server_looks_at_pipelines() {
    let case = Case::new();
    case.config(&file(&[dummy()], &[], &[sound("p")]));
    let serve = || {
        let mut command = cli::bare(&case.path().join("home"));
        command.current_dir(case.path());
        shown(&cli::run(command.args([
            "serve",
            "--check",
            "--config_path",
            "config.json",
        ])))
    };
    insta::assert_snapshot!(serve(), @"
    name   kind      versions  state
    dummy  model     1         not checked
    p      pipeline  1         not checked
    exit 2
    warning: no errors, but 2 things that could not be checked
      not checked: model `dummy`: no OpenVINO runtime found
      not checked: config.json:8:49 pipeline_config_list[0].nodes[0].model_name: pipeline `p`, node `a`: no OpenVINO runtime found
    hint: run `ovms setup` for a runtime, which models are read with
    ");
    case.config(&file(&[dummy()], &[], &[sound("dummy")]));
    insta::assert_snapshot!(serve(), @"
    name   kind      versions  state
    dummy  model     1         not checked
    dummy  pipeline  -         refused
    exit 1
    error: the check found 1 error, 1 thing that could not be checked
      error: config.json:6:1 pipeline_config_list[0]: Pipeline has the same name as model
      not checked: model `dummy`: no OpenVINO runtime found
    hint: run `ovms setup` for a runtime, which models are read with
    ");
    case.config(&file(&[dummy()], &[], &[]));
    insta::assert_snapshot!(serve(), @"
    model  versions  state
    dummy  1         not checked
    exit 2
    warning: no errors, but 1 thing that could not be checked
      not checked: model `dummy`: no OpenVINO runtime found
    hint: run `ovms setup` for a runtime, which models are read with
    ");
}

#[test]
fn a_model_that_is_looked_at_is_what_it_is_when_loaded() {
    let mut options = loaded::options();
    for name in [
        "dummy",
        "two_outputs",
        "noname",
        "scalar",
        "columns",
        "passthrough_bf16",
        "passthrough_f16",
        "passthrough_string",
        "passthrough_boolean",
        "dummy_onnx",
        "dummy_tflite",
        "dummy_savedmodel",
        "classifier",
    ] {
        let compiled = loaded::load(&model(name), &options, &[]).unwrap();
        let inspected = ovms::model::inspect(name, &model(name).join("1"), &options);
        let info = inspected.unwrap().info;
        assert_eq!(info, compiled.info, "{name}");
        assert!(!info.inputs.is_empty(), "{name}");
    }
    // Errors before the model is compiled are reported as at its load.
    options
        .properties
        .push(("NO_SUCH".to_owned(), "1".to_owned()));
    let refused = loaded::load(&model("dummy"), &options, &[]).err().unwrap();
    let inspected = ovms::model::inspect("dummy", &model("dummy").join("1"), &options);
    assert_eq!(inspected.unwrap_err().to_string(), refused.to_string());
}
