//! The custom node that `ovms pipeline new` writes: it builds, and does what its comments say. What the command says
//! is in the sheet `new_files`.

use std::{fs, process::Command};

use ovms::{
    custom_node::{HEADER, Library, Node},
    tensor::{Dim, PartialShape},
};

use crate::support::{
    cli,
    nodes::{floats, output},
    repository,
};

#[test]
fn a_custom_node_is_written_builds_and_works() {
    let folder = repository::folder();
    let new = ["pipeline", "new", "--custom-node", "my-node", "."];
    let run = cli::run(cli::command().current_dir(folder.path()).args(new));
    assert_eq!(run.failure(), "exit 0\n");
    let header = fs::read_to_string(folder.path().join("custom_node_interface.h"));
    assert_eq!(header.unwrap(), HEADER);
    let made = cli::run(Command::new("make").current_dir(folder.path()));
    assert_eq!(made.code, Some(0), "{}", made.stderr);

    let library = Library::open("my-node", &folder.path().join("libmy-node.so")).unwrap();
    let node = Node::initialize(&library, [("scale", "2.5")]).unwrap();
    let inputs = node.inputs().unwrap();
    assert_eq!(inputs[0].name, "input");
    assert_eq!(inputs[0].shape, PartialShape(vec![Dim::Any; 2]));
    assert_eq!(node.outputs().unwrap()[0].name, "output");
    let input = floats(&[2, 2], &[1.0, 2.0, -3.0, 0.0]);
    let outputs = node.execute(&[("input", &input)]).unwrap();
    assert_eq!(
        ovms::tensor::named(&outputs, "output").unwrap().shape(),
        [2, 2]
    );
    assert_eq!(output(&outputs, "output"), [2.5, 5.0, -7.5, 0.0]);
    let empty = node.execute(&[("input", &floats(&[0, 2], &[]))]).unwrap();
    assert_eq!(
        ovms::tensor::named(&empty, "output").unwrap().shape(),
        [0, 2]
    );
    assert!(node.execute(&[("other", &input)]).is_err());
    assert!(Node::initialize(&library, [("scale", "much")]).is_err());
}
