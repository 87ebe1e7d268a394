//! `ovms pipeline run`: a dry run in the program's own process.

use std::{fs, path::PathBuf, process::Command};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{
    cli::{self, Run},
    model,
    nodes::{compiled, compiled_with},
    repository,
};

const TEN: &str = "[0,1,2,3,4,5,6,7,8,9]";

/// Writes a file with a chain of two models and a custom node, and with a demultiplexer.
fn config(folder: &TempDir) -> PathBuf {
    let add_sub = compiled("add_sub.c");
    let results = compiled("dynamic_results.cpp");
    let config = json!({
        "model_config_list": [
            {"config": {"name": "dummy", "base_path": model("dummy")}},
            // Nothing uses it, so that it is not loaded.
            {"config": {"name": "broken", "base_path": "/nonexistent"}},
        ],
        "custom_node_library_config_list": [
            {"name": "add_sub", "base_path": add_sub},
            {"name": "results", "base_path": results},
            {"name": "missing", "base_path": "/nonexistent.so"},
        ],
        "pipeline_config_list": [
            {"name": "chain", "inputs": ["x"], "nodes": [
                node("first", "dummy", ("b", "request", "x")),
                node("second", "dummy", ("b", "first", "o")),
                {"name": "third", "type": "custom", "library_name": "add_sub",
                 "params": {"add_number": "10"},
                 "inputs": [from("input_numbers", "second", "o")],
                 "outputs": [{"data_item": "output_numbers", "alias": "o"}]},
            ], "outputs": [from("y", "third", "o"), from("z", "first", "o")]},
            {"name": "parts", "inputs": ["x", "n"], "nodes": [
                {"name": "split", "type": "custom", "library_name": "results",
                 "demultiply_count": -1,
                 "inputs": [from("numbers", "request", "x"), from("how_many", "request", "n")],
                 "outputs": [{"data_item": "results", "alias": "o"}]},
                node("each", "dummy", ("b", "split", "o")),
            ], "outputs": [from("y", "each", "o")]},
            {"name": "wrong", "inputs": ["x"], "nodes": [
                node("only", "dumy", ("b", "request", "x")),
            ], "outputs": [from("y", "only", "o")]},
        ],
    });
    let path = folder.path().join("config.json");
    // A line for each, so that places do not depend on the length of paths.
    fs::write(&path, serde_json::to_string_pretty(&config).unwrap()).unwrap();
    path
}

fn from(name: &str, node: &str, item: &str) -> Value {
    json!({name: {"node_name": node, "data_item": item}})
}

fn node(name: &str, model: &str, (input, source, item): (&str, &str, &str)) -> Value {
    json!({"name": name, "type": "DL model", "model_name": model,
           "inputs": [from(input, source, item)],
           "outputs": [{"data_item": "a", "alias": "o"}]})
}

fn run(folder: &TempDir, args: &[&str]) -> Run {
    let path = config(folder);
    let head = ["pipeline", "run", path.to_str().unwrap()];
    let mut run = cli::ovms(head.iter().chain(args));
    run.stderr = run
        .stderr
        .replace(folder.path().to_str().unwrap(), "<folder>");
    run
}

/// Removes times and shares from a report, and the padding that depends on their lengths.
fn without_times(text: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut lines = Vec::new();
    for line in text.lines() {
        words.clear();
        let mut parts = line.split(' ').filter(|word| !word.is_empty()).peekable();
        while let Some(word) = parts.next() {
            let is_number = word.trim_start_matches('(').parse::<f64>().is_ok();
            let unit = parts
                .peek()
                .map(|unit| unit.trim_end_matches([')', ',', ';']).to_owned());
            match unit.as_deref() {
                Some("µs" | "ms" | "s") if is_number => {
                    parts.next();
                    words.push("TIME".to_owned());
                }
                Some("%") if is_number => {
                    parts.next();
                    words.push("SHARE".to_owned());
                }
                // Which part ends last does, too.
                _ if word.starts_with("[split_") => words.push("[split_?]".to_owned()),
                _ => words.push(word.to_owned()),
            }
        }
        // Whether anything waited long depends on the machine.
        if !line.starts_with("Waiting:") {
            lines.push(words.join(" "));
        }
    }
    lines.dedup();
    lines.join("\n")
}

