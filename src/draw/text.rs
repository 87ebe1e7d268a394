//! Diagram for a terminal.

use super::{
    canvas::Canvas,
    diagram::Diagram,
    drawing::{BackEdges, Drawing, Look, Tone},
    escape::{ascii, visible},
    labels::broken,
    scene::Scene,
};

/// The columns of a diagram for nobody in particular.
pub const WIDTH: usize = 80;

/// Capabilities of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Maximum number of columns of a diagram.
    pub width: usize,
    /// Restricts diagrams to the characters of ASCII.
    pub ascii: bool,
    /// Enables colours.
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

/// Draws a diagram with characters, below a line with its name.
pub fn text(diagram: &Diagram, style: Style) -> String {
    let escape = if style.ascii { ascii } else { visible };
    let drawing = Drawing::new(diagram, escape, BackEdges::Boxes);
    let scene = Scene::new(drawing, style.width);
    let canvas = paint(&scene, style.ascii);
    let mut text = String::new();
    for part in broken(&scene.drawing.title, style.width) {
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
        for (index, (tone, text)) in it.lines.iter().enumerate() {
            canvas.text(it.x + 2, it.y + 1 + index, text, *tone);
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
        let (side, edge, corners) = match ascii {
            true => (':', '.', ['.'; 4]),
            false => ('╎', '╌', ['╭', '╮', '╰', '╯']),
        };
        for y in it.top + 1..it.bottom {
            canvas.mark(it.left, y, side, Tone::Level);
            canvas.mark(it.right, y, side, Tone::Level);
        }
        for (y, ends) in [(it.top, &corners[..2]), (it.bottom, &corners[2..])] {
            canvas.mark(it.left, y, ends[0], Tone::Level);
            canvas.mark(it.right, y, ends[1], Tone::Level);
            for x in it.left + 1..it.right {
                canvas.mark(x, y, edge, Tone::Level);
            }
        }
        canvas.text(it.title_x, it.top, &it.title, Tone::Level);
    }
    for it in &scene.texts {
        canvas.text(it.x, it.y, &it.text, it.tone);
    }
    canvas
}

fn write(text: &mut String, tone: Tone, part: &str, style: Style) {
    let part = match style.ascii {
        true => part.replace('×', "x").replace('→', ">").replace('↑', "^"),
        false => part.to_owned(),
    };
    let code = match tone {
        _ if !style.colour => "",
        Tone::Plain | Tone::Time => "",
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
