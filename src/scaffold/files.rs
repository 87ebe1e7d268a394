//! The templates of the files, each with what it is filled in with.

use askama::Template;

use super::{
    Scaffold, ScaffoldKind,
    sample::{Sample, flags},
    stream::joined,
    wiring::{Python, Step, Wiring},
};
use crate::tensor::DataType;

/// Text of a file.
#[derive(Template)]
pub(super) enum FileText<'a> {
    /// The graph file.
    #[template(path = "graph.pbtxt.jinja")]
    Graph {
        of: &'a Scaffold,
        wiring: &'a Wiring,
    },
    /// The handler of a Python node.
    #[template(path = "handler.py.jinja")]
    Handler { graph: &'a str, node: &'a Python },
    /// Tests of the handlers, for a plain interpreter.
    #[template(path = "unit_test.py.jinja")]
    Test {
        of: &'a Scaffold,
        wiring: &'a Wiring,
    },
    /// The README.
    #[template(path = "README.md.jinja")]
    Readme {
        of: &'a Scaffold,
        wiring: &'a Wiring,
    },
}

/// Writes a shape as Python's tuples are.
fn tuple(shape: &[i64]) -> String {
    match shape {
        [one] => format!("({one},)"),
        _ => format!("({})", joined(shape, ", ")),
    }
}

/// Writes a text as it stands in quotes of a graph file: bytes that are no plain characters in octal.
fn octal(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'"' | b'\\' => format!("\\{}", char::from(byte)),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\{byte:03o}"),
    };
    text.bytes().map(byte).collect()
}
