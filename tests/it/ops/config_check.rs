//! `ovms serve --check`: its output and exit codes.

use std::{fs, path::Path};

use crate::support::{
    cli::{self, Run},
    model, repository,
};

/// Runs a check; paths are removed from its output.
fn check(folder: &Path, flags: &[&str]) -> Run {
    let mut run = cli::run(cli::command().args(["serve", "--check"]).args(flags));
    run.stderr = run.stderr.replace(folder.to_str().unwrap(), "<folder>");
    run
}

fn shown(run: &Run) -> String {
    format!("{}{}", run.text(), run.failure())
}

#[test]
fn a_model_that_can_be_served_is_good() {
    let folder = repository::folder();
    let path = model("dummy");
    let run = check(
        folder.path(),
        &["--model_name=dummy", "--model_path", path.to_str().unwrap()],
    );
    insta::assert_snapshot!(shown(&run), @"
    model  versions  state
    dummy  1         ok
    exit 0
    ");
}

#[test]
fn folders_that_only_begin_with_a_number_are_told_and_are_no_versions() {
    let folder = repository::folder();
    for name in ["1", "1.bak", "01", "lost+found", "..data"] {
        repository::copy(&model("dummy").join("1"), &folder.path().join(name));
    }
    let path = folder.path().to_str().unwrap();
    let run = check(folder.path(), &["--model_name=e", "--model_path", path]);
    insta::assert_snapshot!(shown(&run), @"
    model  versions  state
    e      1         ok
    exit 2
    warning: no errors, but 2 warnings
      warning: model `e`: <folder>/01: ignoring another folder of version 1; the one named `1` is served
      warning: model `e`: <folder>/1.bak: ignoring a folder whose name has more than the version number in it; to be version 1, it must be named by the number alone: `1`
    ");
}

#[test]
fn errors_and_warnings_of_a_file_are_reported_together() {
    let folder = repository::folder();
    let at = |path: &str| folder.path().join(path);
    for path in ["broken/1", "empty"] {
        fs::create_dir_all(at(path)).unwrap();
    }
    for path in ["good/1", "good/3", "good/10", "flat"] {
        repository::copy(&model("dummy").join("1"), &at(path));
    }
    fs::write(at("broken/1/m.xml"), "").unwrap();
    fs::write(at("good/3/mapping_config.json"), "{\"input\": {}}").unwrap();
    let config = at("config.json");
    fs::write(
        &config,
        r#"{"model_config_list": [ # all of them
    {"config": {"name": "latest", "base_path": "good"}},
    {"config": {"name": "all", "base_path": "good", "model_version_policy": {"all": {}}}},
    {"config": {"name": "some", "base_path": "good",
                "model_version_policy": {"specific": {"versions": [3, 4]}}}},
    {"config": {"name": "broken", "base_path": "broken"}},
    {"config": {"name": "empty", "base_path": "empty"}},
    {"config": {"name": "flat", "base_path": "flat", "batch_size": "many"}},
    {"config": {"name": "missing", "base_path": "missing"}},
    {"config": {"name": "all", "base_path": "good"}},
    {"config": {"name": "shape", "base_path": "good", "shape": "[1]"}},
    {"config": {"name": "far", "base_path": "s3://bucket/model"}},
    ],
  "mediapipe_config_list": [{"name": "graph"}]}"#,
    )
    .unwrap();
    let run = check(folder.path(), &["--config_path", config.to_str().unwrap()]);
    insta::assert_snapshot!(shown(&run), @r#"
    name     kind   versions  state
    latest   model  10        ok
    all      model  1, 3, 10  error
    some     model  3         error
    broken   model  1         error
    empty    model  -         empty
    flat     model  1         ok
    missing  model  -         error
    all      model  -         refused
    shape    model  -         refused
    far      model  -         not looked at
    graph    graph  -         error
    exit 1
    error: the check found 7 errors, 3 warnings, 1 thing that could not be checked
      error: <folder>/config.json: model `all`, version 3: <folder>/good/3/mapping_config.json: expected {"inputs":{"name in the model":"public name"},"outputs":{…}}, each of the two if needed: unknown field `input`, expected `inputs` or `outputs` at line 1 column 8
      error: <folder>/config.json: model `some`, version 3: <folder>/good/3/mapping_config.json: expected {"inputs":{"name in the model":"public name"},"outputs":{…}}, each of the two if needed: unknown field `input`, expected `inputs` or `outputs` at line 1 column 8
      error: <folder>/config.json: model `broken`, version 1: File not found or cannot open - no model in <folder>/broken/1; expected *.xml with *.bin, *.onnx, *.pdmodel with *.pdiparams, *.pb, or *.tflite
      error: <folder>/config.json: model `missing`: The provided base path is invalid or doesn't exists - <folder>/missing: No such file or directory (os error 2)
      error: <folder>/config.json:10:25 model_config_list[7].config.name: Given model name is already occupied
      error: <folder>/config.json:11:64 model_config_list[8].config.shape: The provided shape is in wrong format - found `[1]`; expected auto, (d1,d2,…) with each d a number, -1 or a range such as 1:8, or a JSON object of those by input name
      error: <folder>/config.json:14:29 mediapipe_config_list[0]: graph `graph`: File not found or cannot open - <folder>/graph/graph.pbtxt: No such file or directory (os error 2); name a folder with a graph.pbtxt in base_path, or the file in graph_path
      warning: <folder>/config.json: model `some`: there is no version 4, which model_version_policy names
      warning: <folder>/config.json: model `empty`: there is no version to serve in <folder>/empty
      warning: <folder>/config.json:8:68 model_config_list[5].config.batch_size: batch_size is ignored: found `many`; expected a number, -1, auto or a range such as 1:8
      not checked: <folder>/config.json: model `far`: s3://bucket/model is looked at by the server alone
    hint: `ovms graph check <folder>/config.json` shows the lines that are meant
    "#);

    fs::write(
        &config,
        r#"{"model_config_list": [{"config": {"name": "empty", "base_path": "empty"}}],
            "monitoring": {"metrics": {"enable": true}}}"#,
    )
    .unwrap();
    let run = check(folder.path(), &["--config_path", config.to_str().unwrap()]);
    insta::assert_snapshot!(shown(&run), @"
    model  versions  state
    empty  -         empty
    exit 2
    warning: no errors, but 1 warning
      warning: <folder>/config.json: model `empty`: there is no version to serve in <folder>/empty
    ");
    let run = check(
        folder.path(),
        &["--config_path", config.to_str().unwrap(), "--port=9000"],
    );
    insta::assert_snapshot!(run.failure(), @"
    exit 1
    error: the check found 1 error, 1 warning
      error: Missing rest_port parameter in server CLI - metrics are enabled in the file
      warning: <folder>/config.json: model `empty`: there is no version to serve in <folder>/empty
    ");
}

#[test]
fn a_key_that_is_given_twice_is_a_warning() {
    let folder = repository::folder();
    let config = folder.path().join("config.json");
    let path = model("dummy");
    fs::write(
        &config,
        format!(
            "{{\"model_config_list\": [\n  {{\"config\": {{\"name\": \"m\", \"nireq\": 2, \"nireq\": 4,\n   \
             \"base_path\": {path:?}}}}}\n]}}"
        ),
    )
    .unwrap();
    let run = check(folder.path(), &["--config_path", config.to_str().unwrap()]);
    insta::assert_snapshot!(shown(&run), @"
    model  versions  state
    m      1         ok
    exit 2
    warning: no errors, but 1 warning
      warning: <folder>/config.json:2:40 model_config_list[0].config.nireq: the key `nireq` is here again; its first value counts
    ");
}

#[test]
fn a_file_with_errors_shows_them_in_their_lines() {
    let folder = repository::folder();
    let config = folder.path().join("config.json");
    fs::write(
        &config,
        "{\n  \"model_config_list\": [\n    {\"config\": {\"name\": \"a\", \"nireq\": \"4\",\n        \
         \"base_pth\": \"/m\"}}\n  ]\n}\n",
    )
    .unwrap();
    let run = check(folder.path(), &["--config_path", config.to_str().unwrap()]);
    insta::assert_snapshot!(shown(&run), @r#"
    exit 1
    error: the configuration file <folder>/config.json has 2 errors
      model_config_list[0].config.nireq: found the text "4"; expected a whole number from 0 to 4294967295
       --> <folder>/config.json:3:39
        |
      3 |     {"config": {"name": "a", "nireq": "4",
        |                                       ^^^
      model_config_list[0].config.base_pth: found the unknown key `base_pth`; expected one of name, base_path, batch_size, shape, layout, mean, scale, color_format, precision, model_version_policy, nireq, inference_timeout_ms, target_device, plugin_config, stateful, idle_sequence_cleanup, low_latency_transformation, max_sequence_number, drain_sequences_seconds, cache_dir, allow_cache, custom_loader_options, graph_path, subconfig, warmup
       --> <folder>/config.json:4:9
        |
      4 |         "base_pth": "/m"}}
        |         ^^^^^^^^^^
        |
        = help: did you mean `base_path`?
    "#);
    fs::write(&config, "{\n  \"model_config_list\": [\n").unwrap();
    let run = check(folder.path(), &["--config_path", config.to_str().unwrap()]);
    insta::assert_snapshot!(shown(&run), @r#"
    exit 1
    error: the configuration file <folder>/config.json is no JSON
      found `[` (unterminated array); expected JSON
       --> <folder>/config.json:2:24
        |
      2 |   "model_config_list": [
        |                        ^
    "#);
    let run = check(
        folder.path(),
        &["--config_path", "/nonexistent/config.json"],
    );
    insta::assert_snapshot!(shown(&run), @"
    exit 1
    error: cannot read the configuration file /nonexistent/config.json
      caused by: No such file or directory (os error 2)
    hint: --config_path names a JSON file; is /nonexistent/config.json the right one?
    ");
}

#[test]
fn flags_are_checked_as_for_serving() {
    let folder = repository::folder();
    let run = check(folder.path(), &["--config_path=a", "--model_name=b"]);
    insta::assert_snapshot!(shown(&run), @"
    exit 64
    Use either config_path or model_path with model_name
    ");
    let run = check(
        folder.path(),
        &["--model_name=a", "--model_path=/", "--shape=[1]"],
    );
    insta::assert_snapshot!(shown(&run), @"
    exit 1
    error: The provided shape is in wrong format - found `[1]`; expected auto, (d1,d2,…) with each d a number, -1 or a range such as 1:8, or a JSON object of those by input name
    ");
}

#[test]
fn the_server_does_not_start_with_such_a_file() {
    let folder = repository::folder();
    let config = folder.path().join("config.json");
    let start = |flags: &[&str]| {
        let mut command = cli::command();
        command
            .args(["serve", "--config_path", config.to_str().unwrap()])
            .args(flags);
        let run = cli::run(&mut command);
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        let log = run.text();
        assert!(log.contains("ERROR"), "a failed start is in the log: {log}");
        run.failure()
            .replace(folder.path().to_str().unwrap(), "<folder>")
    };
    insta::assert_snapshot!(start(&["--port=9000"]), @"
    exit 1
    error: cannot read the configuration file <folder>/config.json
      caused by: No such file or directory (os error 2)
    hint: --config_path names a JSON file; is <folder>/config.json the right one?
    ");
    fs::write(&config, "{\"model_config_list\": [}").unwrap();
    insta::assert_snapshot!(start(&["--port=9000"]), @r#"
    exit 1
    error: the configuration file <folder>/config.json is no JSON
      found `}` (unexpected close brace); expected JSON
       --> <folder>/config.json:1:24
        |
      1 | {"model_config_list": [}
        |                        ^
    "#);
    fs::write(&config, "{\"model_config_list\": {}}").unwrap();
    insta::assert_snapshot!(start(&["--port=9000"]), @r#"
    exit 1
    error: the configuration file <folder>/config.json has 1 error
      model_config_list: found an object; expected a list of models
       --> <folder>/config.json:1:23
        |
      1 | {"model_config_list": {}}
        |                       ^^
    "#);
    fs::write(
        &config,
        r#"{"model_config_list": [], "monitoring": {"metrics": {"enable": true}}}"#,
    )
    .unwrap();
    insta::assert_snapshot!(start(&["--port=9000"]), @"
    exit 1
    error: Missing rest_port parameter in server CLI - metrics are enabled in the file
    ");
    insta::assert_snapshot!(start(&["--rest_port=8000", "--metrics_enable"]), @"
    exit 1
    error: Configuration file not found or cannot open - metrics are set both by metrics_enable and by monitoring in the file; keep one of them
    ");
}

#[test]
fn a_stateful_model_is_good() {
    let folder = repository::folder();
    let path = model("running_total");
    let run = check(
        folder.path(),
        &[
            "--model_name=total",
            "--model_path",
            path.to_str().unwrap(),
            "--stateful",
        ],
    );
    assert_eq!(run.code, Some(0), "{}", run.stderr);
}
