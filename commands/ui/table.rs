//! Tables: with lines around the cells on a terminal, columns with blanks between them elsewhere. Those at any terminal
//! fit it.

use comfy_table::{
    CellAlignment, Color, ColumnConstraint, ContentArrangement, Row, Width, presets,
};
use unicode_width::UnicodeWidthStr;

use super::{
    Look,
    text::{NARROWEST, visible},
};

/// Tone of a cell; shown as colour on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Good state.
    Good,
    /// Transitional or imperfect state.
    Warn,
    /// Error state.
    Bad,
}

/// Text in a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    tone: Option<Tone>,
}

impl Cell {
    /// Makes a cell with a tone, if there is one.
    pub(crate) fn toned(text: String, tone: Option<Tone>) -> Self {
        Self { text, tone }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, tone: None }
    }
}

impl From<Cell> for comfy_table::Cell {
    fn from(cell: Cell) -> Self {
        let colour = cell.tone.map(|tone| match tone {
            Tone::Good => Color::Green,
            Tone::Warn => Color::Yellow,
            Tone::Bad => Color::Red,
        });
        let drawn = Self::new(visible(&cell.text));
        colour.into_iter().fold(drawn, Self::fg)
    }
}

/// Table of rows under a header.
#[derive(Debug, Default)]
pub(crate) struct Table {
    titles: Vec<String>,
    alignments: Vec<CellAlignment>,
    /// Width of the longest word in each column.
    words: Vec<usize>,
    table: comfy_table::Table,
}

impl Table {
    /// Makes a table without columns and rows.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds columns for words.
    pub(crate) fn left<const N: usize>(self, titles: [&str; N]) -> Self {
        self.columns(&titles, CellAlignment::Left)
    }

    /// Adds columns for numbers.
    pub(crate) fn right<const N: usize>(self, titles: [&str; N]) -> Self {
        self.columns(&titles, CellAlignment::Right)
    }

    fn columns(mut self, titles: &[&str], alignment: CellAlignment) -> Self {
        for title in titles {
            self.titles.push((*title).to_owned());
            self.alignments.push(alignment);
            self.words.push(longest(title));
        }
        self.table.set_header(&self.titles);
        self
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = impl Into<Cell>>) {
        let cells: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        for (word, cell) in self.words.iter_mut().zip(&cells) {
            *word = longest(&visible(&cell.text)).max(*word);
        }
        self.table.add_row(cells);
    }

    /// Returns whether the table fits the terminal without breaking its cells.
    pub(crate) fn fits(&self, look: Look) -> bool {
        let Some(width) = self.width(look) else {
            return true;
        };
        let columns = self.table.column_max_content_widths();
        let between = between(look, columns.len());
        between + columns.into_iter().map(usize::from).sum::<usize>() <= width
    }

    /// Returns the width of the terminal, if there is one. Some report none, or 0.
    fn width(&self, look: Look) -> Option<usize> {
        let width = self.table.width().filter(|_| look != Look::Plain);
        width.map(usize::from).filter(|width| *width >= NARROWEST)
    }

    /// Breaks cells between words only, if there is room for the longest word of each column; returns
    /// whether there is.
    fn keep_words(&mut self, look: Look, width: usize) -> bool {
        let between = between(look, self.words.len());
        if between + self.words.iter().sum::<usize>() > width {
            return false;
        }
        for (word, column) in self.words.iter().zip(self.table.column_iter_mut()) {
            let blanks = usize::from(BLANKS);
            let least = u16::try_from(word + blanks).unwrap_or(u16::MAX);
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
        }
        true
    }

    /// Draws the table, with a line feed at the end.
    pub(crate) fn draw(mut self, look: Look) -> String {
        if let Some(width) = self.width(look) {
            if !self.keep_words(look, width) && is_turned(&self.table) {
                return draw_turned(&self.table, look, width);
            }
            fit(&mut self.table, look, width);
        }
        dress(&mut self.table, look);
        for (alignment, column) in self.alignments.iter().zip(self.table.column_iter_mut()) {
            column.set_cell_alignment(*alignment);
        }
        self.table.trim_fmt() + "\n"
    }
}

/// Number of blanks in a column beside its contents: one on each side between lines, both behind it without them.
const BLANKS: u16 = 2;

