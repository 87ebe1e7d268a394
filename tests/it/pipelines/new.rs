//! `ovms pipeline new`: `ovms pipeline check` accepts its output.

use std::{fs, path::Path, process::Command};

use ovms::{
    custom_node::{HEADER, Library, Node},
    tensor::{Dim, PartialShape},
};
use tempfile::TempDir;

use crate::support::{
    cli::{self, Run},
    ir, model,
    nodes::{floats, output},
    repository,
};

/// Creates a folder with models of one operation, with the given inputs and outputs.
pub(crate) fn models() -> TempDir {
    let folder = repository::folder();
    let models: [(&str, &str, &str, &[usize]); 5] = [
        ("line", "b", "a", &[1, 10]),
        ("other", "in", "out", &[1, 10]),
        ("cut", "numbers", "parts", &[3, 1, 10]),
        ("join", "all", "joined", &[3, 1, 10]),
        ("flat", "x", "y", &[10]),
    ];
    for (name, input, output, dims) in models {
        ir::relu(
            &folder.path().join("models").join(name),
            input,
            output,
            dims,
        );
    }
    folder
}

/// Runs a subcommand of `ovms pipeline` in a folder; the folder's path is removed from the output.
pub(crate) fn run_in(folder: &Path, mut command: Command, args: &[&str]) -> Run {
    let mut run = cli::run(command.current_dir(folder).arg("pipeline").args(args));
    let hidden = |text: &str| text.replace(folder.to_str().unwrap(), "<folder>");
    run.stderr = hidden(&run.stderr);
    run.stdout = hidden(&String::from_utf8(run.stdout).unwrap()).into_bytes();
    run
}

/// Runs a subcommand of `ovms pipeline` in a folder.
pub(crate) fn pipeline(folder: &Path, args: &[&str]) -> Run {
    run_in(folder, cli::command(), args)
}

/// Returns the output and the exit code.
pub(crate) fn shown(run: &Run) -> String {
    format!("{}{}", run.text(), run.failure())
}

