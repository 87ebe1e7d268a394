//! Reads a diagram as people do: from a box along its lines to the boxes below.

use std::collections::{BTreeSet, HashSet};

use crate::draw::{
    diagram::Diagram,
    drawing::{BackEdges, Drawing},
    escape::visible,
    layers::Layers,
    scene::Scene,
    text::{Style, WIDTH, text},
};

/// A pair of boxes, the upper one first.
type Pair = (usize, usize);

fn drawing(diagram: &Diagram) -> Drawing {
    Drawing::new(diagram, visible, BackEdges::Boxes)
}

/// Returns the pairs of boxes that lines connect.
pub(crate) fn seen(diagram: &Diagram) -> BTreeSet<Pair> {
    let image = text(diagram, Style::default());
    // Below the name of the pipeline and a blank line.
    let grid: Vec<Vec<char>> = image
        .lines()
        .skip(2)
        .map(|line| line.chars().collect())
        .collect();
    let at = |x: usize, y: usize| grid.get(y).and_then(|line| line.get(x)).copied();
    let scene = Scene::new(drawing(diagram), WIDTH);
    let mut pairs = BTreeSet::new();
    for it in &scene.boxes {
        let bottom = it.y + it.height - 1;
        let ports = (it.x..it.x + it.width).filter(|x| at(*x, bottom) == Some('┬'));
        let mut open: Vec<(usize, usize, char)> = ports.map(|x| (x, bottom + 1, 'd')).collect();
        let mut been = HashSet::new();
        while let Some((x, y, way)) = open.pop() {
            if !been.insert((x, y, way)) {
                continue;
            }
            let Some(character) = at(x, y) else { continue };
            if character == '▼' {
                let mut boxes = scene.boxes.iter();
                let below = boxes.find(|it| it.y == y + 1 && (it.x..it.x + it.width).contains(&x));
                pairs.insert((it.node, below.unwrap().node));
                continue;
            }
            let (down, left, right) = ways(character, way);
            for (goes, x, y, way) in [
                (down, x, y + 1, 'd'),
                (left, x.wrapping_sub(1), y, 'l'),
                (right, x + 1, y, 'r'),
            ] {
                if goes {
                    open.push((x, y, way));
                }
            }
        }
    }
    pairs
}

/// Returns whether a line goes on down, to the left, and to the right.
fn ways(character: char, way: char) -> (bool, bool, bool) {
    // A line that goes down is drawn over those that it crosses.
    if character == '│' || character == '─' {
        return (way == 'd', way == 'l', way == 'r');
    }
    let down = "╭╮├┤┬┼".contains(character);
    let left = "╮╯┤┬┴┼".contains(character) && way != 'r';
    let right = "╭╰├┬┴┼".contains(character) && way != 'l';
    (down, left, right)
}

/// Returns the pairs of boxes that are to be connected.
pub(crate) fn meant(diagram: &Diagram) -> BTreeSet<Pair> {
    let layers = Layers::new(&mut drawing(diagram), WIDTH);
    let chains = layers.chains.iter();
    chains.map(|(link, _)| (link.from, link.to)).collect()
}
