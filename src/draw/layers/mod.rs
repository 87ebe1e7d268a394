//! Rows with what fits into them: boxes with their labels, and the lines that pass them.

mod cell;

use std::collections::HashMap;

use self::cell::Cell;
use super::{
    drawing::{Drawing, Link},
    labels::Room,
    rows::{self, Row, places},
};

/// Columns between a box and what is beside it.
const GAP: usize = 2;

/// Columns that frames leave for the boxes in the innermost of them.
const ROOM: usize = 24;

/// The rows of a diagram.
#[derive(Debug)]
pub(super) struct Layers {
    pub(super) items: Vec<Item>,
    pub(super) rows: Vec<Layer>,
    /// Columns that each frame takes on either side.
    pub(super) gutter: usize,
    /// Links that are drawn, each with the items that its line goes through.
    pub(super) chains: Vec<(Link, Vec<usize>)>,
    /// Lines beside the frame of each level.
    passing: Vec<usize>,
}

/// A row.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) levels: Vec<usize>,
    /// Items from left to right, the innermost first.
    pub(super) items: Vec<usize>,
}

/// A box, or a line that passes the boxes of a row.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) what: What,
    /// Number of the levels of its row that it is within.
    pub(super) depth: usize,
    /// Neighbours in the row above and in the row below.
    pub(super) above: Vec<usize>,
    pub(super) below: Vec<usize>,
    pub(super) cell: Cell,
}

/// Kinds of items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Box(usize),
    Pass(Bundle),
}

/// Links that share their line where they pass rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Bundle {
    /// All links from a box.
    From(usize),
    /// All links to a box.
    To(usize),
}

impl Layers {
    /// Lays out rows of at most so many columns, with frames for as many levels as fit.
    pub(super) fn new(drawing: &mut Drawing, most: usize) -> Self {
        let depth = drawing.boxes.iter().map(|node| node.levels.len()).max();
        // A column on either side is the least that a frame takes.
        let mut frames = depth.unwrap_or(0).min(most.saturating_sub(ROOM) / 2);
        loop {
            let mut framed = drawing.with_frames(frames);
            let layers = Self::framed(&mut framed, most);
            if frames == 0 || layers.fits(most) {
                *drawing = framed;
                return layers;
            }
            frames = frames * 3 / 4;
        }
    }

    /// Returns whether the frames leave each row the columns that it needs.
    fn fits(&self, most: usize) -> bool {
        let mut rows = self.rows.iter().enumerate();
        rows.all(|(row, layer)| self.packed(row) + self.beside(&layer.levels) <= most)
    }

    fn framed(drawing: &mut Drawing, most: usize) -> Self {
        let mut rows = rows::rows(drawing);
        let degrees = degrees(drawing);
        let mut skipped: Vec<Link> = Vec::new();
        loop {
            let mut layers = Self::build(drawing, &degrees, &rows, &skipped);
            layers.name_sources(drawing, &rows, &skipped);
            let mut each = rows.iter().enumerate();
            match each.find_map(|(index, row)| layers.fit(drawing, index, row, most)) {
                None => return layers,
                Some(Change::Split(row, size)) => split(&mut rows, row, size),
                Some(Change::Skip(row, bundle)) => {
                    let place = places(&rows, drawing.boxes.len());
                    let passes = |link: &&Link| {
                        let is_between = place[link.from] < row && row < place[link.to];
                        is_between && !skipped.contains(link) && bundle_of(&degrees, link) == bundle
                    };
                    let links: Vec<Link> = drawing.links.iter().filter(passes).copied().collect();
                    skipped.extend(links);
                }
            }
        }
    }

