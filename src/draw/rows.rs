//! Assignment of boxes to rows. Rows of a level have none of other levels between them, so that
//! a frame fits around them.

use super::drawing::Drawing;
use crate::order::topological;

/// Boxes beside each other, all of the same levels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// The levels, outermost first.
    pub(super) levels: Vec<usize>,
    pub(super) boxes: Vec<usize>,
}

/// Returns the rows from top to bottom. Links that would go up are detached.
pub(super) fn rows(drawing: &mut Drawing) -> Vec<Row> {
    loop {
        let rows = level(drawing, &[]);
        let row_of = places(&rows, drawing.boxes.len());
        let mut links = drawing.links.iter();
        let up = links.find(|link| row_of[link.from] >= row_of[link.to]);
        // Each turn takes a link away and adds one from a box without any above it.
        match up.copied() {
            Some(link) => drawing.detach(link),
            None => return rows,
        }
    }
}

/// Returns the row of each box.
pub(super) fn places(rows: &[Row], boxes: usize) -> Vec<usize> {
    let mut places = vec![0; boxes];
    for (index, row) in rows.iter().enumerate() {
        for &node in &row.boxes {
            places[node] = index;
        }
    }
    places
}

/// Returns the rows of a level: its own boxes, and those of each level in it as one.
fn level(drawing: &Drawing, stack: &[usize]) -> Vec<Row> {
    let within = |node: &usize| drawing.boxes[*node].levels.starts_with(stack);
    let nodes: Vec<usize> = (0..drawing.boxes.len()).filter(within).collect();
    // What stands for a box here: itself, or the level in this one that it belongs to.
    let inner = |node: usize| drawing.boxes[node].levels.get(stack.len()).copied();
    let mut items: Vec<(Option<usize>, usize)> = Vec::new();
    let mut item_of = vec![usize::MAX; drawing.boxes.len()];
    for &node in &nodes {
        let level = inner(node);
        let known = items
            .iter()
            .position(|item| level.is_some() && item.0 == level);
        item_of[node] = known.unwrap_or_else(|| {
            items.push((level, node));
            items.len() - 1
        });
    }
    let ranks = ranks(drawing, &nodes, &item_of, items.len());
    let last = ranks.iter().max().copied().unwrap_or(0);
    let mut rows = Vec::new();
    for rank in 0..=last {
        let here = || (0..items.len()).filter(|item| ranks[*item] == rank);
        let boxes = here().filter(|item| items[*item].0.is_none());
        let boxes: Vec<usize> = boxes.map(|item| items[item].1).collect();
        if !boxes.is_empty() {
            let levels = stack.to_vec();
            rows.push(Row { levels, boxes });
        }
        for inner in here().filter_map(|item| items[item].0) {
            rows.extend(level(drawing, &[stack, &[inner]].concat()));
        }
    }
    rows
}

/// Returns the rank of each item: one more than the highest of those above it.
fn ranks(drawing: &Drawing, nodes: &[usize], item_of: &[usize], count: usize) -> Vec<usize> {
    let mut below = vec![Vec::new(); count];
    for link in &drawing.links {
        let (from, to) = (item_of[link.from], item_of[link.to]);
        if from != usize::MAX && to != usize::MAX && from != to {
            below[from].push(to);
        }
    }
    let mut ranks = vec![0_usize; count];
    let order = topological(&below, |_| Vec::new());
    for &item in &order {
        for &to in &below[item] {
            ranks[to] = ranks[to].max(ranks[item] + 1);
        }
    }
    // What has nothing above it, except the request, stands right above what it is for.
    for &item in order.iter().rev() {
        let is_start = nodes.iter().any(|&node| node == 0 && item_of[node] == item);
        let has_above = below.iter().any(|below| below.contains(&item));
        if !is_start && !has_above {
            let lowest = below[item].iter().map(|to| ranks[*to]).min();
            ranks[item] = lowest.map_or(1, |rank| rank.saturating_sub(1));
        }
    }
    let exit = item_of[drawing.exit];
    if exit != usize::MAX {
        let deepest = ranks.iter().max().copied().unwrap_or(0);
        let others = (0..count).any(|item| item != exit && ranks[item] == deepest);
        ranks[exit] = deepest + usize::from(others);
    }
    ranks
}
