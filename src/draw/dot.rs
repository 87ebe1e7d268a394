//! Diagram for Graphviz.

use super::{
    diagram::Diagram,
    drawing::{BackEdges, ChartPart, Drawing, Look},
    escape::visible,
};

const HEAD: &str = "  rankdir=TB; compound=true;
  node [shape=box, style=\"rounded,filled\", fillcolor=\"#f6f8fa\", fontname=\"monospace\"];
  edge [fontname=\"monospace\", fontsize=10];
";

/// Writes a diagram as a graph of Graphviz, with a cluster for each level.
pub fn dot(diagram: &Diagram) -> String {
    let drawing = Drawing::new(diagram, visible, BackEdges::Arrows);
    let mut text = format!("digraph {} {{\n{HEAD}", quoted(&visible(&diagram.name)));
    drawing.groups(None, 1, &mut |depth, part| {
        let indent = "  ".repeat(depth);
        text.extend([match part {
            ChartPart::Box(index, it) => {
                let colour = match it.look {
                    Look::End | Look::Other => "",
                    Look::Model => ", fillcolor=\"#ddf4ff\"",
                    Look::Custom => ", fillcolor=\"#fbefff\"",
                    Look::Ghost => ", style=\"rounded,dashed\", color=red",
                };
                format!("{indent}n{index} [label={}{colour}];\n", quoted(&it.text()))
            }
            ChartPart::Open(index, title) => format!(
                "{indent}subgraph cluster_{index} {{\n\
                 {indent}  label={}; style=dashed; color=\"#9a6700\";\n",
                quoted(title)
            ),
            ChartPart::Close => format!("{indent}}}\n"),
        }]);
    });
    for (to, label) in drawing.arrows() {
        let style = match label.error {
            _ if label.is_back => ", style=dotted, constraint=false",
            Some(_) => ", color=red",
            None if drawing.is_dashed(label.from, to) => ", style=dashed",
            None => "",
        };
        let (from, reported) = (label.from, quoted(&label.text()));
        text.extend([format!("  n{from} -> n{to} [label={reported}{style}];\n")]);
    }
    text + "}\n"
}

fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", text.replace('\n', "\\n"))
}
