//! Diagram as SVG, in the layout of the terminal's.

use super::{
    escape::{width, xml},
    graph::{Drawing, Link, Look, Tone},
    scene::{Route, Scene, SceneBox, SceneFrame, SceneLabel},
};
use crate::pipeline::PipelineOutline;

/// The most columns of a diagram.
const WIDTH: usize = 140;

/// Pixels of a column and of a line; monospaced letters of [`FONT`] are narrower.
const COLUMN: usize = 8;
const LINE: usize = 18;
/// The pixels of the letters.
const FONT: usize = 13;
/// Pixels that the head of an arrow is long.
const HEAD: usize = 9;
/// Pixels around the diagram.
const MARGIN: usize = 16;

/// Colours and letters of diagrams, light and dark, for pages that have some.
pub const STYLE: &str = "\
.pipeline{--paper:#fff;--ink:#1f2328;--soft:#656d76;--wire:#8c959f;--end:#f6f8fa;--model:#ddf4ff;\
--model-edge:#54aeff;--custom:#fbefff;--custom-edge:#c297ff;--end-edge:#afb8c1;--level:#9a6700;\
--level-fill:#d4a72c;--fault:#cf222e;--fault-fill:#ffebe9;--mark:#0969da}\
@media (prefers-color-scheme:dark){.pipeline{--paper:#0d1117;--ink:#e6edf3;--soft:#8d96a0;\
--wire:#6e7681;--end:#161b22;--model:#0c2d6b;--model-edge:#388bfd;--custom:#3c1e70;\
--custom-edge:#a371f7;--end-edge:#484f58;--level:#d29922;--level-fill:#bb8009;--fault:#f85149;\
--fault-fill:#490202;--mark:#58a6ff}}\
.pipeline text{font-family:ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;\
fill:var(--ink);white-space:pre}\
.pipeline .paper{fill:var(--paper)}\
.pipeline .wire{fill:none;stroke:var(--wire);stroke-width:1.6}\
.pipeline .side .wire{stroke-dasharray:5 4}\
.pipeline .head{fill:var(--wire)}\
.pipeline .joint{fill:var(--wire)}\
.pipeline .node rect{stroke-width:1.4;fill:var(--end);stroke:var(--end-edge)}\
.pipeline .model rect{fill:var(--model);stroke:var(--model-edge)}\
.pipeline .custom rect{fill:var(--custom);stroke:var(--custom-edge)}\
.pipeline .ghost rect{fill:var(--fault-fill);stroke:var(--fault);stroke-dasharray:5 4}\
.pipeline .name{font-weight:600}\
.pipeline .detail{fill:var(--soft)}\
.pipeline .level{fill:var(--level)}\
.pipeline .fault{fill:var(--fault)}\
.pipeline .frame{fill:var(--level-fill);fill-opacity:.09;stroke:var(--level);stroke-dasharray:6 4;\
stroke-opacity:.7}\
.pipeline .title{fill:var(--level);font-weight:600}\
.pipeline .edge.on .wire{stroke:var(--mark);stroke-width:2.6}\
.pipeline .edge.on .head{fill:var(--mark)}\
.pipeline .node.on rect{stroke:var(--mark);stroke-width:2.4}\
";

/// Draws a pipeline as a document of its own, for light and dark surroundings.
#[must_use]
pub fn svg(outline: &PipelineOutline) -> String {
    document(&Drawing::new(outline))
}

/// Draws a document of its own.
pub(super) fn document(drawing: &Drawing) -> String {
    let namespace = " xmlns=\"http://www.w3.org/2000/svg\"";
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    text.push_str(&element(
        drawing,
        namespace,
        &format!("<style>{STYLE}</style>\n"),
    ));
    text
}

/// Draws an element that stands within another document, or is one.
pub(super) fn element(drawing: &Drawing, namespace: &str, style: &str) -> String {
    let scene = Scene::new(&drawing.graph, WIDTH);
    let what = drawing.what;
    let (across, down) = (
        scene.width * COLUMN + 2 * MARGIN,
        scene.height * LINE + 2 * MARGIN,
    );
    let name = xml(&drawing.name);
    let mut text = format!(
        "<svg{namespace} class=\"pipeline\" width=\"{across}\" height=\"{down}\" \
         viewBox=\"0 0 {across} {down}\" font-size=\"{FONT}\" role=\"img\" \
         aria-label=\"{what} {name}\">\n<title>{what} {name}</title>\n{style}\
         <rect class=\"paper\" width=\"{across}\" height=\"{down}\"/>\n\
         <g transform=\"translate({MARGIN} {MARGIN})\">\n"
    );
    let mut frames: Vec<&SceneFrame> = scene.frames.iter().collect();
    frames.sort_by_key(|frame| frame.left);
    text.extend(frames.iter().map(|it| frame(it)));
    text.extend(scene.routes.iter().map(|it| edge(drawing, it)));
    text.extend(joints(&scene));
    text.extend(scene.boxes.iter().map(node));
    text.extend(scene.labels.iter().map(label));
    text.extend(frames.iter().map(|it| title(it)));
    text.push_str("</g>\n</svg>\n");
    text
}

