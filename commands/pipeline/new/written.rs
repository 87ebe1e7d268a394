//! The text of a configuration file with one pipeline, and comments that explain it.

use std::fmt::{self, Display};

use askama::Template;
use ovms::servable::TensorInfo;

use super::wiring::{Node, WiredModel, Wiring, described};
use crate::ui;

/// Configuration file of a new pipeline.
#[derive(Template)]
#[template(path = "pipeline.json.jinja", escape = "none")]
pub(super) struct PipelineText<'a> {
    /// Name of the pipeline.
    pub(super) name: &'a str,
    /// Kind, as typed.
    pub(super) kind: &'a str,
    /// Name of the file.
    pub(super) file: &'a str,
    pub(super) models: &'a [WiredModel],
    pub(super) wiring: &'a Wiring,
}

impl PipelineText<'_> {
    /// Returns the demultiplexer that only the response gathers.
    fn gathered(&self) -> Option<&str> {
        let gathers = self.wiring.nodes.iter().any(|node| node.gathers.is_some());
        let mut nodes = self.wiring.nodes.iter();
        let splits = nodes.find(|node| node.splits.is_some())?;
        (!gathers).then_some(&*splits.name)
    }

    /// Returns an output of the model of a node.
    fn output(&self, node: &Node, name: &str) -> Option<&TensorInfo> {
        let model = self.models.iter().find(|model| model.name == node.model)?;
        model.info.outputs.iter().find(|output| output.name == name)
    }
}

/// Writes a text as a JSON string.
fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Text in a comment, which ends with the line.
struct Comment<'a>(&'a str);

impl Display for Comment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.replace(ui::steers, " "))
    }
}
