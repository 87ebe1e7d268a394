//! Diagrams of graphs of calculators: from an [`GraphOutline`] to text in the same formats, by the same
//! layout, as those of pipelines.
//!
//! Streams are arrows, side packets dashed ones. What goes back is drawn as an arrow where a format
//! has a layout of its own; in the others a box says where it comes from.

mod json;

use super::{
    dot::write as write_dot,
    escape::{ascii, visible, xml},
    graph::{Drawing, Graph, Line, Link, Look, Node, Tone},
    html::{page, table},
    labels::Label,
    mermaid::write as write_mermaid,
    svg::{document, element},
    text::{Style, write_all},
};
use crate::graph::{GraphEdge, GraphNodeKind, GraphOutline, GraphOutlineNode, StreamEnd, Way};

pub use json::{GraphDiagram, json};

/// The name of the box for what comes from clients.
const REQUEST: &str = "request";
/// The name of the box for what clients get.
const RESPONSE: &str = "response";

/// Draws a graph with characters, below a line with its name.
#[must_use]
pub fn text(outline: &GraphOutline, style: Style) -> String {
    let mut drawing = drawing(outline, Backs::Boxes);
    if style.ascii {
        in_ascii(&mut drawing);
    }
    write_all(&drawing, style)
}

/// Writes a graph as one of Graphviz.
#[must_use]
pub fn dot(outline: &GraphOutline) -> String {
    write_dot(&drawing(outline, Backs::Arrows))
}

/// Writes a graph as a flow chart of Mermaid.
#[must_use]
pub fn mermaid(outline: &GraphOutline) -> String {
    write_mermaid(&drawing(outline, Backs::Arrows))
}

/// Draws a graph as a document of its own, for light and dark surroundings.
#[must_use]
pub fn svg(outline: &GraphOutline) -> String {
    document(&drawing(outline, Backs::Boxes))
}

/// Draws graphs on one page, with tables of their nodes and streams.
#[must_use]
pub fn html(outlines: &[GraphOutline], title: &str) -> String {
    page(title, |text| {
        for outline in outlines {
            text.extend([format!(
                "<section>\n<h2>{}</h2>\n<div class=\"picture\">\n{}</div>\n",
                xml(&outline.name),
                element(&drawing(outline, Backs::Boxes), "", "")
            )]);
            *text += &table("Nodes", &NODES, &nodes(outline));
            *text += &table("Streams and side packets", &EDGES, &edges(outline));
            *text += "</section>\n";
        }
    })
}

/// How streams that go back are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Backs {
    /// As arrows that the layout has nothing to do with.
    Arrows,
    /// As boxes that stand for where they come from.
    Boxes,
}

fn drawing(outline: &GraphOutline, backs: Backs) -> Drawing {
    let exit = outline.nodes.len() + 1;
    let line = |text: &str, tone| Line {
        text: visible(text),
        tone,
    };
    let end = |name: &str| Node {
        look: Look::End,
        lines: vec![line(name, Tone::Name)],
        levels: Vec::new(),
        labels: Vec::new(),
    };
    let mut boxes = vec![end(REQUEST)];
    boxes.extend(outline.nodes.iter().map(|node| Node {
        look: match (node.missing, node.kind) {
            (Some(_), _) => Look::Ghost,
            (None, GraphNodeKind::Python) => Look::Custom,
            (None, GraphNodeKind::Model) => Look::Model,
            (None, GraphNodeKind::Other) => Look::Other,
        },
        lines: lines(node),
        levels: Vec::new(),
        labels: Vec::new(),
    }));
    boxes.push(end(RESPONSE));
    let mut drawing = Drawing {
        what: "Graph",
        name: outline.name.clone(),
        graph: Graph {
            boxes,
            links: Vec::new(),
            levels: Vec::new(),
            exit,
        },
        reported: Vec::new(),
        dashed: Vec::new(),
        backs: Vec::new(),
    };
    for edge in &outline.edges {
        connect(&mut drawing, outline, edge, backs);
    }
    // A link is dashed if nothing but side packets goes over it.
    let ends = |edge: &GraphEdge| (at(edge.from, exit), at(edge.to, exit));
    drawing.dashed = drawing.graph.links.clone();
    drawing.dashed.retain(|link| {
        let all = outline
            .edges
            .iter()
            .filter(|edge| ends(edge) == (Some(link.from), Some(link.to)));
        let mut all = all.peekable();
        all.peek().is_some() && all.all(|edge| edge.way == Way::Side)
    });
    drawing.graph.straighten();
    drawing
}

/// Returns the box of a place.
fn at(place: StreamEnd, exit: usize) -> Option<usize> {
    match place {
        StreamEnd::Request => Some(0),
        StreamEnd::Node(index) => Some(index + 1),
        StreamEnd::Response => Some(exit),
        StreamEnd::Nobody => None,
    }
}

fn lines(node: &GraphOutlineNode) -> Vec<Line> {
    let mut lines = vec![(node.name.clone(), Tone::Name)];
    // One without a name has that of its calculator, with a number if there are several.
    let is_unnamed = node
        .name
        .strip_prefix(&*node.calculator)
        .is_some_and(|rest| {
            rest.trim_start_matches('_')
                .chars()
                .all(|c| c.is_ascii_digit())
        });
    if !is_unnamed {
        lines.push((node.calculator.clone(), Tone::Detail));
    }
    let kind = node.kind;
    lines.extend(node.runs.iter().map(|runs| match kind {
        GraphNodeKind::Python => (runs.clone(), Tone::Detail),
        _ => (format!("of {runs}"), Tone::Detail),
    }));
    lines.extend(
        node.missing
            .map(|missing| (missing.to_owned(), Tone::Error)),
    );
    // Who knows what it is knows the rest of the name.
    let handler = node.handler.iter().map(|name| {
        let short = name.strip_suffix("InputStreamHandler").unwrap_or(name);
        (format!("inputs: {short}"), Tone::Level)
    });
    lines.extend(handler);
    let shown = lines.into_iter().map(|(text, tone)| Line {
        text: visible(&text),
        tone,
    });
    shown.collect()
}

