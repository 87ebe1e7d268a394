//! Order of the items of each row, so that few lines cross.

use std::collections::HashMap;

use super::layers::{Layers, What};

/// Number of passes over the rows.
const SWEEPS: usize = 8;

/// Orders every row.
pub(super) fn order(layers: &mut Layers) {
    let mut place = vec![0; layers.items.len()];
    for row in 0..layers.rows.len() {
        sort(layers, row, &mut place, |_| None);
    }
    let mut best: Option<(usize, Vec<Vec<usize>>)> = None;
    for sweep in 0..SWEEPS {
        let crossings = crossings(layers, &place);
        if best.as_ref().is_none_or(|best| crossings < best.0) {
            let rows = layers.rows.iter().map(|row| row.items.clone());
            best = Some((crossings, rows.collect()));
        }
        let down = sweep % 2 == 0;
        for row in layers.sweep(down) {
            let items = layers.rows[row].items.iter();
            let means = items.filter_map(|item| Some((*item, mean(layers, &place, *item, down)?)));
            let means: HashMap<usize, usize> = means.collect();
            sort(layers, row, &mut place, |item| means.get(&item).copied());
        }
    }
    if let Some((_, rows)) = best {
        for (row, items) in layers.rows.iter_mut().zip(rows) {
            row.items = items;
        }
    }
}

/// Sorts a row by a measure; what has none keeps its place as far as that goes. What is deeper
/// stands to the left.
fn sort(
    layers: &mut Layers,
    row: usize,
    place: &mut [usize],
    measure: impl Fn(usize) -> Option<usize>,
) {
    let mut items = layers.rows[row].items.clone();
    items.sort_by_key(|item| {
        let depth = std::cmp::Reverse(layers.items[*item].depth);
        (depth, measure(*item).unwrap_or(place[*item] * SCALE))
    });
    for (index, item) in items.iter().enumerate() {
        place[*item] = index;
    }
    layers.rows[row].items = items;
}

/// Makes means whole numbers that differ where the means do.
const SCALE: usize = 1000;

fn mean(layers: &Layers, place: &[usize], item: usize, down: bool) -> Option<usize> {
    let item = &layers.items[item];
    let neighbours = if down { &item.above } else { &item.below };
    if neighbours.is_empty() {
        return None;
    }
    let sum: usize = neighbours.iter().map(|other| place[*other] * SCALE).sum();
    // A line that passes goes to the right of boxes that would stand in the same place.
    let after = usize::from(matches!(item.what, What::Pass(_)));
    Some(sum / neighbours.len() + after)
}

/// Counts the pairs of lines that cross.
fn crossings(layers: &Layers, place: &[usize]) -> usize {
    let mut count = 0;
    for row in &layers.rows {
        let items = row.items.iter();
        let lines = items.flat_map(|item| {
            let below = layers.items[*item].below.iter();
            below.map(|to| (place[*item], place[*to]))
        });
        let mut lines: Vec<(usize, usize)> = lines.collect();
        lines.sort_unstable();
        for (index, line) in lines.iter().enumerate() {
            let after = lines[index + 1..].iter();
            let crossing = after.filter(|other| other.0 > line.0 && other.1 < line.1);
            count += crossing.count();
        }
    }
    count
}
