//! Characters in a grid, of which lines that meet become one.

use super::{drawing::Tone, escape::width};

const UP: u8 = 1;
const DOWN: u8 = 2;
const LEFT: u8 = 4;
const RIGHT: u8 = 8;

/// Characters for lines that meet, by the sum of their directions.
const ROUND: [char; 16] = [
    ' ', '│', '│', '│', '─', '╯', '╮', '┤', '─', '╰', '╭', '├', '─', '┴', '┬', '┼',
];
const SHARP: [char; 16] = [
    ' ', '│', '│', '│', '─', '┘', '┐', '┤', '─', '└', '┌', '├', '─', '┴', '┬', '┼',
];
const ASCII: [char; 16] = [
    ' ', '|', '|', '|', '-', '+', '+', '+', '-', '+', '+', '+', '-', '+', '+', '+',
];

/// A grid.
#[derive(Debug)]
pub(super) struct Canvas {
    columns: usize,
    cells: Vec<Cell>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    /// `None` if there are lines or nothing, and where a wide character reaches.
    character: Option<char>,
    is_covered: bool,
    lines: u8,
    is_box: bool,
    tone: Tone,
}

impl Canvas {
    /// Makes an empty grid.
    pub(super) fn new(columns: usize, lines: usize) -> Self {
        Self {
            columns,
            cells: vec![Cell::default(); columns * lines],
        }
    }

    fn cell(&mut self, x: usize, y: usize) -> Option<&mut Cell> {
        if x >= self.columns {
            return None;
        }
        self.cells.get_mut(y * self.columns + x)
    }

    fn join(&mut self, x: usize, y: usize, lines: u8) {
        if let Some(cell) = self.cell(x, y) {
            cell.lines |= lines;
        }
    }

    /// Draws a border.
    pub(super) fn border(
        &mut self,
        (x, y): (usize, usize),
        width: usize,
        height: usize,
        tone: Tone,
    ) {
        let (right, bottom) = (x + width - 1, y + height - 1);
        for line in [y, bottom] {
            self.across(line, x, right, &[]);
        }
        for column in [x, right] {
            self.down(column, y, bottom);
        }
        let edges = (x..=right).flat_map(|x| [(x, y), (x, bottom)]);
        let sides = (y..=bottom).flat_map(|y| [(x, y), (right, y)]);
        for (x, y) in edges.chain(sides) {
            if let Some(cell) = self.cell(x, y) {
                (cell.is_box, cell.tone) = (true, tone);
            }
        }
    }

    /// Draws a line that goes down.
    pub(super) fn down(&mut self, x: usize, first: usize, last: usize) {
        for y in first..=last {
            let up = if y > first { UP } else { 0 };
            let down = if y < last { DOWN } else { 0 };
            self.join(x, y, up | down);
        }
    }

    /// Draws a line from left to right, below those that go down and do not meet it.
    pub(super) fn across(&mut self, y: usize, left: usize, right: usize, joints: &[usize]) {
        for x in left..=right {
            let to_left = if x > left { LEFT } else { 0 };
            let to_right = if x < right { RIGHT } else { 0 };
            let lines = self.cell(x, y).map_or(0, |cell| cell.lines);
            if lines & (UP | DOWN) == 0 || joints.contains(&x) {
                self.join(x, y, to_left | to_right);
            }
        }
    }

    /// Writes a character where there are no lines.
    pub(super) fn mark(&mut self, x: usize, y: usize, character: char, tone: Tone) {
        if let Some(cell) = self.cell(x, y)
            && cell.lines == 0
        {
            (cell.character, cell.tone) = (Some(character), tone);
        }
    }

    /// Writes text over whatever is there.
    pub(super) fn text(&mut self, mut x: usize, y: usize, text: &str, tone: Tone) {
        for character in text.chars() {
            let wide = width(character.encode_utf8(&mut [0; 4]));
            for covered in 0..wide {
                if let Some(cell) = self.cell(x + covered, y) {
                    cell.character = Some(character);
                    cell.is_covered = covered > 0;
                    cell.tone = tone;
                }
            }
            x += wide;
        }
    }

    /// Returns each line as texts of one tone, without blanks at its end.
    pub(super) fn lines(&self, ascii: bool) -> impl Iterator<Item = Vec<(Tone, String)>> {
        let rows = self.cells.chunks(self.columns.max(1));
        rows.map(move |row| {
            let mut spans: Vec<(Tone, String)> = Vec::new();
            let used = row.iter().rposition(|cell| !cell.is_blank());
            let used = &row[..used.map_or(0, |last| last + 1)];
            for cell in used.iter().filter(|cell| !cell.is_covered) {
                let line = || line(cell.lines, cell.is_box, ascii);
                let character = cell.character.unwrap_or_else(line);
                match spans.last_mut() {
                    Some((tone, text)) if *tone == cell.tone => text.push(character),
                    _ => spans.push((cell.tone, character.to_string())),
                }
            }
            spans
        })
    }
}

impl Cell {
    fn is_blank(&self) -> bool {
        self.lines == 0 && self.character.is_none_or(|character| character == ' ')
    }
}

/// Returns the character for lines that meet; boxes have sharp corners.
fn line(lines: u8, is_box: bool, ascii: bool) -> char {
    let characters = match (ascii, is_box) {
        (true, _) => ASCII,
        (_, true) => SHARP,
        (_, false) => ROUND,
    };
    characters[usize::from(lines)]
}
