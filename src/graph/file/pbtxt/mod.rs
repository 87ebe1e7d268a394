//! Graph files in protobuf text format. Each part of a file is kept with its location.
//!
//! The text is parsed into nested fields first (`tree`), which are then checked against the
//! descriptors of the messages (`bind`); so all errors of a file are reported at once.

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, DynamicMessage};

mod bind;
mod directive;
mod outline;
mod scalar;
#[cfg(test)]
mod tests;
mod token;
mod tree;

pub(in crate::graph) use directive::{directives, pool_size};
pub(crate) use outline::{OutlineField, outline};
pub(in crate::graph) use token::token_end;
pub(in crate::graph) use tree::{Field, Value, all, first};

use crate::proto::GRAPH_DESCRIPTORS;

/// Maximum size of a graph file, in bytes.
pub(in crate::graph) const MAX_SIZE: usize = 16 << 20;

/// Maximum number of errors reported for a file.
pub(in crate::graph) const MAX_ERRORS: usize = 100;

/// Descriptors of the messages of graphs and of their options.
pub(in crate::graph) static MESSAGES: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(GRAPH_DESCRIPTORS).expect("own descriptors are valid"));

/// Contents of a file.
#[derive(Debug)]
pub(in crate::graph) struct Document<'a> {
    /// Fields as written.
    pub(in crate::graph) fields: Box<[Field<'a>]>,
    /// Decoded message.
    pub(in crate::graph) message: DynamicMessage,
}

/// Error in the text of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::graph) struct TextError {
    /// Position, in bytes.
    pub(in crate::graph) at: usize,
    /// Node with the error.
    pub(in crate::graph) node: Option<String>,
    /// Error message.
    pub(in crate::graph) message: String,
    /// Suggested fix.
    pub(in crate::graph) hint: Option<String>,
}

impl TextError {
    const fn new(at: usize, message: String, hint: Option<String>) -> Self {
        Self {
            at,
            node: None,
            message,
            hint,
        }
    }
}

/// Reads the text of a graph.
///
/// # Errors
///
/// Returns the errors, in the order of the text: only the first if it is not protobuf text, else
/// all of them, up to [`MAX_ERRORS`].
pub(in crate::graph) fn read(text: &str) -> Result<Document<'_>, Vec<TextError>> {
    if text.len() > MAX_SIZE {
        let message = format!("the file has {} bytes, more than {MAX_SIZE}", text.len());
        let hint = Some("split the graph".to_owned());
        return Err(vec![TextError::new(0, message, hint)]);
    }
    let fields = tree::read(text).map_err(|error| vec![error])?;
    let message = bind::graph(text, &fields)?;
    Ok(Document { fields, message })
}
