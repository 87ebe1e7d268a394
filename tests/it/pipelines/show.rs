//! `ovms pipeline show`: without a server and without a runtime.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::Stdio,
};

use crate::support::{
    checks::{dummy, entry, file, library, node, pipeline},
    cli::{self, Run},
    repository,
};

const CONFIG: &str = r#"{
    "model_config_list": [],
    "pipeline_config_list": [
        {"name": "ocr", "inputs": ["page"],
         "nodes": [
            {"name": "boxes", "type": "custom", "library_name": "cut",
             "inputs": [{"image": {"node_name": "request", "data_item": "page"}}],
             "outputs": [{"data_item": "images", "alias": "image"}], "demultiply_count": -1},
            {"name": "read", "type": "DL model", "model_name": "reader", "version": 3,
             "inputs": [{"image": {"node_name": "boxes", "data_item": "image"}}],
             "outputs": [{"data_item": "letters", "alias": "letters"}]}],
         "outputs": [{"text": {"node_name": "read", "data_item": "letters"}}]},
        {"name": "echo", "inputs": ["x"], "nodes": [],
         "outputs": [{"y": {"node_name": "request", "data_item": "x"}}]}
    ]}"#;

/// Writes a configuration file and returns its path.
fn config(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("config.json");
    fs::write(&path, text).unwrap();
    path
}

/// Shows a file without any runtime; paths are removed from the output.
fn show(folder: &Path, text: &str, args: &[&str]) -> Run {
    let config = config(folder, text);
    let mut command = cli::bare(&folder.join("home"));
    command.args(["pipeline", "show"]).arg(config).args(args);
    let mut run = cli::run(command.env("LC_ALL", "C.UTF-8"));
    run.stderr = run.stderr.replace(folder.to_str().unwrap(), "<folder>");
    run
}

#[test]
fn a_pipeline_is_drawn_without_a_runtime() {
    let folder = repository::folder();
    let run = show(folder.path(), CONFIG, &["ocr"]);
    assert_eq!(run.failure(), "exit 0\n");
    insta::assert_snapshot!(run.text());
}

