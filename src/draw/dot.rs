//! A pipeline for Graphviz.

use super::{
    escape::visible,
    graph::{Drawing, Graph, Link, Look},
    labels::Label,
};
use crate::pipeline::PipelineOutline;

/// Writes a pipeline as a graph of Graphviz, with a cluster for each level.
#[must_use]
pub fn dot(outline: &PipelineOutline) -> String {
    write(&Drawing::new(outline))
}

/// Writes what is drawn for Graphviz.
pub(super) fn write(drawing: &Drawing) -> String {
    let graph = &drawing.graph;
    let mut text = format!("digraph {} {{\n", quoted(&visible(&drawing.name)));
    text += "  rankdir=TB; compound=true;\n";
    text += "  node [shape=box, style=\"rounded,filled\", fillcolor=\"#f6f8fa\", \
             fontname=\"monospace\"];\n";
    text += "  edge [fontname=\"monospace\", fontsize=10];\n";
    clusters(graph, None, 1, &mut text);
    for (to, node) in graph.boxes.iter().enumerate() {
        for label in &node.labels {
            let lines = reported(label);
            let link = Link {
                from: label.from,
                to,
            };
            let error = match label.error {
                Some(_) => ", color=red",
                None if drawing.dashed.contains(&link) => ", style=dashed",
                None => "",
            };
            text.extend([format!(
                "  n{} -> n{to} [label={}{error}];\n",
                label.from,
                quoted(&lines)
            )]);
        }
    }
    for (from, to, reported) in &drawing.backs {
        let reported = quoted(&format!("{reported}\nback edge"));
        text.extend([format!(
            "  n{from} -> n{to} [label={reported}, style=dotted, constraint=false];\n"
        )]);
    }
    text += "}\n";
    text
}

/// Writes the boxes of a level and, as a cluster each, the levels within it.
fn clusters(graph: &Graph, level: Option<usize>, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    for (index, node) in graph.boxes.iter().enumerate() {
        if node.levels.last().copied() != level {
            continue;
        }
        let colour = match node.look {
            Look::End | Look::Other => "",
            Look::Model => ", fillcolor=\"#ddf4ff\"",
            Look::Custom => ", fillcolor=\"#fbefff\"",
            Look::Ghost => ", style=\"rounded,dashed\", color=red",
        };
        let lines: Vec<&str> = node.lines.iter().map(|line| line.text.as_str()).collect();
        text.extend([format!(
            "{indent}n{index} [label={}{colour}];\n",
            quoted(&lines.join("\n"))
        )]);
    }
    for (index, frame) in graph.levels.iter().enumerate() {
        if frame.parent != level || !graph.boxes.iter().any(|it| it.levels.contains(&index)) {
            continue;
        }
        let title = quoted(frame.titles[0].trim());
        text.extend([format!("{indent}subgraph cluster_{index} {{\n")]);
        text.extend([format!(
            "{indent}  label={title}; style=dashed; color=\"#9a6700\";\n"
        )]);
        clusters(graph, Some(index), depth + 1, text);
        text.extend([format!("{indent}}}\n")]);
    }
}

/// Writes a label with its type and shape on a line of its own.
pub(super) fn reported(label: &Label) -> String {
    let mut text = format!("{} → {}", label.item, label.input);
    for more in [label.error.unwrap_or_default(), &label.tensor] {
        if !more.is_empty() {
            text.push('\n');
            text.push_str(more);
        }
    }
    text
}

fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", text.replace('\n', "\\n"))
}
