//! A pipeline for Mermaid.

use super::{
    dot::reported,
    escape::visible,
    graph::{Drawing, Graph, Link, Look},
};
use crate::pipeline::PipelineOutline;

/// Writes a pipeline as a flow chart of Mermaid, with a subgraph for each level.
#[must_use]
pub fn mermaid(outline: &PipelineOutline) -> String {
    write(&Drawing::new(outline))
}

/// Writes what is drawn for Mermaid.
pub(super) fn write(drawing: &Drawing) -> String {
    let graph = &drawing.graph;
    let mut text = format!(
        "---\ntitle: {}\n---\nflowchart TD\n",
        yaml(&visible(&drawing.name))
    );
    subgraphs(graph, None, 1, &mut text);
    for (to, node) in graph.boxes.iter().enumerate() {
        for label in &node.labels {
            let reported = quoted(&reported(label));
            let link = Link {
                from: label.from,
                to,
            };
            let arrow = match drawing.dashed.contains(&link) {
                true => "-.->",
                false => "-->",
            };
            text.extend([format!("  n{} {arrow}|{reported}| n{to}\n", label.from)]);
        }
    }
    for (from, to, reported) in &drawing.backs {
        let reported = quoted(&format!("{reported}\nback edge"));
        text.extend([format!("  n{from} -.->|{reported}| n{to}\n")]);
    }
    text += "  classDef model fill:#ddf4ff,stroke:#54aeff,color:#1f2328\n";
    text += "  classDef custom fill:#fbefff,stroke:#c297ff,color:#1f2328\n";
    text += "  classDef ghost fill:#ffebe9,stroke:#cf222e,color:#1f2328,stroke-dasharray:5 4\n";
    text
}

/// Writes the boxes of a level and, as a subgraph each, the levels within it.
fn subgraphs(graph: &Graph, level: Option<usize>, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    for (index, node) in graph.boxes.iter().enumerate() {
        if node.levels.last().copied() != level {
            continue;
        }
        let lines: Vec<&str> = node.lines.iter().map(|line| line.text.as_str()).collect();
        let reported = quoted(&lines.join("\n"));
        text.extend([match node.look {
            Look::End => format!("{indent}n{index}([{reported}])\n"),
            Look::Other => format!("{indent}n{index}[{reported}]\n"),
            Look::Model => format!("{indent}n{index}[{reported}]:::model\n"),
            Look::Custom => format!("{indent}n{index}[{reported}]:::custom\n"),
            Look::Ghost => format!("{indent}n{index}[{reported}]:::ghost\n"),
        }]);
    }
    for (index, frame) in graph.levels.iter().enumerate() {
        if frame.parent != level || !graph.boxes.iter().any(|it| it.levels.contains(&index)) {
            continue;
        }
        let title = quoted(frame.titles[0].trim());
        text.extend([format!("{indent}subgraph l{index}[{title}]\n")]);
        subgraphs(graph, Some(index), depth + 1, text);
        text.extend([format!("{indent}end\n")]);
    }
}

/// Writes a text so that nothing of it is markup.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '\n' => quoted.push_str("<br/>"),
            // A directive, `%%{init: …}%%`, is read wherever it stands.
            '"' | '\'' | '#' | '%' | '{' | '}' | '&' | '<' | '>' | '`' | '\\' | ';' | '*' | '_'
            | '~' => {
                quoted.extend([format!("#{};", u32::from(character))]);
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// Writes the title, in which directives are read as well.
fn yaml(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", text.replace('%', "\\x25"))
}
