//! Diagram as SVG, in the layout of the terminal's.

use askama::Template;

use super::{
    diagram::Diagram,
    drawing::{BackEdges, Drawing, Look, Tone},
    escape::{visible, width, xml_lines},
    scene::{Route, Scene},
};

/// Maximum number of columns of a diagram.
const MAX_COLUMNS: usize = 140;

/// Pixels of a column and of a line; monospaced letters are narrower.
const COLUMN: usize = 8;
const LINE: usize = 18;
/// Pixels from the top of a line to the base of its letters.
const BASE: usize = LINE / 2 + 4;
/// Pixels that the head of an arrow is long.
const HEAD: usize = 9;
/// Pixels around the diagram.
const MARGIN: usize = 16;

/// Colours and letters of diagrams, light and dark, for pages that have some.
pub const STYLE: &str = include_str!("diagram.css");

/// Draws a diagram as a document of its own, for light and dark surroundings.
pub fn svg(diagram: &Diagram) -> String {
    document(Drawing::new(diagram, visible, BackEdges::Boxes))
}

/// Draws a diagram as [`svg`] does, with an empty line (class `time`) in each node, for its time.
pub fn svg_with_times(diagram: &Diagram) -> String {
    document(Drawing::new(diagram, visible, BackEdges::Boxes).with_times(diagram))
}

fn document(drawing: Drawing) -> String {
    let element = SvgElement::of(drawing, true);
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{element}\n")
}

/// Element that stands within another document, or is one.
#[derive(Template)]
#[template(path = "diagram.svg")]
pub(super) struct SvgElement {
    scene: Scene,
    is_document: bool,
    width: usize,
    height: usize,
}

/// Arrow of a link, in pixels.
struct Arrow {
    from: usize,
    to: usize,
    title: String,
    is_dashed: bool,
    path: String,
    /// Column and line of the tip of its head.
    x: usize,
    tip: usize,
}

impl SvgElement {
    /// Lays out a diagram for a page that has its style.
    pub(super) fn within(diagram: &Diagram) -> Self {
        Self::of(Drawing::new(diagram, visible, BackEdges::Boxes), false)
    }

    fn of(drawing: Drawing, is_document: bool) -> Self {
        let mut scene = Scene::new(drawing, MAX_COLUMNS);
        scene.frames.sort_by_key(|frame| frame.left);
        Self {
            width: scene.width * COLUMN + 2 * MARGIN,
            height: scene.height * LINE + 2 * MARGIN,
            scene,
            is_document,
        }
    }

    fn arrows(&self) -> impl Iterator<Item = Arrow> {
        let routes = self.scene.routes.iter();
        routes.filter_map(|Route { from, to, points }| {
            let mut points: Vec<(usize, usize)> = points.iter().copied().map(middle).collect();
            let end = points.last_mut()?;
            // The head of the arrow ends at the border of the box, in the next line.
            let (x, tip) = (end.0, end.1 + LINE);
            end.1 = tip - HEAD;
            Some(Arrow {
                from: *from,
                to: *to,
                title: self.scene.drawing.connections(*from, *to),
                is_dashed: self.scene.drawing.is_dashed(*from, *to),
                path: path(&points),
                x,
                tip,
            })
        })
    }

    /// Marks where lines meet that go on in three directions.
    fn joints(&self) -> Vec<(usize, usize)> {
        let mut joints = Vec::new();
        for across in &self.scene.acrosses {
            for &column in &across.joints {
                let downs = || self.scene.downs.iter().filter(|down| down.0 == column);
                let above = downs().any(|down| down.1 < across.y && across.y <= down.2);
                let below = downs().any(|down| down.1 <= across.y && across.y < down.2);
                let is_end = column == across.left || column == across.right;
                if !is_end || (above && below) {
                    joints.push(middle((column, across.y)));
                }
            }
        }
        joints
    }
}

impl Look {
    fn class(self) -> &'static str {
        match self {
            Self::End | Self::Other => "end",
            Self::Model => "model",
            Self::Custom => "custom",
            Self::Ghost => "ghost",
        }
    }
}

impl Tone {
    fn class(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Name => "name",
            Self::Detail => "detail",
            Self::Level => "level",
            Self::Error => "error",
            Self::Time => "time",
        }
    }
}

/// Returns the pixels of the middle of a column and of a line.
fn middle((column, line): (usize, usize)) -> (usize, usize) {
    (column * COLUMN + COLUMN / 2, line * LINE + LINE / 2)
}

/// Writes a line with round corners.
fn path(points: &[(usize, usize)]) -> String {
    const ROUND: usize = 6;
    let Some(start) = points.first() else {
        return String::new();
    };
    let mut path = format!("M{} {}", start.0, start.1);
    for (index, &(x, y)) in points.iter().enumerate().skip(1) {
        let before = points[index - 1];
        let turns = |after: &&(usize, usize)| {
            (before.0 == x) != (x == after.0) && (before.1 == y) != (y == after.1)
        };
        let Some(&after) = points.get(index + 1).filter(turns) else {
            path.extend([format!("L{x} {y}")]);
            continue;
        };
        let near = |other: (usize, usize)| {
            let step = |from: usize, to: usize| match from.abs_diff(to) / 2 {
                0 => from,
                most if to > from => from + ROUND.min(most),
                most => from - ROUND.min(most),
            };
            (step(x, other.0), step(y, other.1))
        };
        let (a, b) = (near(before), near(after));
        path.extend([format!("L{} {}Q{x} {y} {} {}", a.0, a.1, b.0, b.1)]);
    }
    path
}