/// Returns the width of lines and blanks in a table of so many columns.
fn between(look: Look, columns: usize) -> usize {
    let blanks = usize::from(BLANKS) * columns;
    match look {
        Look::Boxed => blanks + columns + 1,
        // Those behind the last column are cut off.
        Look::Bare | Look::Plain => blanks.saturating_sub(BLANKS.into()),
    }
}

/// Fits a table to the width of a terminal.
fn fit(table: &mut comfy_table::Table, look: Look, width: usize) {
    let width = u16::try_from(width).unwrap_or(u16::MAX);
    table
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(match look {
            Look::Boxed => width,
            Look::Bare | Look::Plain => width.saturating_add(BLANKS),
        });
}

/// Gives a table its lines or blanks.
fn dress(table: &mut comfy_table::Table, look: Look) {
    if look == Look::Boxed {
        table
            .load_style(presets::UTF8_FULL_CONDENSED)
            .enforce_styling();
        return;
    }
    table.load_style(presets::NOTHING).force_no_tty();
    for column in table.column_iter_mut() {
        column.set_padding((0, BLANKS));
    }
}

/// Returns the width of the longest word of a text.
fn longest(text: &str) -> usize {
    let words = text.split_whitespace();
    words.map(UnicodeWidthStr::width).max().unwrap_or_default()
}

/// Returns whether a table with no room for its words gains from transposing. One of two columns would
/// have as many as before.
fn is_turned(table: &comfy_table::Table) -> bool {
    table.header().is_some_and(|it| it.cell_count() > 2) && table.row_count() > 0
}

