//! The text of a configuration file with one pipeline, and comments that explain it.

use std::fmt::{self, Display, Write};

use ovms::servable::TensorInfo;

use super::wiring::{Node, Wire, WiredModel, Wiring};
use crate::ui;

/// Contents of the file's header.
pub(super) struct Head<'a> {
    /// Name of the pipeline.
    pub(super) name: &'a str,
    /// Kind, as typed.
    pub(super) kind: &'a str,
    /// Name of the file.
    pub(super) file: &'a str,
}

/// Writes the file.
pub(super) fn write(head: &Head<'_>, models: &[WiredModel], wiring: &Wiring) -> String {
    let mut text = String::new();
    file(&mut text, head, models, wiring).expect("a text takes every text");
    text
}

fn file(text: &mut String, head: &Head<'_>, models: &[WiredModel], wiring: &Wiring) -> fmt::Result {
    let (kind, path) = (head.kind, Comment(head.file));
    writeln!(
        text,
        "// A pipeline, written by `ovms pipeline new {kind}`."
    )?;
    writeln!(text, "//")?;
    writeln!(text, "//     ovms pipeline check {path}")?;
    writeln!(text, "//     ovms pipeline show {path}")?;
    writeln!(text, "//     ovms serve --config_path {path} --port 9000")?;
    writeln!(text, "{{")?;
    writeln!(
        text,
        "    // Each of these also answers requests of its own, under its name."
    )?;
    writeln!(text, "    \"model_config_list\": [")?;
    list(text, models, |text, model, comma| {
        for (what, tensors) in [
            ("takes", &model.info.inputs),
            ("gives", &model.info.outputs),
        ] {
            for tensor in tensors {
                writeln!(text, "        // {what} {}", reported(tensor))?;
            }
        }
        let (name, path) = (json(&model.name), json(&model.base_path));
        let entry = format!("{{\"config\": {{\"name\": {name}, \"base_path\": {path}}}}}");
        writeln!(text, "        {entry}{comma}")
    })?;
    writeln!(text, "    ],\n    \"pipeline_config_list\": [\n        {{")?;
    writeln!(text, "            \"name\": {},", json(head.name))?;
    if let Some(count) = wiring.splits {
        writeln!(
            text,
            "            // Each input of a request has one dimension more, in front: how many parts \
             it has,\n            // 1 to 10000 (a number here instead of -1 takes just as many). The \
             nodes run for each\n            // part, side by side, and the outputs have that \
             dimension, too."
        )?;
        writeln!(text, "            \"demultiply_count\": {count},")?;
    }
    writeln!(
        text,
        "            // What clients send; nodes take it from the node `request`."
    )?;
    let inputs: Vec<String> = wiring.inputs.iter().map(|input| json(input)).collect();
    writeln!(text, "            \"inputs\": [{}],", inputs.join(", "))?;
    writeln!(text, "            \"nodes\": [")?;
    list(text, &wiring.nodes, |text, node, comma| {
        let model = models.iter().find(|model| model.name == node.model);
        let outputs = model.map_or(&[][..], |model| &model.info.outputs);
        one(text, node, outputs, comma)
    })?;
    writeln!(text, "            ],\n            // What clients get.")?;
    if let Some(from) = open(wiring) {
        writeln!(
            text,
            "            // The parts of `{}` are put together here: in front of each shape comes \
             their number.",
            Comment(from)
        )?;
    }
    writeln!(text, "            \"outputs\": [")?;
    wires(text, &wiring.outputs, "                ")?;
    writeln!(text, "            ]\n        }}\n    ]\n}}")
}

/// Writes a node.
fn one(text: &mut String, node: &Node, outputs: &[TensorInfo], comma: &str) -> fmt::Result {
    let indent = "                    ";
    writeln!(text, "                {{")?;
    writeln!(text, "{indent}\"name\": {},", json(&node.name))?;
    writeln!(text, "{indent}\"type\": \"DL model\",")?;
    writeln!(text, "{indent}\"model_name\": {},", json(&node.model))?;
    if let Some(count) = node.splits {
        let number = match count {
            -1 => "as many parts as there are".to_owned(),
            count => format!("{count} parts"),
        };
        writeln!(
            text,
            "{indent}// Each output is split along its first dimension, into {number}; what comes \
             next\n{indent}// runs for each part, side by side."
        )?;
        writeln!(text, "{indent}\"demultiply_count\": {count},")?;
    }
    if let Some(from) = &node.gathers {
        writeln!(
            text,
            "{indent}// It runs once, on all parts of that node put together along a first \
             dimension."
        )?;
        writeln!(text, "{indent}\"gather_from_node\": {},", json(from))?;
    }
    writeln!(text, "{indent}\"inputs\": [")?;
    wires(text, &node.inputs, &format!("{indent}    "))?;
    writeln!(text, "{indent}],")?;
    writeln!(
        text,
        "{indent}// What others can take from it, by the alias."
    )?;
    writeln!(text, "{indent}\"outputs\": [")?;
    list(text, &node.outputs, |text, output, comma| {
        let name = json(output);
        write!(
            text,
            "{indent}    {{\"data_item\": {name}, \"alias\": {name}}}{comma}"
        )?;
        match outputs.iter().find(|info| info.name == *output) {
            Some(info) => writeln!(text, "  // {} {}", info.dtype.precision(), info.shape),
            None => writeln!(text),
        }
    })?;
    writeln!(text, "{indent}]\n                }}{comma}")
}

fn wires(text: &mut String, wires: &[Wire], indent: &str) -> fmt::Result {
    list(text, wires, |text, wire, comma| {
        let [to, from, item] = [&wire.to, &wire.from, &wire.item].map(|name| json(name));
        writeln!(
            text,
            "{indent}{{{to}: {{\"node_name\": {from}, \"data_item\": {item}}}}}{comma}  // {}",
            wire.tensor
        )
    })
}

/// Writes the entries of a list, with commas between them.
fn list<T>(
    text: &mut String,
    entries: &[T],
    write: impl Fn(&mut String, &T, &str) -> fmt::Result,
) -> fmt::Result {
    for (index, entry) in entries.iter().enumerate() {
        let comma = if index + 1 < entries.len() { "," } else { "" };
        write(text, entry, comma)?;
    }
    Ok(())
}

/// Returns the demultiplexer that only the response gathers.
fn open(wiring: &Wiring) -> Option<&str> {
    let gathered = wiring.nodes.iter().any(|node| node.gathers.is_some());
    let mut nodes = wiring.nodes.iter();
    let splits = nodes.find(|node| node.splits.is_some())?;
    (!gathered).then_some(&*splits.name)
}

/// Writes a text as a JSON string.
fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Writes a tensor: `input: FP32 (1,10)`.
fn reported(tensor: &TensorInfo) -> String {
    let (name, dtype) = (Comment(&tensor.name), tensor.dtype.precision());
    format!("{name}: {dtype} {}", tensor.shape)
}

/// Text in a comment, which ends with the line.
struct Comment<'a>(&'a str);

impl Display for Comment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            f.write_char(match ui::steers(character) {
                true => ' ',
                false => character,
            })?;
        }
        Ok(())
    }
}
