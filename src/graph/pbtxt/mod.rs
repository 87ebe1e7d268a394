//! Graph files in protobuf text format. Each part of a file is kept with its location.
//!
//! The text is parsed into nested fields first (`tree`), which are then checked against the
//! descriptors of the messages (`bind`); so all errors of a file are reported at once.

use std::{cell::Cell, sync::LazyLock};

use prost_reflect::{DescriptorPool, DynamicMessage};

mod bind;
mod directive;
mod scalar;
#[cfg(test)]
mod tests;
mod token;
mod tree;

pub(super) use directive::directive;
pub(super) use tree::{Field, Value, all};

use crate::proto::GRAPH_DESCRIPTORS;

/// Maximum size of a graph file, in bytes.
pub(super) const LONGEST: usize = 16 << 20;

/// Maximum number of errors reported for a file.
pub(super) const MAX_ERRORS: usize = 100;

/// Descriptors of the messages of graphs and of their options.
static MESSAGES: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(GRAPH_DESCRIPTORS).expect("own descriptors are valid"));

/// Returns the descriptors of graphs and of their options.
pub(super) fn messages() -> &'static DescriptorPool {
    &MESSAGES
}

/// Contents of a file.
#[derive(Debug)]
pub(super) struct Document {
    /// Fields as written.
    pub(super) fields: Box<[Field]>,
    /// Decoded message.
    pub(super) message: DynamicMessage,
}

/// Error in the text of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextError {
    /// Position, in bytes.
    pub(super) at: usize,
    /// Node with the error.
    pub(super) node: Option<String>,
    /// Error message.
    pub(super) message: String,
    /// Suggested fix.
    pub(super) hint: Option<String>,
}

/// Reads the text of a graph.
///
/// # Errors
///
/// Returns the errors, in the order of the text: only the first if it is not protobuf text, else
/// all of them, up to [`MAX_ERRORS`].
pub(super) fn read(text: &str) -> Result<Document, Vec<TextError>> {
    if text.len() > LONGEST {
        return Err(vec![TextError {
            at: 0,
            node: None,
            message: format!("the file has {} bytes, more than {LONGEST}", text.len()),
            hint: Some("split the graph".to_owned()),
        }]);
    }
    let fields = tree::read(text).map_err(|broken| {
        vec![TextError {
            at: broken.at,
            node: broken.node,
            message: broken.message,
            hint: broken.hint,
        }]
    })?;
    let message = bind::graph(text, &fields)?;
    Ok(Document { fields, message })
}

/// Lines of a text.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
    /// Last position looked up: its byte, and that byte's column. Files of one long line are looked
    /// up in ascending order.
    last: Cell<(usize, usize)>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self {
            text,
            starts: std::iter::once(0)
                .chain(ends.map(|(at, _)| at + 1))
                .collect(),
            last: Cell::new((0, 1)),
        }
    }

    /// Returns line and column of a byte, both from 1; columns are characters.
    pub(super) fn place(&self, at: usize) -> (usize, usize) {
        let line = self.starts.partition_point(|start| *start <= at);
        let start = self.starts[line - 1];
        let (last, column) = self.last.get();
        let (from, before) = if (start..=at).contains(&last) {
            (last, column)
        } else {
            (start, 1)
        };
        let passed = self.text.get(from..at).unwrap_or_default();
        let column = before + passed.chars().count();
        self.last.set((at, column));
        (line, column)
    }
}