    fn build(
        drawing: &Drawing,
        degrees: &[(usize, usize)],
        rows: &[Row],
        skipped: &[Link],
    ) -> Self {
        let is_deep = rows.iter().any(|row| row.levels.len() > 3);
        let mut layers = Self {
            items: Vec::new(),
            rows: Vec::new(),
            gutter: if is_deep { 1 } else { 2 },
            chains: Vec::new(),
            passing: vec![0; drawing.levels.len()],
        };
        let mut item_of = vec![0; drawing.boxes.len()];
        for row in rows {
            let mut items = Vec::new();
            for &node in &row.boxes {
                item_of[node] = layers.add(What::Box(node), row.levels.len());
                items.push(item_of[node]);
            }
            layers.rows.push(Layer {
                levels: row.levels.clone(),
                items,
            });
        }
        let place = places(rows, drawing.boxes.len());
        let mut passes: HashMap<(Bundle, usize), usize> = HashMap::new();
        for link in drawing.links.iter().filter(|link| !skipped.contains(link)) {
            let (from, to) = (place[link.from], place[link.to]);
            let bundle = bundle_of(degrees, link);
            let mut at = item_of[link.from];
            let mut chain = vec![at];
            for (row, passed) in rows.iter().enumerate().take(to).skip(from + 1) {
                let shared = |end: usize| common(&drawing.boxes[end].levels, &passed.levels);
                let depth = shared(link.from).max(shared(link.to));
                let pass = *passes.entry((bundle, row)).or_insert_with(|| {
                    let item = layers.add(What::Pass(bundle), depth);
                    layers.rows[row].items.push(item);
                    item
                });
                layers.connect(at, pass);
                chain.push(pass);
                at = pass;
            }
            layers.connect(at, item_of[link.to]);
            chain.push(item_of[link.to]);
            layers.chains.push((*link, chain));
        }
        layers.count_passing();
        layers
    }

    fn add(&mut self, what: What, depth: usize) -> usize {
        self.items.push(Item {
            what,
            depth,
            above: Vec::new(),
            below: Vec::new(),
            cell: Cell::default(),
        });
        self.items.len() - 1
    }

    fn connect(&mut self, from: usize, to: usize) {
        if !self.items[from].below.contains(&to) {
            self.items[from].below.push(to);
            self.items[to].above.push(from);
        }
    }

    fn count_passing(&mut self) {
        for row in &self.rows {
            for (depth, level) in row.levels.iter().enumerate() {
                let items = row.items.iter();
                let beside = items.filter(|item| self.items[**item].depth == depth);
                let passing = &mut self.passing[*level];
                *passing = (*passing).max(beside.count());
            }
        }
    }

    /// Adds the name of the source to labels whose box is not right above.
    fn name_sources(&self, drawing: &mut Drawing, rows: &[Row], skipped: &[Link]) {
        let place = places(rows, drawing.boxes.len());
        for to in 0..drawing.boxes.len() {
            let labels = &mut drawing.boxes[to].labels;
            let first = labels.first().map(|label| label.from);
            let several = labels.iter().any(|label| Some(label.from) != first);
            for label in labels {
                let from = label.from;
                label.is_named = several || place[from] + 1 != place[to];
                label.is_skipped = skipped.contains(&Link { from, to });
            }
        }
    }

    /// Returns the rows, from the first to the last or the other way round.
    pub(super) fn sweep(&self, down: bool) -> Vec<usize> {
        let rows = 0..self.rows.len();
        match down {
            true => rows.collect(),
            false => rows.rev().collect(),
        }
    }

    /// Returns the columns beside the innermost frame of a row: those of the frames, and of what
    /// passes them.
    pub(super) fn beside(&self, levels: &[usize]) -> usize {
        let right = levels.iter().map(|level| self.reserve(*level));
        right.sum::<usize>() + self.gutter * levels.len()
    }

    /// Returns the columns between the right sides of the frame of a level and of that around it.
    pub(super) fn reserve(&self, level: usize) -> usize {
        match self.passing[level] {
            0 => self.gutter,
            passing => self.gutter + 2 * passing,
        }
    }

