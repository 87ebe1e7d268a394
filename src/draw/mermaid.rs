//! Diagram for Mermaid.

use super::{
    diagram::Diagram,
    drawing::{BackEdges, ChartPart, Drawing, Look},
    escape::visible,
};

const CLASSES: &str = "  classDef model fill:#ddf4ff,stroke:#54aeff,color:#1f2328
  classDef custom fill:#fbefff,stroke:#c297ff,color:#1f2328
  classDef ghost fill:#ffebe9,stroke:#cf222e,color:#1f2328,stroke-dasharray:5 4
";

/// Writes a diagram as a flow chart of Mermaid, with a subgraph for each level.
pub fn mermaid(diagram: &Diagram) -> String {
    let drawing = Drawing::new(diagram, visible, BackEdges::Arrows);
    let name = yaml(&visible(&diagram.name));
    let mut text = format!("---\ntitle: {name}\n---\nflowchart TD\n");
    drawing.groups(None, 1, &mut |depth, part| {
        text.push_str(&"  ".repeat(depth));
        text.extend([match part {
            ChartPart::Box(index, it) => {
                let (open, close) = match it.look {
                    Look::End => ("([", "])"),
                    Look::Other => ("[", "]"),
                    Look::Model => ("[", "]:::model"),
                    Look::Custom => ("[", "]:::custom"),
                    Look::Ghost => ("[", "]:::ghost"),
                };
                format!("n{index}{open}{}{close}\n", quoted(&it.text()))
            }
            ChartPart::Open(index, title) => format!("subgraph l{index}[{}]\n", quoted(title)),
            ChartPart::Close => "end\n".to_owned(),
        }]);
    });
    for (to, label) in drawing.arrows() {
        let arrow = match label.is_back || drawing.is_dashed(label.from, to) {
            true => "-.->",
            false => "-->",
        };
        let reported = quoted(&label.text());
        text.extend([format!("  n{} {arrow}|{reported}| n{to}\n", label.from)]);
    }
    text + CLASSES
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