fn connect(drawing: &mut Drawing, outline: &GraphOutline, edge: &GraphEdge, backs: Backs) {
    let exit = drawing.graph.exit;
    let Some(to) = at(edge.to, exit) else { return };
    let reported = format!("{} → {}", edge.name, edge.input);
    let from = match at(edge.from, exit) {
        // One that feeds itself says so, which is clearer than a box beside it.
        Some(from) if edge.way == Way::Back => {
            match backs {
                Backs::Arrows => drawing.backs.push((from, to, visible(&reported))),
                Backs::Boxes if from == to => {
                    drawing.graph.boxes[to].lines.push(Line {
                        text: visible(&format!("back edge {reported}")),
                        tone: Tone::Level,
                    });
                }
                Backs::Boxes => {
                    let name = name(outline, edge.from);
                    let stand_in = stand_in(drawing, &name, "see below: a back edge", Look::Other);
                    label(drawing, edge, stand_in, &name, to);
                }
            }
            return;
        }
        Some(from) => from,
        None => stand_in(drawing, &edge.name, "nobody sends it", Look::Ghost),
    };
    let link = Link { from, to };
    if !drawing.graph.links.contains(&link) {
        drawing.graph.links.push(link);
    }
    let source = match edge.from {
        StreamEnd::Nobody => edge.name.clone(),
        place => name(outline, place),
    };
    let target = name(outline, edge.to);
    drawing.reported.push((
        from,
        to,
        format!("{source}.{} → {target}.{}", edge.name, edge.input),
    ));
    label(drawing, edge, from, &source, to);
}

/// Adds a box for something that is not there, or not above.
fn stand_in(drawing: &mut Drawing, name: &str, why: &str, look: Look) -> usize {
    let tone = match look {
        Look::Ghost => Tone::Error,
        _ => Tone::Level,
    };
    let line = |text: &str| Line {
        text: visible(text),
        tone,
    };
    drawing.graph.boxes.push(Node {
        look,
        lines: vec![line(name), line(why)],
        levels: Vec::new(),
        labels: Vec::new(),
    });
    drawing.graph.boxes.len() - 1
}

fn label(drawing: &mut Drawing, edge: &GraphEdge, from: usize, source: &str, to: usize) {
    let link = Link { from, to };
    if !drawing.graph.links.contains(&link) {
        drawing.graph.links.push(link);
    }
    let mut carries = edge.carries.clone().unwrap_or_default();
    if edge.way == Way::Side {
        let comma = if carries.is_empty() { "" } else { ", " };
        carries = format!("side packet{comma}{carries}");
    }
    drawing.graph.boxes[to].labels.push(Label {
        from,
        source: visible(source),
        item: visible(&edge.name),
        input: visible(match edge.input.as_str() {
            "" => edge.name.as_str(),
            input => input,
        }),
        tensor: carries,
        error: None,
        is_named: false,
        is_skipped: false,
    });
}

fn name(outline: &GraphOutline, place: StreamEnd) -> String {
    match place {
        StreamEnd::Request => REQUEST.to_owned(),
        StreamEnd::Node(index) => outline.nodes[index].name.clone(),
        StreamEnd::Response => RESPONSE.to_owned(),
        StreamEnd::Nobody => String::new(),
    }
}

fn in_ascii(drawing: &mut Drawing) {
    drawing.name = ascii(&drawing.name);
    for node in &mut drawing.graph.boxes {
        for line in &mut node.lines {
            line.text = ascii(&line.text.replace('→', ">"));
        }
        for label in &mut node.labels {
            for text in [&mut label.source, &mut label.item, &mut label.input] {
                *text = ascii(text);
            }
        }
    }
}

const NODES: [&str; 5] = [
    "node",
    "calculator",
    "runs",
    "input stream handler",
    "missing",
];

fn nodes(outline: &GraphOutline) -> Vec<Vec<String>> {
    let rows = outline.nodes.iter().map(|node| {
        vec![
            node.name.clone(),
            node.calculator.clone(),
            node.runs.clone().unwrap_or_default(),
            node.handler.clone().unwrap_or_default(),
            node.missing.unwrap_or_default().to_owned(),
        ]
    });
    rows.collect()
}

const EDGES: [&str; 7] = ["name", "what", "from", "tag", "to", "tag", "carries"];

fn edges(outline: &GraphOutline) -> Vec<Vec<String>> {
    let rows = outline.edges.iter().map(|edge| {
        vec![
            edge.name.clone(),
            match edge.way {
                Way::Stream => "stream",
                Way::Back => "stream, back edge",
                Way::Side => "side packet",
            }
            .to_owned(),
            match edge.from {
                StreamEnd::Nobody => "(nobody)".to_owned(),
                place => name(outline, place),
            },
            edge.output.clone(),
            name(outline, edge.to),
            edge.input.clone(),
            edge.carries.clone().unwrap_or_default(),
        ]
    });
    rows.collect()
}

#[cfg(test)]
mod tests;
