//! Columns of boxes, lines, and frames.

use super::layers::Layers;

/// Number of passes over the rows.
const SWEEPS: usize = 12;

/// Columns that are not needed, so that boxes can stand in the middle of what they belong to.
const SLACK: usize = 6;

/// The columns of a diagram.
#[derive(Debug)]
pub(super) struct Columns {
    /// The column of each item's line.
    pub(super) line: Vec<usize>,
    /// The left and right side of the frame of each level that has boxes.
    pub(super) frames: Vec<Option<(usize, usize)>>,
    /// Number of columns.
    pub(super) width: usize,
}

/// Gives each item a column, of at most so many; frames are to be as wide as their titles.
pub(super) fn place(layers: &Layers, titles: &[usize], most: usize) -> Columns {
    let needed = |row: usize| {
        let levels = &layers.rows[row].levels;
        // A frame is as wide as its title, at least.
        let title = levels.last().map_or(0, |level| titles[*level] + 2);
        layers.packed(row).max(title) + layers.beside(levels)
    };
    let needed = (0..layers.rows.len()).map(needed).max().unwrap_or(0);
    let width = (needed + SLACK).min(most);
    let mut columns = Columns {
        line: vec![0; layers.items.len()],
        frames: vec![None; titles.len()],
        width,
    };
    for row in &layers.rows {
        let mut right = width;
        for (depth, level) in row.levels.iter().enumerate() {
            right = right.saturating_sub(layers.reserve(*level));
            let (left, right) = (depth * layers.gutter, right + layers.gutter - 1);
            columns.frames[*level] = (left < right).then_some((left, right));
        }
    }
    for sweep in 0..SWEEPS {
        let down = sweep % 2 == 1;
        for row in layers.sweep(down) {
            columns.row(layers, row, sweep, down);
        }
    }
    columns
}

impl Columns {
    /// Moves the items of a row to where they are wanted, as far as they have room.
    fn row(&mut self, layers: &Layers, row: usize, sweep: usize, down: bool) {
        let items = &layers.rows[row].items;
        let mut from_first = 0;
        let mut wanted = Vec::with_capacity(items.len());
        let mut offsets = Vec::with_capacity(items.len());
        for (index, &item) in items.iter().enumerate() {
            if index > 0 {
                from_first += layers.distance(items[index - 1], item);
            }
            offsets.push(from_first);
            wanted.push(self.wanted(layers, item, sweep, down) - signed(from_first));
        }
        let fitted = isotonic(&wanted);
        let mut least = 0;
        let mut placed: Vec<usize> = Vec::with_capacity(items.len());
        for (index, &item) in items.iter().enumerate() {
            let (low, _) = self.bounds(layers, row, item);
            let at = (fitted[index] + signed(offsets[index])).max(signed(low.max(least)));
            let at = usize::try_from(at).unwrap_or(0);
            placed.push(at);
            if let Some(next) = items.get(index + 1) {
                least = at + layers.distance(item, *next);
            }
        }
        let mut most = usize::MAX;
        for (index, &item) in items.iter().enumerate().rev() {
            let (_, high) = self.bounds(layers, row, item);
            placed[index] = placed[index].min(high).min(most);
            if index > 0 {
                most = placed[index].saturating_sub(layers.distance(items[index - 1], item));
            }
        }
        for (item, at) in items.iter().zip(placed) {
            self.line[*item] = at;
        }
    }

    /// Returns the columns that the line of an item may have.
    fn bounds(&self, layers: &Layers, row: usize, item: usize) -> (usize, usize) {
        let levels = &layers.rows[row].levels;
        let item = &layers.items[item];
        let right = |level: &usize| self.frames[*level].map_or(self.width, |frame| frame.1);
        let around = item.depth.checked_sub(1).and_then(|at| levels.get(at));
        let inside = around.map_or(self.width, |level| right(level) + 1 - layers.gutter);
        let high = inside.saturating_sub(1 + item.cell.right);
        let low = match levels.get(item.depth) {
            Some(beside) => right(beside) + 2,
            None => item.depth * layers.gutter,
        };
        (low + item.cell.left, high)
    }

    fn wanted(&self, layers: &Layers, item: usize, sweep: usize, down: bool) -> isize {
        let it = &layers.items[item];
        let neighbours = if down { &it.above } else { &it.below };
        let sum: usize = neighbours.iter().map(|other| self.line[*other]).sum();
        signed(match neighbours.len() {
            0 if sweep == 0 => self.width / 2,
            0 => self.line[item],
            number => sum / number,
        })
    }
}

fn signed(column: usize) -> isize {
    isize::try_from(column).unwrap_or(isize::MAX)
}

/// Returns numbers that do not fall and are as near to the given ones as such numbers can be.
fn isotonic(numbers: &[isize]) -> Vec<isize> {
    let mut pools: Vec<(isize, isize)> = Vec::new();
    for number in numbers {
        pools.push((*number, 1));
        while let [.., (a, n), (b, m)] = pools[..]
            && a.div_euclid(n) > b.div_euclid(m)
        {
            pools.truncate(pools.len() - 2);
            pools.push((a + b, n + m));
        }
    }
    let fitted = pools.into_iter();
    fitted
        .flat_map(|(sum, count)| (0..count).map(move |_| sum.div_euclid(count)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::isotonic;

    #[test]
    fn what_would_overlap_meets_in_the_middle() {
        assert_eq!(isotonic(&[1, 2, 3]), [1, 2, 3]);
        assert_eq!(isotonic(&[5, 1]), [3, 3]);
        assert_eq!(isotonic(&[0, 9, 6, 3, 10]), [0, 6, 6, 6, 10]);
    }
}
