//! Diagram for a terminal.

use super::{
    canvas::Canvas,
    escape::{ascii, visible},
    graph::{Drawing, Look, Tone},
    scene::{Scene, tone},
};
use crate::pipeline::{PipelineNodeKind, PipelineOutline};

/// The columns of a diagram for nobody in particular.
pub const WIDTH: usize = 80;

/// Capabilities of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// The most columns of a diagram.
    pub width: usize,
    /// Whether there are only the characters of ASCII.
    pub ascii: bool,
    /// Whether there are colours.
    pub colour: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self {
            width: WIDTH,
            ascii: false,
            colour: false,
        }
    }
}

/// Draws a pipeline with characters, below a line with its name.
#[must_use]
pub fn text(outline: &PipelineOutline, style: Style) -> String {
    let named;
    let outline = if style.ascii {
        named = in_ascii(outline);
        &named
    } else {
        outline
    };
    write_all(&Drawing::new(outline), style)
}

/// Draws with characters.
pub(super) fn write_all(drawing: &Drawing, style: Style) -> String {
    let scene = Scene::new(&drawing.graph, style.width);
    let canvas = paint(&scene, style.ascii);
    let mut text = String::new();
    let title = format!("{} {}", drawing.what, visible(&drawing.name));
    for part in super::labels::broken(&title, style.width) {
        write(&mut text, Tone::Name, &part, style);
        text.push('\n');
    }
    text.push('\n');
    for line in canvas.lines(style.ascii) {
        for (tone, part) in line {
            write(&mut text, tone, &part, style);
        }
        text.push('\n');
    }
    text
}

fn paint(scene: &Scene, ascii: bool) -> Canvas {
    let mut canvas = Canvas::new(scene.width, scene.height);
    for it in &scene.boxes {
        let tone = match it.look {
            Look::Ghost => Tone::Error,
            _ => Tone::Plain,
        };
        canvas.border((it.x, it.y), it.width, it.height, tone);
        for (index, line) in it.lines.iter().enumerate() {
            canvas.text(it.x + 2, it.y + 1 + index, &line.text, line.tone);
        }
    }
    for &(x, first, last) in &scene.downs {
        canvas.down(x, first, last);
    }
    for it in &scene.acrosses {
        canvas.across(it.y, it.left, it.right, &it.joints);
    }
    let head = if ascii { 'v' } else { '▼' };
    for &(x, y) in &scene.heads {
        canvas.text(x, y, head.encode_utf8(&mut [0; 4]), Tone::Plain);
    }
    for it in &scene.frames {
        let [side, edge, corners] = if ascii {
            [":", ".", "...."]
        } else {
            ["╎", "╌", "╭╮╰╯"]
        };
        let first = |text: &str| text.chars().next().unwrap_or(' ');
        let corners: Vec<char> = corners.chars().collect();
        for y in it.top + 1..it.bottom {
            canvas.mark(it.left, y, first(side), Tone::Level);
            canvas.mark(it.right, y, first(side), Tone::Level);
        }
        for (y, ends) in [(it.top, &corners[..2]), (it.bottom, &corners[2..])] {
            canvas.mark(it.left, y, ends[0], Tone::Level);
            canvas.mark(it.right, y, ends[1], Tone::Level);
            for x in it.left + 1..it.right {
                canvas.mark(x, y, first(edge), Tone::Level);
            }
        }
        canvas.text(it.title_x, it.top, &it.title, Tone::Level);
    }
    for label in &scene.labels {
        let mut x = label.x;
        for (is_tensor, text) in &label.spans {
            canvas.text(x, label.y, text, tone(*is_tensor));
            x += super::escape::width(text);
        }
    }
    canvas
}

fn write(text: &mut String, tone: Tone, part: &str, style: Style) {
    let part = if style.ascii {
        part.replace('×', "x").replace('→', ">").replace('↑', "^")
    } else {
        part.to_owned()
    };
    let code = match tone {
        _ if !style.colour => "",
        Tone::Plain => "",
        Tone::Name => "1",
        Tone::Detail => "2",
        Tone::Level => "33",
        Tone::Error => "31",
    };
    if code.is_empty() || part.trim().is_empty() {
        text.push_str(&part);
    } else {
        text.extend(["\u{1b}[", code, "m", &part, "\u{1b}[0m"]);
    }
}

/// Returns the same with names in ASCII.
fn in_ascii(outline: &PipelineOutline) -> PipelineOutline {
    let mut named = outline.clone();
    let mut names = vec![&mut named.name];
    for node in &mut named.nodes {
        names.push(&mut node.name);
        match &mut node.kind {
            PipelineNodeKind::Model { name, .. } => names.push(name),
            PipelineNodeKind::Custom { library, .. } => names.push(library),
            PipelineNodeKind::Entry | PipelineNodeKind::Exit => {}
        }
        names.extend(&mut node.gathers);
        let ports = node.inputs.iter_mut().chain(&mut node.outputs);
        names.extend(ports.map(|port| &mut port.name));
    }
    for edge in &mut named.edges {
        names.extend([&mut edge.item, &mut edge.input]);
    }
    for edge in &mut named.dangling {
        names.extend([&mut edge.source, &mut edge.item, &mut edge.input]);
    }
    for name in names {
        *name = ascii(name);
    }
    named
}
