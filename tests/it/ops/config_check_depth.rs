//! `ovms serve --check`: its depth, each error once, and its JSON.

use std::{fs, path::Path};

use serde_json::Value;

use crate::support::{
    cli::{self, Run},
    model, repository,
};

/// Checks a configuration file; paths are removed from the output.
fn check(folder: &Path, config: &str, depth: &str, flags: &[&str]) -> Run {
    let file = folder.join("config.json");
    fs::write(&file, config).unwrap();
    let mut command = cli::command();
    command.args(["serve", depth, "--config_path"]).arg(&file);
    let mut run = cli::run(command.args(flags));
    run.stderr = run.stderr.replace(folder.to_str().unwrap(), "<folder>");
    run
}

fn shown(run: &Run) -> String {
    format!("{}{}", run.text(), run.failure())
}

/// Returns the exit code of a check and its document.
fn document(folder: &Path, config: &str, flags: &[&str]) -> (Option<i32>, Value) {
    let run = check(
        folder,
        config,
        "--check",
        &[flags, &["--output=json"]].concat(),
    );
    let document = serde_json::from_str(&run.text()).expect("stdout is one JSON document");
    (run.code, document)
}

/// Writes a configuration with the model `dummy` and more keys.
fn of_dummy(more: &str) -> String {
    format!(
        "{{\"model_config_list\": [{{\"config\": {{\"name\": \"m\", \"base_path\": \"{}\"{more}}}}}]}}",
        model("dummy").display()
    )
}

