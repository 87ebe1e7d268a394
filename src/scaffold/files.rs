//! The templates of the files, each with what it is filled in with.

use askama::Template;

use super::{
    Scaffold, ScaffoldKind,
    sample::{Sample, flags},
    stream::joined,
    wiring::{Python, Step, Wiring},
};
use crate::tensor::DataType;

/// The graph file.
#[derive(Template)]
#[template(path = "graph.pbtxt.jinja")]
pub(super) struct GraphText<'a> {
    pub(super) of: &'a Scaffold,
    pub(super) wiring: &'a Wiring,
}

/// The handler of a Python node.
#[derive(Template)]
#[template(path = "handler.py.jinja")]
pub(super) struct HandlerText<'a> {
    pub(super) graph: &'a str,
    pub(super) node: &'a Python,
}

/// Tests of the handlers, for a plain interpreter.
#[derive(Template)]
#[template(path = "unit_test.py.jinja")]
pub(super) struct TestText<'a> {
    pub(super) of: &'a Scaffold,
    pub(super) wiring: &'a Wiring,
}

/// The README.
#[derive(Template)]
#[template(path = "README.md.jinja")]
pub(super) struct ReadmeText<'a> {
    pub(super) of: &'a Scaffold,
    pub(super) wiring: &'a Wiring,
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
