//! `ovms pipeline new`: `ovms pipeline check` accepts its output.

use std::{fs, path::Path, process::Command};

use ovms::{
    custom_node::{HEADER, Library, Node},
    tensor::{Dim, PartialShape},
};
use tempfile::TempDir;

use crate::support::{
    cli::{self, Run},
    ir,
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

    error: Pipeline refers to incorrect library [rule 2]
      --> nodes/mine/config.json:20:37
       |
    20 |                     "library_name": "my-node",
       |                                     ^^^^^^^^^
       |
       = node `my-node_node`
       = found     the library `my-node`, which does not open: <folder>/nodes/mine/libmy-node.so: cannot open shared object file: No such file or directory
         expected  a library that opens and has all six functions
       = help: build it, or correct its base_path

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