#[test]
fn what_cannot_run_is_reported_and_what_nobody_looked_at_is_not() {
    let folder = repository::folder();
    let gone = folder.path().join("gone");
    let nodes = [
        node("a", "dummy", &["b < request.x"], &["a"], ""),
        node("b", "dumy", &["b < a.a"], &["a"], ""),
        node("c", "gone", &["b < b.a"], &["a"], ""),
        node("d", "dummy", &["b < c.a"], &["a"], r#", "version": 7"#),
        node("e", "@nope", &["b < d.a"], &["a"], ""),
        node("f", "@gone", &["b < e.a"], &["a"], ""),
    ];
    let text = file(
        &[dummy(), entry("gone", &gone, "")],
        &[library("gone", &gone)],
        &[pipeline("p", &nodes, &["y < f.a"], "")],
    );
    let run = show(folder.path(), &text, &["p", "--format", "json"]);
    assert_eq!(run.failure(), "exit 0\n");
    let image: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let nodes = image["nodes"].as_array().unwrap().iter();
    let reported: Vec<String> = nodes
        .map(|node| format!("{}: {}", node["name"], node["missing"]))
        .collect();
    let reported = reported.join("\n");
    insta::assert_snapshot!(reported.replace(folder.path().to_str().unwrap(), "<folder>"), @r#"
    "request": null
    "a": null
    "b": "there is no model `dumy`"
    "c": "the model `gone` is not available: The provided base path is invalid or doesn't exists - <folder>/gone: No such file or directory (os error 2)"
    "d": "the model `dummy` has no version 7"
    "e": "there is no library `nope`"
    "f": "the library `gone` does not open: <folder>/gone: cannot open shared object file: No such file or directory"
    "response": null
    "#);
    let run = show(folder.path(), &text, &["p"]);
    for short in [
        "│ no such model │",
        "│ not available │",
        "│ no such version ",
        "│ no such library ",
        "│ does not open ",
    ] {
        assert!(run.text().contains(short), "{short}\n{}", run.text());
    }
}

#[test]
fn all_pipelines_are_drawn_one_after_the_other() {
    let folder = repository::folder();
    let run = show(folder.path(), CONFIG, &[]);
    assert!(run.text().contains("Pipeline ocr\n"), "{}", run.text());
    assert!(run.text().contains("\nPipeline echo\n"), "{}", run.text());
    let run = show(folder.path(), CONFIG, &["--format", "json"]);
    let all: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(all[1]["name"], "echo");
    let run = show(folder.path(), CONFIG, &["echo", "--format", "json"]);
    let one: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(one["edges"][0]["from"], "request");
    assert_eq!(one["edges"][0]["to"], "response");
}

#[test]
fn other_locales_and_a_flag_mean_ascii() {
    let folder = repository::folder();
    let run = show(folder.path(), CONFIG, &["--ascii"]);
    assert!(run.text().is_ascii() && run.text().contains("request"));
    let mut command = cli::bare(&folder.path().join("home"));
    command.args(["pipeline", "show"]);
    let by_locale = cli::run(
        command
            .arg(folder.path().join("config.json"))
            .env("LC_ALL", "C"),
    );
    assert_eq!(by_locale.text(), run.text());
}

#[test]
fn a_name_that_is_not_there_is_reported_with_the_nearest() {
    let folder = repository::folder();
    insta::assert_snapshot!(show(folder.path(), CONFIG, &["ocrr"]).failure(), @"
    exit 64
    error: the configuration file <folder>/config.json has no pipeline `ocrr`
    hint: did you mean `ocr`?
    hint: its pipelines are `ocr`, `echo`
    ");
    // An existing one that is left out is an error of the file.
    let taken = CONFIG.replace(
        r#""model_config_list": []"#,
        r#""model_config_list": [{"config": {"name": "ocr", "base_path": "/m"}}]"#,
    );
    let run = show(folder.path(), &taken, &["ocr"]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("is left out"), "{}", run.stderr);
    for command in ["show", "check", "run"] {
        let help = cli::ovms(["pipeline", command, "--help"]).text();
        let words: Vec<&str> = help.split_whitespace().collect();
        let reported = words.join(" ");
        assert!(reported.contains("64 usage, also a NAME"), "{help}");
    }
    let none = r#"{"model_config_list": []}"#;
    insta::assert_snapshot!(show(folder.path(), none, &[]).failure(), @"
    exit 1
    error: the configuration file <folder>/config.json has no pipelines
    hint: they are listed in pipeline_config_list
    ");
}

#[test]
fn a_file_that_is_refused_is_explained() {
    let folder = repository::folder();
    let wrong = r#"{"model_config_list": [], "pipeline_config_list": [{"name": 7}]}"#;
    let run = show(folder.path(), wrong, &[]);
    assert_eq!(run.code, Some(1));
    assert!(
        run.stderr.contains("pipeline_config_list[0].name: found 7"),
        "{}",
        run.stderr
    );
    let missing = folder.path().join("nosuch.json");
    let run = cli::ovms([Path::new("pipeline"), Path::new("show"), &missing]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("nosuch.json"), "{}", run.stderr);
}

#[test]
fn a_image_goes_to_a_file() {
    let folder = repository::folder();
    let out = folder.path().join("dag.svg");
    let args = ["ocr", "--format", "svg", "-o", out.to_str().unwrap()];
    fs::write(&out, "old").unwrap();
    let run = show(folder.path(), CONFIG, &args);
    assert_eq!(run.failure(), "exit 0\n");
    assert!(run.stdout.is_empty());
    assert!(fs::read_to_string(&out).unwrap().starts_with("<?xml"));
    let run = show(folder.path(), CONFIG, &["--format", "html", "--out", "-"]);
    assert_eq!(run.text().matches("<svg").count(), 2);

    let out = folder.path().join("nosuch/dag.html");
    let run = show(folder.path(), CONFIG, &["-o", out.to_str().unwrap()]);
    insta::assert_snapshot!(run.failure(), @"
    exit 1
    error: cannot write <folder>/nosuch/dag.html
      caused by: No such file or directory (os error 2)
    hint: make the folder <folder>/nosuch first
    ");
}

#[test]
fn an_svg_file_has_one_pipeline() {
    let folder = repository::folder();
    let run = show(folder.path(), CONFIG, &["--format", "svg"]);
    insta::assert_snapshot!(run.failure(), @"
    exit 64
    error: an SVG file has one pipeline, and there are several: name one
      ocr
      echo
    ");
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let folder = repository::folder();
    let nodes: Vec<String> = (0..2000)
        .map(|node| {
            format!(
                r#"{{"name": "n{node}", "inputs": ["x"], "nodes": [],
                "outputs": [{{"y": {{"node_name": "request", "data_item": "x"}}}}]}}"#
            )
        })
        .collect();
    let text = format!(
        r#"{{"model_config_list": [], "pipeline_config_list": [{}]}}"#,
        nodes.join(", ")
    );
    let mut command = cli::bare(&folder.path().join("home"));
    let mut child = command
        .args(["pipeline", "show"])
        .arg(config(folder.path(), &text))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 8];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"Pipeline");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
