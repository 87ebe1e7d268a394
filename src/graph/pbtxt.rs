//! Graph files: protobuf text. What a file says is known with the place of each of its parts.
//!
//! The text becomes fields in fields first (`tree`), which are then held against the descriptors of the
//! messages (`bind`); so a file with several faults is told all of them at once.

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

/// The most bytes of a graph file.
pub(super) const LONGEST: usize = 16 << 20;

/// The most faults of a file that are told.
pub(super) const MOST_FAULTS: usize = 100;

/// The messages of graphs and of their options.
static MESSAGES: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(GRAPH_DESCRIPTORS).expect("own descriptors are valid"));

/// Returns the descriptors of graphs and of their options.
pub(super) fn messages() -> &'static DescriptorPool {
    &MESSAGES
}

/// What a file says.
#[derive(Debug)]
pub(super) struct Document {
    /// The fields as they are written.
    pub(super) fields: Box<[Field]>,
    /// What they mean.
    pub(super) message: DynamicMessage,
}

/// Why a text is no graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextFault {
    /// Where, in bytes.
    pub(super) at: usize,
    /// The node that it is in.
    pub(super) node: Option<String>,
    /// What is wrong.
    pub(super) message: String,
    /// What may help.
    pub(super) hint: Option<String>,
}

/// Reads the text of a graph.
///
/// # Errors
///
/// Tells what is wrong with it, in the order of the text: its one fault if it is no protobuf text, else
/// all of them, but no more than [`MOST_FAULTS`].
pub(super) fn read(text: &str) -> Result<Document, Vec<TextFault>> {
    if text.len() > LONGEST {
        return Err(vec![TextFault {
            at: 0,
            node: None,
            message: format!("the file has {} bytes, more than {LONGEST}", text.len()),
            hint: Some("split the graph".to_owned()),
        }]);
    }
    let fields = tree::read(text).map_err(|broken| {
        vec![TextFault {
            at: broken.at,
            node: broken.node,
            message: broken.message,
            hint: broken.hint,
        }]
    })?;
    let message = bind::graph(text, &fields)?;
    Ok(Document { fields, message })
}

/// The lines of a text.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
    /// The place that was asked for last: its byte, and that byte's column. Files of one long line are
    /// asked for one place behind the other.
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