#[test]
fn a_model_that_is_cut_off_is_an_error() {
    let folder = repository::folder();
    let at = |path: &str| folder.path().join(path);
    fs::create_dir_all(at("cut/1")).unwrap();
    let whole = fs::read(model("dummy").join("1/model.xml")).unwrap();
    fs::write(at("cut/1/model.xml"), &whole[..whole.len() / 2]).unwrap();
    fs::copy(model("dummy").join("1/model.bin"), at("cut/1/model.bin")).unwrap();
    let config = r#"{"model_config_list": [{"config": {"name": "m", "base_path": "cut"}}]}"#;
    insta::assert_snapshot!(shown(&check(folder.path(), config, "--check", &[])), @"
    model  versions  state
    m      1         error
    exit 1
    error: the check found 1 error
      error: <folder>/config.json: model `m`, version 1: cannot read <folder>/cut/1/model.xml: Error parsing element attribute at offset 747
    hint: check that the file is whole, for example by exporting it again
    ");
    let quick = check(folder.path(), config, "--check=syntax", &[]);
    insta::assert_snapshot!(shown(&quick), @"
    model  versions  state
    m      -         not looked at
    exit 0
    ");
}

#[test]
fn what_a_device_refuses_is_an_error() {
    let folder = repository::folder();
    let said = |more: &str| shown(&check(folder.path(), &of_dummy(more), "--check", &[]));
    insta::assert_snapshot!(said(", \"target_device\": \"CUP\""), @r#"
    model  versions  state
    m      1         error
    exit 1
    error: the check found 1 error
      error: <folder>/config.json: model `m`, version 1: cannot use device `CUP`: Device with "CUP" name is not registered in the OpenVINO Runtime
    hint: target_device takes the devices of this machine (CPU), or AUTO, HETERO and MULTI with a list of them
    "#);
    for composed in ["MULTI:CUP", "HETERO:CUP,CPU", "AUTO:CUP", "BATCH:CUP(4)"] {
        let reported = said(&format!(", \"target_device\": \"{composed}\""));
        let named = format!("cannot use device `{composed}`: Device with \"CUP\" name");
        assert!(
            reported.contains("exit 1") && reported.contains(&named),
            "{reported}"
        );
    }
    let reported = said(", \"target_device\": \"AUTO:CPU,CUP\"");
    assert!(
        reported.contains("exit 0"),
        "a server does without: {reported}"
    );
    insta::assert_snapshot!(said(", \"plugin_config\": {\"NUM_STREAM\": \"2\"}"), @"
    model  versions  state
    m      1         error
    exit 1
    error: the check found 1 error
      error: <folder>/config.json: model `m`, version 1: Model config is invalid - device CPU has no property NUM_STREAM; did you mean NUM_STREAMS?
    hint: fix or leave out NUM_STREAM in plugin_config; its keys are properties of OpenVINO
    ");
    insta::assert_snapshot!(said(", \"shape\": {\"nobody\": \"(1,10)\"}"), @"
    model  versions  state
    m      1         error
    exit 1
    error: the check found 1 error
      error: <folder>/config.json: model `m`, version 1: Shape from config not found in model - no input `nobody`; the model has: b
    ");
}

#[test]
fn libraries_and_handlers_that_no_node_uses_are_opened() {
    let folder = repository::folder();
    fs::write(
        folder.path().join("broken.py"),
        "import nothing_of_the_kind\n",
    )
    .unwrap();
    let libraries = r#"], "custom_node_library_config_list": [
        {"name": "l", "base_path": "missing.so"}, {"name": "h", "base_path": "missing.py"},
        {"name": "b", "base_path": "broken.py"}]}"#;
    let config = of_dummy("").replace("]}", libraries);
    insta::assert_snapshot!(shown(&check(folder.path(), &config, "--check", &[])), @"
    model  versions  state
    m      1         ok
    exit 1
    error: the check found 3 errors
      error: <folder>/config.json: custom_node_library_config_list: library `l`: <folder>/missing.so: cannot open shared object file: No such file or directory
      error: <folder>/config.json: custom_node_library_config_list: library `h`: <folder>/missing.py: there is no such file
      error: <folder>/config.json: custom_node_library_config_list: library `b`: Error during python node initialization for handler_path: <folder>/broken.py - ModuleNotFoundError: No module named 'nothing_of_the_kind'
    ");
    let quick = check(folder.path(), &config, "--check=syntax", &[]);
    insta::assert_snapshot!(shown(&quick), @"
    model  versions  state
    m      -         not looked at
    exit 0
    ");
}

#[test]
fn without_a_runtime_models_are_not_checked() {
    let folder = repository::folder();
    let file = folder.path().join("config.json");
    fs::write(&file, of_dummy("")).unwrap();
    let mut command = cli::bare(&folder.path().join("home"));
    let run = cli::run(
        command
            .args(["serve", "--check", "--config_path"])
            .arg(file),
    );
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(
        run.stderr.contains("not checked: model `m`: "),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr.contains("hint: run `ovms setup`"),
        "{}",
        run.stderr
    );
}

#[test]
fn json_is_one_document_whatever_is_wrong() {
    let folder = repository::folder();
    for (config, expected) in [
        ("{\"model_config_list\": [", "array"),
        (
            "{\"model_config_list\": [], \"modles\": 1}",
            "unknown key `modles`",
        ),
        (
            r#"{"model_config_list": [{"config": {"name": "m", "base_path": "gone"}}]}"#,
            "The provided base path is invalid",
        ),
    ] {
        let (code, document) = document(folder.path(), config, &[]);
        assert_eq!(code, Some(1), "{document}");
        assert_eq!(document["verdict"], "faults");
        let errors = document["faults"].as_array().expect("there is a list");
        assert_eq!(errors.len(), 1, "{document}");
        let error = errors[0].as_str().expect("it is a text");
        assert!(error.contains(expected), "{document}");
    }
    let (code, document) = document(folder.path(), "{}", &["--nireq=2"]);
    assert_eq!(code, Some(64), "{document}");
    assert_eq!(document["verdict"], "faults");
    let (code, document) = self::document(folder.path(), "{}", &["--no_such=2"]);
    assert_eq!(code, Some(64), "{document}");
    let expected = "error parsing options - unmatched arguments: --no_such=2, ";
    assert_eq!(document["faults"], serde_json::json!([expected]));
    let (code, document) = self::document(folder.path(), "{}", &["--nireq=two"]);
    assert_eq!(code, Some(64), "{document}");
    let error = document["faults"][0].as_str().expect("there is a text");
    assert!(
        error.starts_with("error parsing options: invalid value 'two'"),
        "{error}"
    );
}

#[test]
fn what_a_load_only_warns_of_is_a_warning() {
    let folder = repository::folder();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    for (more, expected) in [
        (
            r#", "stateful": true"#.to_owned(),
            "<folder>/config.json: model `m`, version 1: served as stateful, and has no variables: its sequences \
             remember nothing"
                .to_owned(),
        ),
        (
            format!(r#", "cache_dir": "{}""#, file.display()),
            format!(
                "cannot use the cache folder {}: Not a directory (os error 20); models are \
                 compiled at each start",
                "<folder>/file"
            ),
        ),
    ] {
        let (code, found) = document(folder.path(), &of_dummy(&more), &[]);
        assert_eq!(code, Some(2), "{found}");
        let warnings = found["warnings"].to_string();
        let expected = serde_json::json!([expected]).to_string();
        let place = folder.path().to_str().unwrap();
        assert_eq!(warnings.replace(place, "<folder>"), expected);
    }
}

#[test]
fn one_typo_is_one_error() {
    let folder = repository::folder();
    let pipeline = r#"{"name": "p", "inputs": ["i"],
        "outputs": [{"o": {"node_name": "z", "data_item": "y"}}], "nodes": [
        {"name": "x", "model_name": "m", "type": "DL model",
         "outputs": [{"data_item": "a", "alias": "y"}],
         "inputs": [{"b": {"node_name": "request", "data_item": "i"}}]},
        {"name": "z", "model_name": "m", "type": "DL model",
         "outputs": [{"data_item": "a", "alias": "y"}],
         "inputs": [{"b": {"node_name": "x", "data_item": "y"}}]}]}"#;
    let more = format!("], \"pipeline_config_list\": [{pipeline}]}}");
    let good = of_dummy("").replace("]}", &more);
    let (code, found) = document(folder.path(), &good, &[]);
    assert_eq!(code, Some(0), "{found}");
    for (from, to) in [
        ("\"name\": \"x\"", "\"name\": \"xx\""),
        ("\"inputs\": [\"i\"]", "\"inputs\": [\"j\"]"),
        ("\"node_name\": \"z\"", "\"node_name\": \"zz\""),
        ("\"base_path\": \"", "\"base_path\": \"/gone"),
        ("\"base_path\"", "\"shape\": \"[1]\", \"base_path\""),
        ("\"base_path\"", "\"target_device\": \"CUP\", \"base_path\""),
        ("\"name\": \"m\"", "\"naem\": \"m\""),
        ("\"model_config_list\"", "\"model_config_lst\""),
        ("\"model_name\"", "\"modle_name\""),
        ("\"name\": \"m\"", "\"name\": \"mm\""),
        ("{\"b\":", "{\"bb\":"),
    ] {
        let (_, found) = document(folder.path(), &good.replacen(from, to, 1), &[]);
        let count = |key: &str| found[key].as_array().map_or(0, Vec::len);
        let counts = [count("faults"), count("warnings"), count("unchecked")];
        assert_eq!(counts, [1, 0, 0], "{from} to {to}: {found:#}");
    }
}

#[test]
fn an_operator_that_there_is_not_is_named() {
    let folder = repository::folder();
    let at = |path: &str| folder.path().join(path);
    fs::create_dir_all(at("odd/1")).unwrap();
    let whole = fs::read_to_string(model("dummy").join("1/model.xml")).unwrap();
    let odd = whole.replace("type=\"Add\"", "type=\"Nothing\"");
    fs::write(at("odd/1/model.xml"), odd).unwrap();
    fs::copy(model("dummy").join("1/model.bin"), at("odd/1/model.bin")).unwrap();
    let config = r#"{"model_config_list": [{"config": {"name": "m", "base_path": "odd"}}]}"#;
    let run = check(folder.path(), config, "--check", &[]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let reported = "<folder>/odd/1/model.xml: OpenVINO has no operator `Nothing`";
    assert!(run.stderr.contains(reported), "{}", run.stderr);
}