/// Writes a file, which both checks must accept; returns its text.
fn written(folder: &Path, args: &[&str]) -> String {
    let run = pipeline(folder, &[&["new"], args, &["-o", "new.json"]].concat());
    assert_eq!(shown(&run), "exit 0\nwrote new.json\n");
    let run = pipeline(folder, &["check", "new.json"]);
    assert_eq!(run.code, Some(0), "{}", shown(&run));
    let mut serve = cli::command();
    let serve = serve.current_dir(folder).args(["serve", "--check"]);
    let run = cli::run(serve.args(["--config_path", "new.json"]));
    assert_eq!(run.code, Some(0), "{}", shown(&run));
    let path = folder.join("new.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::remove_file(path).unwrap();
    text
}

#[test]
fn a_chain_is_written() {
    let folder = models();
    insta::assert_snapshot!(
        written(folder.path(), &["chain", "p", "models/line", "models/other", "models/line"]),
        @r#"
    // A pipeline, written by `ovms pipeline new chain`.
    //
    //     ovms pipeline check new.json
    //     ovms pipeline show new.json
    //     ovms serve --config_path new.json --port 9000
    {
        // Each of these also answers requests of its own, under its name.
        "model_config_list": [
            // takes b: FP32 (1,10)
            // gives a: FP32 (1,10)
            {"config": {"name": "line", "base_path": "models/line"}},
            // takes in: FP32 (1,10)
            // gives out: FP32 (1,10)
            {"config": {"name": "other", "base_path": "models/other"}}
        ],
        "pipeline_config_list": [
            {
                "name": "p",
                // What clients send; nodes take it from the node `request`.
                "inputs": ["b"],
                "nodes": [
                    {
                        "name": "line",
                        "type": "DL model",
                        "model_name": "line",
                        "inputs": [
                            {"b": {"node_name": "request", "data_item": "b"}}  // FP32 (1,10)
                        ],
                        // What others can take from it, by the alias.
                        "outputs": [
                            {"data_item": "a", "alias": "a"}  // FP32 (1,10)
                        ]
                    },
                    {
                        "name": "other",
                        "type": "DL model",
                        "model_name": "other",
                        "inputs": [
                            {"in": {"node_name": "line", "data_item": "a"}}  // FP32 (1,10)
                        ],
                        // What others can take from it, by the alias.
                        "outputs": [
                            {"data_item": "out", "alias": "out"}  // FP32 (1,10)
                        ]
                    },
                    {
                        "name": "line_2",
                        "type": "DL model",
                        "model_name": "line",
                        "inputs": [
                            {"b": {"node_name": "other", "data_item": "out"}}  // FP32 (1,10)
                        ],
                        // What others can take from it, by the alias.
                        "outputs": [
                            {"data_item": "a", "alias": "a"}  // FP32 (1,10)
                        ]
                    }
                ],
                // What clients get.
                "outputs": [
                    {"a": {"node_name": "line_2", "data_item": "a"}}  // FP32 (1,10)
                ]
            }
        ]
    }
    "#
    );
}

#[test]
fn inputs_that_no_model_feeds_are_those_of_the_pipeline() {
    let folder = models();
    let add = model("add");
    let text = written(
        folder.path(),
        &["chain", "p", add.to_str().unwrap(), add.to_str().unwrap()],
    );
    assert!(
        text.contains(r#""inputs": ["input1", "input2", "add_2_input2"]"#),
        "{text}"
    );
    assert!(text.contains(add.to_str().unwrap()), "{text}");
}

#[test]
fn a_demultiplexer_is_written() {
    let folder = models();
    insta::assert_snapshot!(
        written(folder.path(), &["demultiplexer", "p", "models/cut", "models/line"]),
        @r#"
    // A pipeline, written by `ovms pipeline new demultiplexer`.
    //
    //     ovms pipeline check new.json
    //     ovms pipeline show new.json
    //     ovms serve --config_path new.json --port 9000
    {
        // Each of these also answers requests of its own, under its name.
        "model_config_list": [
            // takes numbers: FP32 (3,1,10)
            // gives parts: FP32 (3,1,10)
            {"config": {"name": "cut", "base_path": "models/cut"}},
            // takes b: FP32 (1,10)
            // gives a: FP32 (1,10)
            {"config": {"name": "line", "base_path": "models/line"}}
        ],
        "pipeline_config_list": [
            {
                "name": "p",
                // What clients send; nodes take it from the node `request`.
                "inputs": ["numbers"],
                "nodes": [
                    {
                        "name": "cut",
                        "type": "DL model",
                        "model_name": "cut",
                        // Each output is split along its first dimension, into 3 parts; what comes next
                        // runs for each part, side by side.
                        "demultiply_count": 3,
                        "inputs": [
                            {"numbers": {"node_name": "request", "data_item": "numbers"}}  // FP32 (3,1,10)
                        ],
                        // What others can take from it, by the alias.
                        "outputs": [
                            {"data_item": "parts", "alias": "parts"}  // FP32 (3,1,10)
                        ]
                    },
                    {
                        "name": "line",
                        "type": "DL model",
                        "model_name": "line",
                        "inputs": [
                            {"b": {"node_name": "cut", "data_item": "parts"}}  // FP32 (1,10)
                        ],
                        // What others can take from it, by the alias.
                        "outputs": [
                            {"data_item": "a", "alias": "a"}  // FP32 (1,10)
                        ]
                    }
                ],
                // What clients get.
                // The parts of `cut` are put together here: in front of each shape comes their number.
                "outputs": [
                    {"a": {"node_name": "line", "data_item": "a"}}  // FP32 (1,10)
                ]
            }
        ]
    }
    "#
    );
    let text = written(
        folder.path(),
        &[
            "demultiplexer",
            "p",
            "models/cut",
            "models/line",
            "models/join",
            "models/join",
        ],
    );
    assert!(text.contains(r#""gather_from_node": "cut""#), "{text}");
    assert!(!text.contains("put together here"), "{text}");
    assert_eq!(text.matches("gather_from_node").count(), 1);
}

#[test]
fn one_model_takes_requests_in_parts() {
    let folder = models();
    insta::assert_snapshot!(
        written(folder.path(), &["demultiplexer", "p", "models/line"]),
        @r#"
    // A pipeline, written by `ovms pipeline new demultiplexer`.
    //
    //     ovms pipeline check new.json
    //     ovms pipeline show new.json
    //     ovms serve --config_path new.json --port 9000
    {
        // Each of these also answers requests of its own, under its name.
        "model_config_list": [
            // takes b: FP32 (1,10)
            // gives a: FP32 (1,10)
            {"config": {"name": "line", "base_path": "models/line"}}
        ],
        "pipeline_config_list": [
            {
                "name": "p",
                // Each input of a request has one dimension more, in front: how many parts it has,
                // 1 to 10000 (a number here instead of -1 takes just as many). The nodes run for each
                // part, side by side, and the outputs have that dimension, too.
                "demultiply_count": -1,
                // What clients send; nodes take it from the node `request`.
                "inputs": ["b"],
                "nodes": [
                    {
                        "name": "line",
                        "type": "DL model",
                        "model_name": "line",
                        "inputs": [
                            {"b": {"node_name": "request", "data_item": "b"}}  // FP32 (1,10)
                        ],
                        // What others can take from it, by the alias.
                        "outputs": [
                            {"data_item": "a", "alias": "a"}  // FP32 (1,10)
                        ]
                    }
                ],
                // What clients get.
                "outputs": [
                    {"a": {"node_name": "line", "data_item": "a"}}  // FP32 (1,10)
                ]
            }
        ]
    }
    "#
    );
}

#[test]
fn without_a_file_it_goes_to_stdout_with_whole_paths() {
    let folder = models();
    let run = pipeline(
        folder.path(),
        &["new", "chain", "p", "models/../models/line"],
    );
    assert_eq!((run.code, &*run.stderr), (Some(0), ""));
    let text = run.text();
    assert!(text.contains(r#""<folder>/models/line""#), "{text}");
    fs::create_dir(folder.path().join("below")).unwrap();
    let run = pipeline(
        folder.path(),
        &["new", "chain", "p", "models/line", "-o", "below/p.json"],
    );
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let run = pipeline(folder.path(), &["check", "below/p.json"]);
    assert_eq!(run.code, Some(0), "{}", shown(&run));
}

#[test]
fn models_that_do_not_go_together_are_refused() {
    let folder = models();
    let text = model("passthrough_string");
    let text = text.to_str().unwrap();
    let new = |args: &[&str]| {
        let run = pipeline(folder.path(), &[&["new"], args].concat());
        assert_eq!(run.text(), "");
        run.failure().replace(text, "<text>")
    };
    insta::assert_snapshot!(new(&["chain", "p", "models/line", "models/flat"]), @"
    exit 1
    error: what `line` gives is not what `flat` takes
      line gives a: FP32 (1,10)
      flat takes x: FP32 (10) - nothing fits
    hint: connect other models, or put a custom node between: `ovms pipeline new --custom-node NAME`
    ");
    insta::assert_snapshot!(new(&["chain", "p", text, text]), @"
    exit 1
    error: what `passthrough_string` gives is not what `passthrough_string_2` takes
      passthrough_string gives out: STRING (-1)
      passthrough_string_2 takes in: STRING (-1) - nothing fits
    hint: connect other models, or put a custom node between: `ovms pipeline new --custom-node NAME`
    ");
    insta::assert_snapshot!(new(&["demultiplexer", "p", "models/flat", "models/line"]), @"
    exit 1
    error: the outputs of the model `flat` cannot be split: `y` has the shape (10), and needs 2 dimensions at least
    ");
    insta::assert_snapshot!(new(&["demultiplexer", "p", "models/cut", "models/join"]), @"
    exit 1
    error: what `cut` gives is not what `join` takes
      cut gives parts: FP32 (1,10) for each part
      join takes all: FP32 (3,1,10) - nothing fits
    hint: connect other models, or put a custom node between: `ovms pipeline new --custom-node NAME`
    ");
    insta::assert_snapshot!(
        new(&["demultiplexer", "p", "models/cut", "models/line", "models/flat"]), @"
    exit 1
    error: what `line` gives is not what `flat` takes
      line gives a: FP32 (1,10)
      flat takes x: FP32 (10) - nothing fits
    hint: connect other models, or put a custom node between: `ovms pipeline new --custom-node NAME`
    "
    );
    insta::assert_snapshot!(new(&["demultiplexer", "p", text]), @"
    exit 1
    error: the model `passthrough_string` cannot be at a demultiplexer: its input `in` has strings
    ");
    insta::assert_snapshot!(new(&["chain", "line", "models/line"]), @"
    exit 64
    error: the pipeline cannot be called `line`, as a model is
    hint: give it a name of its own
    ");
    insta::assert_snapshot!(new(&["chain", "p", "models"]), @"
    exit 1
    error: cannot use the model in <folder>/models: there is no version to serve in <folder>/models
    hint: MODEL_DIR is a folder with version folders: MODEL_DIR/1/model.xml
    ");
    insta::assert_snapshot!(new(&["chain", "p", "models/gone"]), @"
    exit 1
    error: cannot use the model in <folder>/models/gone: The provided base path is invalid or doesn't exists - <folder>/models/gone: No such file or directory (os error 2)
    hint: MODEL_DIR is a folder with version folders: MODEL_DIR/1/model.xml
    ");
    insta::assert_snapshot!(new(&["chain", "p"]), @"
    exit 64
    error parsing options: the following required arguments were not provided:
      <MODEL_DIR>...

    Usage: ovms pipeline new chain <NAME> <MODEL_DIR>...

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(new(&["chian", "p", "models/line"]), @"
    exit 64
    error parsing options: unrecognized subcommand 'chian'

      tip: a similar subcommand exists: 'chain'

    Usage: ovms pipeline new [OPTIONS]
           ovms pipeline new <COMMAND>

    For more information, try '--help'.
    ");
}

#[test]
fn files_are_replaced_only_on_demand() {
    let folder = models();
    let path = folder.path().join("p.json");
    fs::write(&path, "mine").unwrap();
    let new = |more: &[&str]| {
        let args = ["new", "chain", "p", "models/line", "-o", "p.json"];
        pipeline(folder.path(), &[&args, more].concat())
    };
    insta::assert_snapshot!(shown(&new(&[])), @"
    exit 1
    error: p.json is there already
    hint: choose another place, or replace it with --force
    ");
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    assert_eq!(new(&["--force"]).code, Some(0));
    assert!(
        fs::read_to_string(&path)
            .unwrap()
            .starts_with("// A pipeline")
    );
    let run = pipeline(
        folder.path(),
        &["new", "chain", "p", "models/line", "-o", "gone/p.json"],
    );
    insta::assert_snapshot!(shown(&run), @"
    exit 1
    error: cannot write gone/p.json
      caused by: No such file or directory (os error 2)
    ");
}

#[test]
fn models_are_looked_at_with_the_runtime() {
    let folder = models();
    let bare = cli::bare(&folder.path().join("home"));
    let run = run_in(folder.path(), bare, &["new", "chain", "p", "models/line"]);
    insta::assert_snapshot!(shown(&run), @"
    exit 72
    error: no OpenVINO runtime found
    hint: run `ovms setup`; it finds one, or installs one for you alone
    ");
}

#[test]
fn a_custom_node_is_written_builds_and_works() {
    let folder = repository::folder();
    let bare = || cli::bare(&folder.path().join("home"));
    let new = |args: &[&str]| run_in(folder.path(), bare(), &[&["new"], args].concat());
    insta::assert_snapshot!(shown(&new(&["--custom-node", "my-node", "nodes/mine"])), @"
    wrote nodes/mine/my-node.cpp
    wrote nodes/mine/custom_node_interface.h
    wrote nodes/mine/Makefile
    wrote nodes/mine/config.json
    next: make -C nodes/mine
          ovms pipeline check nodes/mine/config.json
    exit 0
    ");
    let place = folder.path().join("nodes/mine");
    assert_eq!(
        fs::read_to_string(place.join("custom_node_interface.h")).unwrap(),
        HEADER
    );

    let check = || {
        let args = ["check", "nodes/mine/config.json"];
        shown(&run_in(folder.path(), bare(), &args))
    };
    insta::assert_snapshot!(check(), @r#"
    pipeline `my-node_pipeline`: 1 error, 1 thing that could not be checked

      nodes/mine/config.json:20:37: Pipeline refers to incorrect library [rule 2]
          20 | "library_name": "my-node",
             |                 ^^^^^^^^^
        node      my-node_node
        found     the library `my-node`, which does not open: <folder>/nodes/mine/libmy-node.so: cannot open shared object file: No such file or directory
        expected  a library that opens and has all six functions
        next      build it, or correct its base_path

      nodes/mine/config.json:20:37: not checked: node `my-node_node`: its inputs and outputs, and what depends on them, since the custom node cannot be asked

    exit 1
    error: the pipeline `my-node_pipeline` cannot be served: 1 error, 1 thing that could not be checked
    "#);
    let made = Command::new("make")
        .arg("CXXFLAGS=-O1 -g -Wall -Wextra -Wpedantic -Wconversion -Werror")
        .current_dir(&place)
        .output()
        .expect("there is `make`");
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{said}");
    insta::assert_snapshot!(check(), @"
    pipeline `my-node_pipeline`: no errors
    exit 0
    ");

    let library = Library::open("my-node", &place.join("libmy-node.so")).unwrap();
    let node = Node::initialize(&library, [("scale", "2.5")]).unwrap();
    let inputs = node.inputs().unwrap();
    assert_eq!(inputs[0].name, "input");
    assert_eq!(inputs[0].shape, PartialShape(vec![Dim::Any; 2]));
    assert_eq!(node.outputs().unwrap()[0].name, "output");
    let input = floats(&[2, 2], &[1.0, 2.0, -3.0, 0.0]);
    let outputs = node.execute(&[("input", &input)]).unwrap();
    assert_eq!(outputs.get("output").unwrap().shape(), [2, 2]);
    assert_eq!(output(&outputs, "output"), [2.5, 5.0, -7.5, 0.0]);
    let empty = node.execute(&[("input", &floats(&[0, 2], &[]))]).unwrap();
    assert_eq!(empty.get("output").unwrap().shape(), [0, 2]);
    assert!(node.execute(&[("other", &input)]).is_err());
    assert!(Node::initialize(&library, [("scale", "much")]).is_err());

    insta::assert_snapshot!(shown(&new(&["--custom-node", "my-node", "nodes/mine"])), @"
    exit 1
    error: nodes/mine/my-node.cpp is there already
    hint: choose another place, or replace it with --force
    ");
    let again = new(&["--custom-node", "my-node", "nodes/mine", "--force"]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    insta::assert_snapshot!(shown(&new(&["--custom-node", "../up"])), @"
    exit 64
    error: `../up` cannot be the name of a custom node
    hint: it becomes that of a file: letters, digits, `_` and `-`, a letter first
    ");
    insta::assert_snapshot!(shown(&new(&["--force"])), @"
    exit 64
    error parsing options: the following required arguments were not provided:
      --custom-node <NAME> [DIR]

    Usage: ovms pipeline new --custom-node <NAME> [DIR] --force

    For more information, try '--help'.
    ");
    assert_eq!(new(&["--custom-node", "own"]).code, Some(0));
    assert!(folder.path().join("own/own.cpp").is_file());
    insta::assert_snapshot!(shown(&new(&["--custom-node", "own", "it's mine"])), @r"
    wrote it's mine/own.cpp
    wrote it's mine/custom_node_interface.h
    wrote it's mine/Makefile
    wrote it's mine/config.json
    next: make -C 'it'\''s mine'
          ovms pipeline check 'it'\''s mine/config.json'
    exit 0
    ");
}