/// Returns the pixels of the middle of a column and of a line.
fn middle((column, line): (usize, usize)) -> (usize, usize) {
    (column * COLUMN + COLUMN / 2, line * LINE + LINE / 2)
}

/// Returns the pixels of the base of letters in a line.
fn base(line: usize) -> usize {
    line * LINE + LINE / 2 + 4
}

fn frame(frame: &SceneFrame) -> String {
    let (x, y) = middle((frame.left, frame.top));
    let (right, bottom) = middle((frame.right, frame.bottom));
    format!(
        "<rect class=\"frame\" x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n",
        right - x,
        bottom - y
    )
}

fn title(frame: &SceneFrame) -> String {
    let text = xml(frame.title.trim());
    let x = frame.title_x * COLUMN;
    let (across, top) = (width(&frame.title) * COLUMN, frame.top * LINE);
    format!(
        "<rect class=\"paper\" x=\"{x}\" y=\"{top}\" width=\"{across}\" height=\"{LINE}\" rx=\"4\"/>\
         <text class=\"title\" x=\"{}\" y=\"{}\">{text}</text>\n",
        x + COLUMN,
        base(frame.top)
    )
}

fn edge(drawing: &Drawing, route: &Route) -> String {
    let mut points: Vec<(usize, usize)> = route.points.iter().copied().map(middle).collect();
    let Some(end) = points.last_mut() else {
        return String::new();
    };
    // The head of the arrow ends at the border of the box, in the next line.
    let (x, tip) = (end.0, end.1 + LINE);
    end.1 = tip - HEAD;
    let reported: Vec<String> = drawing
        .reported
        .iter()
        .filter(|(from, to, _)| (*from, *to) == (route.from, route.to))
        .map(|(_, _, text)| text.clone())
        .collect();
    let link = Link {
        from: route.from,
        to: route.to,
    };
    let side = match drawing.dashed.contains(&link) {
        true => " side",
        false => "",
    };
    let reported = xml_lines(&reported);
    format!(
        "<g class=\"edge{side}\" data-from=\"{}\" data-to=\"{}\"><title>{reported}</title>\
         <path class=\"wire\" d=\"{}\"/>\
         <path class=\"head\" d=\"M{x} {tip}l-5 -{HEAD}h10z\"/></g>\n",
        route.from,
        route.to,
        path(&points)
    )
}

fn xml_lines(lines: &[String]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| xml(line)).collect();
    lines.join("\n")
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
        let turn = points
            .get(index + 1)
            .filter(|after| (before.0 == x) != (x == after.0) && (before.1 == y) != (y == after.1));
        let Some(&after) = turn else {
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

/// Marks where lines meet that go on in three directions.
fn joints(scene: &Scene) -> Vec<String> {
    let mut joints = Vec::new();
    for across in &scene.acrosses {
        for &column in &across.joints {
            let ends = column == across.left || column == across.right;
            let through = scene
                .downs
                .iter()
                .any(|(x, first, last)| *x == column && *first < across.y && *last > across.y);
            let from_above = |down: &&(usize, usize, usize)| down.0 == column && down.2 == across.y;
            let to_below = |down: &&(usize, usize, usize)| down.0 == column && down.1 == across.y;
            let both = scene.downs.iter().any(|it| from_above(&it))
                && scene.downs.iter().any(|it| to_below(&it));
            if !ends || through || both {
                let (x, y) = middle((column, across.y));
                joints.push(format!(
                    "<circle class=\"joint\" cx=\"{x}\" cy=\"{y}\" r=\"2.6\"/>\n"
                ));
            }
        }
    }
    joints
}

fn node(it: &SceneBox) -> String {
    let class = match it.look {
        Look::End | Look::Other => "end",
        Look::Model => "model",
        Look::Custom => "custom",
        Look::Ghost => "ghost",
    };
    let (x, y) = middle((it.x, it.y));
    let (across, down) = ((it.width - 1) * COLUMN, (it.height - 1) * LINE);
    let mut text = format!(
        "<g class=\"node {class}\" data-node=\"{}\">\
         <rect x=\"{x}\" y=\"{y}\" width=\"{across}\" height=\"{down}\" rx=\"6\"/>",
        it.node
    );
    for (index, line) in it.lines.iter().enumerate() {
        let (x, y) = ((it.x + 2) * COLUMN, base(it.y + 1 + index));
        text += &written(line.tone, (x, y), &line.text);
    }
    text.push_str("</g>\n");
    text
}

fn label(it: &SceneLabel) -> String {
    let mut text = format!("<g class=\"label\" data-node=\"{}\">", it.node);
    let mut column = it.x;
    for (is_tensor, span) in &it.spans {
        let tone = super::scene::tone(*is_tensor);
        if !span.trim().is_empty() {
            text += &written(tone, (column * COLUMN, base(it.y)), span);
        }
        column += width(span);
    }
    text.push_str("</g>\n");
    text
}

fn written(tone: Tone, (x, y): (usize, usize), text: &str) -> String {
    let class = match tone {
        Tone::Plain => "",
        Tone::Name => " class=\"name\"",
        Tone::Detail => " class=\"detail\"",
        Tone::Level => " class=\"level\"",
        Tone::Error => " class=\"fault\"",
    };
    format!("<text{class} x=\"{x}\" y=\"{y}\">{}</text>", xml(text))
}
