//! Width of a box in a row, and its contents.

use crate::draw::{
    drawing::{Drawing, DrawnBox, Span},
    escape::width,
    labels::{self, Label, Room, broken},
};

/// Width of an item in a row, around the column of its line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::draw) struct Cell {
    /// Columns to the left and to the right of the line.
    pub(in crate::draw) left: usize,
    pub(in crate::draw) right: usize,
    /// Columns of the box, of which [`Cell::left`] are left of the line.
    pub(in crate::draw) width: usize,
    pub(in crate::draw) lines: Vec<Span>,
    /// Labels beside the line, above the box.
    pub(in crate::draw) labels: Vec<Vec<Span>>,
}

impl Cell {
    pub(super) fn new(drawing: &Drawing, node: usize, room: Room, most: usize) -> Self {
        let node = &drawing.boxes[node];
        Self::with(node, &node.labels, room, most)
    }

    /// Makes a narrow cell with labels that name their source.
    pub(super) fn named(drawing: &Drawing, node: usize) -> Self {
        let node = &drawing.boxes[node];
        let mut labels = node.labels.clone();
        for label in &mut labels {
            label.is_named = true;
        }
        Self::with(node, &labels, Room::Narrow, usize::MAX)
    }

    fn with(node: &DrawnBox, labels: &[Label], room: Room, most: usize) -> Self {
        let inner = most.saturating_sub(4).max(1);
        let lines = node.lines.iter();
        let texts = lines.flat_map(|(tone, text)| broken(text, inner).map(|text| (*tone, text)));
        let texts: Vec<Span> = texts.collect();
        let longest = texts.iter().map(|(_, text)| width(text)).max();
        let columns = longest.unwrap_or(0) + 4;
        let labels = labels::lines(labels, room, inner);
        let length = |line: &Vec<Span>| line.iter().map(|(_, text)| width(text)).sum::<usize>() + 1;
        let labelled = labels.iter().map(length).max().unwrap_or(0);
        // The line meets the middle of the box, or further left where labels need the room.
        let (mut left, mut right) = (columns / 2, labelled.max(columns - 1 - columns / 2));
        if left + right + 1 > most {
            left = most.saturating_sub(labelled + 1).clamp(2, left);
            right = labelled.max(columns - 1 - left);
        }
        Self {
            left,
            right,
            width: columns,
            lines: texts,
            labels,
        }
    }

    pub(super) fn columns(&self) -> usize {
        self.left + self.right + 1
    }

    /// Returns the columns below which a box's lines and labels are broken within a name.
    pub(super) fn least(drawing: &Drawing, node: usize) -> usize {
        let node = &drawing.boxes[node];
        let lines = node.lines.iter().map(|(_, text)| width(text) + 4);
        let labels = node.labels.iter().map(|label| {
            let (source, item) = (width(&label.source), width(&label.item) + 1);
            let (input, content) = (width(&label.input) + 2, width(&label.content) + 2);
            source.max(item).max(input).max(content) + 6
        });
        lines.chain(labels).max().unwrap_or(0)
    }
}