    /// Makes the cells of a row, or returns what has to change for it to fit.
    fn fit(&mut self, drawing: &Drawing, index: usize, row: &Row, most: usize) -> Option<Change> {
        let levels = row.levels.len();
        let most = most.saturating_sub(self.beside(&row.levels)).max(8);
        let inner = |item: &&usize| self.items[**item].depth == levels;
        let lines = self.rows[index].items.iter().filter(inner).count() - row.boxes.len();
        let room = most.saturating_sub(2 * lines + lines.min(row.boxes.len() + 1));
        let packed = |cells: &[Cell]| -> usize {
            cells.iter().map(Cell::columns).sum::<usize>() + GAP * cells.len().saturating_sub(1)
        };
        for kind in [Room::Wide, Room::Narrow] {
            let boxes = row.boxes.iter();
            let cells = boxes.map(|node| Cell::new(drawing, *node, kind, usize::MAX));
            let cells: Vec<Cell> = cells.collect();
            if packed(&cells) <= room {
                self.set(index, cells);
                return None;
            }
            if kind == Room::Narrow && cells.len() > 1 {
                // Below the first of the new rows there are lines beside the boxes, and sources
                // that have to be named.
                let room = room.saturating_sub(6);
                let named = row.boxes.iter().map(|node| Cell::named(drawing, *node));
                let named: Vec<Cell> = named.collect();
                let mut fitting = 1;
                while fitting < cells.len() - 1 && packed(&named[..=fitting]) <= room {
                    fitting += 1;
                }
                let parts = cells.len().div_ceil(fitting);
                return Some(Change::Split(index, cells.len().div_ceil(parts)));
            }
        }
        let node = row.boxes[0];
        let outside = self.rows[index].items.len() - 1;
        if outside > 0 && room < Cell::least(drawing, node) {
            let passes = self.rows[index].items.iter();
            let passes = passes.filter_map(|item| match self.items[*item].what {
                What::Pass(bundle) => Some((self.length(bundle), bundle)),
                What::Box(_) => None,
            });
            if let Some((_, bundle)) = passes.max_by_key(|pass| pass.0) {
                return Some(Change::Skip(index, bundle));
            }
        }
        let cell = Cell::new(drawing, node, Room::Narrow, room);
        self.set(index, vec![cell]);
        None
    }

    /// Returns how many rows a bundle passes.
    fn length(&self, bundle: Bundle) -> usize {
        let items = self.items.iter();
        items.filter(|item| item.what == What::Pass(bundle)).count()
    }

    /// The boxes are the first items of their row.
    fn set(&mut self, row: usize, cells: Vec<Cell>) {
        for (item, cell) in self.rows[row].items.iter().zip(cells) {
            self.items[*item].cell = cell;
        }
    }

    /// Returns the columns that two neighbours need between their lines.
    pub(super) fn distance(&self, left: usize, right: usize) -> usize {
        let (left, right) = (&self.items[left], &self.items[right]);
        let lines = matches!((left.what, right.what), (What::Pass(_), What::Pass(_)));
        let gap = if lines { 1 } else { GAP };
        left.cell.right + right.cell.left + gap + 1
    }

    /// Returns the columns of a row without what is beside its innermost frame.
    pub(super) fn packed(&self, row: usize) -> usize {
        let layer = &self.rows[row];
        let inner = |item: &&usize| self.items[**item].depth == layer.levels.len();
        let items: Vec<usize> = layer.items.iter().filter(inner).copied().collect();
        let Some((first, last)) = items.first().zip(items.last()) else {
            return 0;
        };
        let between = items.windows(2).map(|pair| self.distance(pair[0], pair[1]));
        self.items[*first].cell.left + between.sum::<usize>() + self.items[*last].cell.right + 1
    }
}

/// Change that makes a row fit.
enum Change {
    /// A row into several with so many boxes.
    Split(usize, usize),
    /// No lines of a bundle that passes a row.
    Skip(usize, Bundle),
}

fn split(rows: &mut Vec<Row>, row: usize, size: usize) {
    let old = rows.remove(row);
    let parts = old.boxes.chunks(size).map(|boxes| Row {
        levels: old.levels.clone(),
        boxes: boxes.to_vec(),
    });
    let parts: Vec<Row> = parts.collect();
    rows.splice(row..row, parts);
}

/// Counts the links that come from each box, and those that lead to it.
fn degrees(drawing: &Drawing) -> Vec<(usize, usize)> {
    let mut degrees = vec![(0, 0); drawing.boxes.len()];
    for link in &drawing.links {
        degrees[link.from].0 += 1;
        degrees[link.to].1 += 1;
    }
    degrees
}

/// Links share the line from their source, or that to their target if that has more.
fn bundle_of(degrees: &[(usize, usize)], link: &Link) -> Bundle {
    match degrees[link.to].1 > degrees[link.from].0 {
        true => Bundle::To(link.to),
        false => Bundle::From(link.from),
    }
}

/// Counts the levels that two boxes or rows have in common.
pub(super) fn common(a: &[usize], b: &[usize]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