/// Draws a line for each cell, with its title first, and a blank one between rows.
fn draw_turned(table: &comfy_table::Table, look: Look, width: usize) -> String {
    let mut turned = comfy_table::Table::new();
    fit(&mut turned, look, width);
    let titles = || table.header().into_iter().flat_map(Row::cell_iter);
    for (index, row) in table.row_iter().enumerate() {
        if index > 0 {
            turned.add_row(["", ""]);
        }
        for (title, cell) in titles().zip(row.cell_iter()) {
            // A cell without text belongs to the row above, which shows it.
            if !cell.content().is_empty() {
                turned.add_row([title.clone(), cell.clone()]);
            }
        }
    }
    dress(&mut turned, look);
    if let Some(column) = turned.column_mut(0) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
    turned.trim_fmt() + "\n"
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::{Cell, Look, Table, Tone};

    fn example() -> Table {
        let mut table = Table::new().left(["name"]).right(["max"]);
        table.row(["y".to_owned(), "12.5".to_owned()]);
        table.row(["logits".to_owned(), "3".to_owned()]);
        table
    }

    #[test]
    fn tables_are_columns_in_a_pipe() {
        insta::assert_snapshot!(example().draw(Look::Plain), @r"
        name     max
        y       12.5
        logits     3
        ");
    }

    #[test]
    fn nothing_in_a_cell_steers_a_terminal() {
        for look in [Look::Plain, Look::Boxed] {
            let mut table = Table::new().left(["name"]);
            table.row(["\u{1b}[31m\nred".to_owned()]);
            let drawn = table.draw(look);
            assert!(drawn.contains(r"\u{1b}[31m\u{a}red"), "{drawn:?}");
            assert!(!drawn.contains('\u{1b}'), "{drawn:?}");
        }
    }

    #[test]
    fn cells_are_broken_between_words() {
        let titles = ["calculator", "longest µs", "open, close µs"];
        let mut table = Table::new().left(titles);
        table.row(["PythonExecutorCalculator", "626", "6919"].map(str::to_owned));
        table.table.set_width(49);
        let drawn = table.draw(Look::Boxed);
        assert!(drawn.contains(" PythonExecutorCalculator "), "{drawn}");
        assert!(drawn.lines().all(|line| line.width() <= 49), "{drawn}");
    }

    #[test]
    fn tones_are_colours_on_a_terminal_only() {
        let table = || {
            let mut table = Table::new().left(["state"]);
            for (text, tone) in [
                ("READY", Some(Tone::Good)),
                ("LOADING", Some(Tone::Warn)),
                ("FAILED", Some(Tone::Bad)),
                ("END", None),
            ] {
                table.row([Cell::toned(text.to_owned(), tone)]);
            }
            table
        };
        let drawn = table().draw(Look::Boxed).replace('\x1b', "ESC");
        insta::assert_snapshot!(drawn, @"
        ┌─────────┐
        │ state   │
        ╞═════════╡
        │ESC[38;5;10m READY   ESC[39m│
        │ESC[38;5;11m LOADING ESC[39m│
        │ESC[38;5;9m FAILED  ESC[39m│
        │ END     │
        └─────────┘
        ");
        assert!(!table().draw(Look::Plain).contains('\x1b'));
    }

    #[test]
    fn tables_have_lines_on_a_terminal() {
        insta::assert_snapshot!(example().draw(Look::Boxed), @r"
        ┌────────┬──────┐
        │ name   ┆  max │
        ╞════════╪══════╡
        │ y      ┆ 12.5 │
        │ logits ┆    3 │
        └────────┴──────┘
        ");
    }

    fn turned(look: Look, width: u16) -> String {
        let titles = ["output", "datatype", "min", "max", "values"];
        let mut table = Table::new().left(titles);
        for cells in [
            [
                "scores",
                "FP32",
                "1.29361e-21",
                "0.96623",
                "0.000686192, 1.02147e-7, 1.37495e-5, …",
            ],
            ["labels", "BYTES", "-", "-", "\"none\""],
        ] {
            table.row(cells.map(str::to_owned));
        }
        table.table.set_width(width);
        table.draw(look)
    }

    #[test]
    fn a_row_is_a_line_for_each_cell_where_words_have_no_room() {
        insta::assert_snapshot!(turned(Look::Boxed, 50), @r#"
        ┌──────────┬──────────────────────────┐
        │ output   ┆ scores                   │
        │ datatype ┆ FP32                     │
        │ min      ┆ 1.29361e-21              │
        │ max      ┆ 0.96623                  │
        │ values   ┆ 0.000686192, 1.02147e-7, │
        │          ┆ 1.37495e-5, …            │
        │          ┆                          │
        │ output   ┆ labels                   │
        │ datatype ┆ BYTES                    │
        │ min      ┆ -                        │
        │ max      ┆ -                        │
        │ values   ┆ "none"                   │
        └──────────┴──────────────────────────┘
        "#);
        insta::assert_snapshot!(turned(Look::Bare, 40), @r#"
        output    scores
        datatype  FP32
        min       1.29361e-21
        max       0.96623
        values    0.000686192, 1.02147e-7,
                  1.37495e-5, …

        output    labels
        datatype  BYTES
        min       -
        max       -
        values    "none"
        "#);
    }

    #[test]
    fn words_are_whole_in_wide_terminals_too() {
        let mut table = Table::new().right([
            "concurrency",
            "ok/s",
            "p50 ms",
            "p90 ms",
            "p95 ms",
            "p99 ms",
            "max ms",
            "failed",
            "queue ms",
            "compute ms",
            "stable",
        ]);
        table.row(
            [
                "1", "500", "2.000", "2.500", "2.800", "3.000", "4.000", "0", "0.200", "1.215",
                "yes",
            ]
            .map(str::to_owned),
        );
        table.table.set_width(80);
        let drawn = table.draw(Look::Boxed);
        assert!(drawn.contains("│ concurrency ┆ 1 "), "{drawn}");
        assert!(drawn.contains(" 2.800 "), "{drawn}");
    }

    #[test]
    fn tables_are_as_wide_as_the_terminal_at_most_and_turned_in_narrow_ones_only() {
        for (look, least) in [(Look::Boxed, 60), (Look::Bare, 52)] {
            for width in 40..130 {
                let drawn = turned(look, width);
                let longest = drawn.lines().map(UnicodeWidthStr::width).max();
                assert!(longest <= Some(usize::from(width)), "{width}\n{drawn}");
                assert!(drawn.contains(" 1.29361e-21"), "{width}\n{drawn}");
                let is_turned = drawn.matches("datatype").count() == 2;
                assert_eq!(is_turned, width < least, "{width}\n{drawn}");
            }
        }
        // A pipe is no terminal, however narrow the window around it is.
        assert_eq!(turned(Look::Plain, 40), turned(Look::Plain, 130));
    }
}