#[test]
fn a_report_tells_nodes_runs_path_and_outputs() {
    let folder = repository::folder();
    let run = run(&folder, &["chain", "-i", TEN]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    insta::assert_snapshot!(without_times(&run.text()), @"
    Pipeline `chain`: 3 nodes, 3 runs, TIME

    node runs on levels runs waited ran share
    first model dummy - 1 TIME TIME SHARE
    second model dummy - 1 TIME TIME SHARE
    third library add_sub - 1 TIME TIME SHARE

    node session tensor datatype shape min mean max waited ran share
    first - → b FP32 (1,10) 0 4.5 9 TIME TIME SHARE
    ← a FP32 (1,10) 1 5.5 10
    second - → b FP32 (1,10) 1 5.5 10 TIME TIME SHARE
    ← a FP32 (1,10) 2 6.5 11
    third - → input_numbers FP32 (1,10) 2 6.5 11 TIME TIME SHARE
    ← output_numbers FP32 (1,10) 12 16.5 21

    Critical path: request → first TIME → second TIME → third TIME → response
    running TIME SHARE waiting TIME SHARE between nodes TIME SHARE

    output datatype shape min mean max values
    y FP32 (1,10) 12 16.5 21 12, 13, 14, 15, 16, 17, …
    z FP32 (1,10) 1 5.5 10 1, 2, 3, 4, 5, 6, …
    ");
}

#[test]
fn parts_are_shown_one_by_one_as_far_as_asked_for() {
    let folder = repository::folder();
    let few = ["parts", "-i", &format!("x={TEN}"), "-i", "n=[6]"];
    let run_few = run(&folder, &few);
    assert_eq!(run_few.code, Some(0), "{}", run_few.stderr);
    insta::assert_snapshot!(without_times(&run_few.text()), @"
    Pipeline `parts`: 2 nodes, 7 runs, TIME

    node runs on levels runs waited ran share
    split library results - 1 TIME TIME SHARE
    each model dummy split × N 6 TIME TIME SHARE

    node session tensor datatype shape min mean max waited ran share
    split - → numbers FP32 (1,10) 0 4.5 9 TIME TIME SHARE
    → how_many INT32 (1) 6 6 6
    ← results FP32 (6,1,10) 0 7 14
    each split_0 → b FP32 (1,10) 0 4.5 9 TIME TIME SHARE
    ← a FP32 (1,10) 1 5.5 10
    each split_1 → b FP32 (1,10) 1 5.5 10 TIME TIME SHARE
    ← a FP32 (1,10) 2 6.5 11
    each split_2 → b FP32 (1,10) 2 6.5 11 TIME TIME SHARE
    ← a FP32 (1,10) 3 7.5 12
    each split_3 → b FP32 (1,10) 3 7.5 12 TIME TIME SHARE
    ← a FP32 (1,10) 4 8.5 13
    not shown: 2 of `each`; `--all` shows every run

    Critical path: request → split TIME → each [split_?] TIME → response
    running TIME SHARE waiting TIME SHARE between nodes TIME SHARE

    output datatype shape min mean max values
    y FP32 (6,1,10) 1 8 15 1, 2, 3, 4, 5, 6, …
    ");
    let all = run(&folder, &[&few[..], &["--all", "--repeat", "3"]].concat());
    let text = all.text();
    assert!(
        text.contains("each_5") || text.contains("split_5"),
        "{text}"
    );
    assert!(!text.contains("not shown"), "{text}");
    assert!(
        text.starts_with("Pipeline `parts`: 2 nodes, 7 runs, median of 3 requests "),
        "{text}"
    );
}

#[test]
fn json_and_files_have_every_run() {
    let folder = repository::folder();
    let steps = folder.path().join("new/steps");
    let run = run(
        &folder,
        &[
            "parts",
            "-i",
            &format!("x={TEN}"),
            "-i",
            "n=[2]",
            "--output",
            "json",
            "--repeat",
            "5",
            "--save-intermediate",
            steps.to_str().unwrap(),
        ],
    );
    assert_eq!(
        run.failure(),
        "exit 0\nSaved 10 tensors in <folder>/new/steps.\n"
    );
    let reported: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(reported["pipeline"], "parts");
    assert_eq!(reported["requests"], 5);
    let total = &reported["total_us"];
    assert!(total["min"].as_f64() <= total["median"].as_f64());
    assert!(total["median"].as_f64() <= total["max"].as_f64());
    let nodes = reported["nodes"].as_array().unwrap();
    assert_eq!(nodes[1]["levels"], json!(["split"]));
    let runs = nodes[1]["runs"].as_array().unwrap();
    let mut sessions: Vec<&str> = runs
        .iter()
        .map(|run| run["session"].as_str().unwrap())
        .collect();
    sessions.sort_unstable();
    assert_eq!(sessions, ["split_0", "split_1"]);
    assert_eq!(
        nodes[0]["runs"][0]["outputs"],
        json!([{"name": "results", "datatype": "FP32", "shape": [2, 1, 10],
                "min": 0.0, "mean": 5.0, "max": 10.0}])
    );
    let path = reported["critical_path"].as_array().unwrap();
    assert_eq!(path[0]["node"], "split");
    assert_eq!(path[1]["node"], "each");
    assert_eq!(
        reported["outputs"],
        json!([{"name": "y", "datatype": "FP32", "shape": [2, 1, 10],
                "min": 1.0, "mean": 6.0, "max": 11.0}])
    );
    let mut files: Vec<String> = fs::read_dir(&steps)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort_unstable();
    assert_eq!(
        files,
        [
            "each.split_0.in.b.npy",
            "each.split_0.out.a.npy",
            "each.split_1.in.b.npy",
            "each.split_1.out.a.npy",
            "request.n.npy",
            "request.x.npy",
            "response.y.npy",
            "split.in.how_many.npy",
            "split.in.numbers.npy",
            "split.out.results.npy",
        ]
    );
    let bytes = fs::read(steps.join("each.split_1.out.a.npy")).unwrap();
    let tensor = ovms::tensor::npy::read(&bytes.into()).unwrap();
    assert_eq!(tensor.shape(), [1, 10]);
    assert_eq!(tensor.data()[..4], 2_f32.to_le_bytes());
}

#[test]
fn inputs_may_be_made_up() {
    let folder = repository::folder();
    let zeros = run(&folder, &["chain", "--zeros", "--output", "json"]);
    let reported: Value = serde_json::from_slice(&zeros.stdout).unwrap();
    assert_eq!(reported["outputs"][0]["max"], 12.0);
    let random = ["chain", "--random", "--seed", "7", "--output", "json"];
    let outputs = || {
        let run = run(&folder, &random);
        let reported: Value = serde_json::from_slice(&run.stdout).unwrap();
        reported["outputs"].clone()
    };
    assert_eq!(outputs(), outputs());
}

#[test]
fn what_cannot_run_says_why_and_what_next() {
    let folder = repository::folder();
    let reported = |args: &[&str]| run(&folder, args).failure();
    insta::assert_snapshot!(reported(&["wrong", "--zeros"]), @"
    exit 1
    error: the pipeline `wrong` cannot run
      190:25 pipeline_config_list[2].nodes[0].model_name: Pipeline definition has reference to missing model - node `only`: found the model `dumy`, which is not there; expected a model of model_config_list, of which there is none; add the model to model_config_list
    hint: `ovms pipeline check` shows each error with its place in the file
    ");
    insta::assert_snapshot!(reported(&["parst", "--zeros"]), @"
    exit 64
    error: the configuration file <folder>/config.json has no pipeline `parst`
    hint: did you mean `parts`?
    hint: its pipelines are `chain`, `parts`, `wrong`
    ");
    insta::assert_snapshot!(reported(&["chain"]), @"
    exit 64
    input  datatype  shape
    x      FP32      (1,10)

    output  datatype  shape
    y       FP32      (1,10)
    z       FP32      (1,10)

    error: found no inputs for pipeline `chain`
    hint: give each with `-i NAME=VALUE`, or fill every input with `--zeros` or `--random`
    ");
    insta::assert_snapshot!(reported(&["chain", "-i", "y=[1]"]), @"
    exit 64
    error: the model has no input `y`
    hint: the inputs are `x`
    ");
    insta::assert_snapshot!(reported(&["chain", "-i", "[1,2,3]"]), @"
    exit 64
    error: cannot use the value given for input `x`
      caused by: found 3 elements, shape (1,10) takes 10
    ");
    let none = format!("x={TEN}");
    insta::assert_snapshot!(reported(&["parts", "-i", &none, "-i", "n=[0]"]), @"
    exit 1
    error: the run failed
      Pipeline execution aborted due to no content from custom node - Node: split
    ");
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let into = file.to_str().unwrap();
    insta::assert_snapshot!(
        reported(&["chain", "--zeros", "--output", "json", "--save-intermediate", into]),
        @"
    exit 1
    error: cannot save to <folder>/file
      caused by: File exists (os error 17)
    "
    );
    insta::assert_snapshot!(
        cli::ovms(["pipeline", "run", "/nonexistent/config.json", "p"]).failure(),
        @"
    exit 1
    error: cannot read the configuration file /nonexistent/config.json
      caused by: No such file or directory (os error 2)
    hint: CONFIG names a JSON file; is /nonexistent/config.json the right one?
    "
    );
}

#[test]
fn a_node_that_never_ends_is_not_waited_for() {
    let folder = repository::folder();
    // It does not tell its inputs, so that the pipeline is refused.
    let library = compiled_with("who.c", &["-DSTAYS"]);
    let config = json!({
        "model_config_list": [],
        "custom_node_library_config_list": [{"name": "who", "base_path": library}],
        "pipeline_config_list": [
            {"name": "p", "inputs": ["x"], "nodes": [
                {"name": "stays", "type": "custom", "library_name": "who",
                 "inputs": [from("in", "request", "x")],
                 "outputs": [{"data_item": "who", "alias": "o"}]},
            ], "outputs": [from("y", "stays", "o")]},
        ],
    });
    let path = folder.path().join("config.json");
    fs::write(&path, config.to_string()).unwrap();
    let mut command = Command::new("timeout");
    command.args(["60", env!("CARGO_BIN_EXE_ovms"), "pipeline", "run"]);
    let run = cli::run(command.arg(path).args(["p", "--zeros"]));
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(
        run.stderr.contains("the pipeline `p` cannot run"),
        "{}",
        run.stderr
    );
}

#[test]
fn without_a_runtime_it_says_how_to_get_one() {
    let folder = repository::folder();
    let path = config(&folder);
    let home = folder.path().join("home");
    let mut command = cli::bare(&home);
    let run = cli::run(command.args([
        "pipeline",
        "run",
        path.to_str().unwrap(),
        "chain",
        "--zeros",
    ]));
    insta::assert_snapshot!(run.failure(), @"
    exit 72
    error: no OpenVINO runtime found
    hint: run `ovms setup`; it finds one, or installs one for you alone
    ");
}
