//! The terminal: tables, notes, bars, and bytes on stdout.
//!
//! Data goes to stdout, all else to stderr. Box drawing and bars are for people at a terminal:
//! a pipe, `NO_COLOR`, or a dumb terminal turn them off. `--quiet` turns notes and bars off.

mod foot;
mod stderr;
mod text;
mod turned;

use std::{
    borrow::Cow,
    env,
    io::{self, IsTerminal, Write},
    sync::OnceLock,
    time::Duration,
};

use comfy_table::{CellAlignment, Color, ColumnConstraint, ContentArrangement, Width, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use unicode_width::UnicodeWidthStr;

pub(crate) use foot::{Foot, Stdout, clear as clear_foot};
pub(crate) use text::{clipped, columns, counted, listed, picture_columns, wrapped};

use crate::error::{Failure, FailureKind};

/// How often a bar is drawn.
pub(crate) const BAR_STEP: Duration = Duration::from_millis(100);

/// The width below which cells are not broken into lines.
const NARROWEST: u16 = 40;

/// Stands in a cell that has nothing to say.
pub(crate) const NOTHING: &str = "-";

/// Is set once `--quiet` was given.
static QUIET: OnceLock<()> = OnceLock::new();

/// Turns notes and bars off for the rest of the process.
pub(crate) fn be_quiet() {
    let _ = QUIET.set(());
}

/// Tells whether notes and bars are off.
pub(crate) fn quiet() -> bool {
    QUIET.get().is_some()
}

/// How tables look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// With lines around the cells, fitted to the width of the terminal.
    Boxed,
    /// Columns with blanks between them.
    Plain,
}

impl Look {
    /// Returns the look for stdout.
    pub(crate) fn of_stdout() -> Self {
        Self::of(io::stdout().is_terminal())
    }

    /// Returns the look for stderr.
    pub(crate) fn of_stderr() -> Self {
        Self::of(io::stderr().is_terminal())
    }

    fn of(is_terminal: bool) -> Self {
        let is_dumb = env::var_os("TERM").is_some_and(|name| name == "dumb");
        let no_colour = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if is_terminal && !is_dumb && !no_colour {
            Self::Boxed
        } else {
            Self::Plain
        }
    }
}

/// The flag that has all subcommands that print facts, so that programs can read them.
#[derive(Debug, Clone, Copy, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Choose what goes to stdout
    #[arg(long, value_enum, default_value_t = Output::Table, value_name = "FORMAT")]
    output: Output,
}

/// What goes to stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// Text for people
    #[value(alias = "text")]
    Table,
    /// The same as one JSON object
    Json,
}

impl OutputArgs {
    /// Returns what goes to stdout.
    pub(crate) fn output(self) -> Output {
        self.output
    }

    /// Tells whether programs are to read it.
    pub(crate) fn is_json(self) -> bool {
        self.output == Output::Json
    }
}

/// Writes a value to stdout, as one line.
pub(crate) fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    print(format!("{value}\n"))
}

/// Where the text of a column stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// What a cell says about the state of something; shown as colour on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// All is well.
    Good,
    /// On its way, or not quite as it should be.
    Warn,
    /// Something is wrong.
    Bad,
}

/// A text in a table.
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
        match colour {
            Some(colour) => drawn.fg(colour),
            None => drawn,
        }
    }
}

/// Rows under a header.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Align>,
    /// How wide the longest word of each column is.
    words: Vec<usize>,
    table: comfy_table::Table,
}

impl Table {
    /// Makes a table of columns without rows.
    pub(crate) fn new(columns: &[(&str, Align)]) -> Self {
        let mut table = comfy_table::Table::new();
        table.set_header(columns.iter().map(|(title, _)| *title));
        Self {
            columns: columns.iter().map(|(_, align)| *align).collect(),
            words: columns.iter().map(|(title, _)| longest(title)).collect(),
            table,
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = impl Into<Cell>>) {
        let cells: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        for (word, cell) in self.words.iter_mut().zip(&cells) {
            *word = longest(&visible(&cell.text)).max(*word);
        }
        self.table.add_row(cells);
    }

    /// Tells whether the terminal has room for the table without breaking its cells.
    pub(crate) fn fits(&self) -> bool {
        let Some(width) = self.table.width().filter(|width| *width >= NARROWEST) else {
            return true;
        };
        let columns = self.table.column_max_content_widths();
        let borders = 3 * columns.len() + 1;
        borders + columns.into_iter().map(usize::from).sum::<usize>() <= usize::from(width)
    }

    /// Has cells be broken between words, if there is room for the longest of each column; tells whether
    /// there is.
    fn keep_words(&mut self, width: usize) -> bool {
        let borders = 3 * self.words.len() + 1;
        if borders + self.words.iter().sum::<usize>() > width {
            return false;
        }
        for (word, column) in self.words.iter().zip(self.table.column_iter_mut()) {
            // A blank on each side.
            let least = u16::try_from(word + 2).unwrap_or(u16::MAX);
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
        }
        true
    }

    /// Draws the table, with a line feed at the end.
    pub(crate) fn draw(mut self, look: Look) -> String {
        match look {
            Look::Boxed => {
                self.table
                    .load_style(presets::UTF8_FULL_CONDENSED)
                    .enforce_styling();
                // Some terminals do not tell their width, or tell 0.
                if let Some(width) = self.table.width().filter(|width| *width >= NARROWEST) {
                    self.table
                        .set_content_arrangement(ContentArrangement::Dynamic);
                    let keeps_words = self.keep_words(usize::from(width));
                    if !keeps_words && turned::helps(&self.table, width) {
                        return turned::draw(&self.table, width);
                    }
                }
            }
            Look::Plain => {
                self.table.load_style(presets::NOTHING).force_no_tty();
            }
        }
        for (align, column) in self.columns.iter().zip(self.table.column_iter_mut()) {
            if look == Look::Plain {
                column.set_padding((0, 2));
            }
            if *align == Align::Right {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let mut text = self.table.trim_fmt();
        text.push('\n');
        text
    }
}

/// Returns the width of the longest word of a text.
fn longest(text: &str) -> usize {
    let words = text.split_whitespace();
    words.map(UnicodeWidthStr::width).max().unwrap_or_default()
}

/// Tells whether a character steers what shows it, instead of being shown: control characters, and
/// those that turn the direction in which the text after them runs.
pub(crate) fn steers(character: char) -> bool {
    character.is_control() || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns a text for a line, in which each character that steers terminals is written as in
/// `\u{1b}`. Names come from files and servers.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, steers)
}

/// Returns a text of several lines in the same way, with their ends and tabs as they are.
pub(crate) fn visible_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |it| steers(it) && !matches!(it, '\n' | '\t'))
}

/// Returns a text of several lines in the same way, with the others so far below the first that
/// they cannot be taken for something else.
pub(crate) fn visible_below(text: &str, indent: usize) -> String {
    visible_lines(text).replace('\n', &format!("\n{}", " ".repeat(indent)))
}

fn escaped(text: &str, is_meant: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_meant) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_meant(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// Breaks the lines of a text between words where the terminal ends; what follows of a line is
/// indented.
pub(crate) fn filled(text: &str, look: Look) -> String {
    let width = comfy_table::Table::new().width();
    match width.filter(|width| look == Look::Boxed && *width >= NARROWEST) {
        Some(width) => filled_to(text, usize::from(width)),
        None => text.to_owned(),
    }
}

fn filled_to(text: &str, width: usize) -> String {
    const INDENT: usize = 4;
    let mut filled = String::with_capacity(text.len() + 16);
    for line in text.lines() {
        let mut column = 0;
        // The blanks at the beginning stay with the first word.
        let start = line.len() - line.trim_start().len();
        let (blanks, words) = line.split_at(start);
        for word in words.split(' ') {
            if column == 0 {
                filled.push_str(blanks);
                column = blanks.len();
            } else if column + 1 + word.width() > width {
                filled.push('\n');
                filled.extend(std::iter::repeat_n(' ', INDENT));
                column = INDENT;
            } else {
                filled.push(' ');
                column += 1;
            }
            filled.push_str(word);
            column += word.width();
        }
        filled.push('\n');
    }
    filled
}

/// Writes bytes to stdout.
pub(crate) fn print(bytes: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes.as_ref())?;
    stdout.flush()?;
    Ok(())
}

/// Writes a line for people to stderr, or several; nothing with `--quiet`.
pub(crate) fn note(text: &str) {
    if !quiet() {
        warn(text);
    }
}

/// Writes what must be seen to stderr, such as a warning or an error of one of many.
pub(crate) fn warn(text: &str) {
    // If nobody reads stderr, there is nobody to tell.
    let _ = writeln!(io::stderr().lock(), "{}", visible_lines(text));
}

/// Refuses to fill a terminal with bytes that are no text.
pub(crate) fn refuse_bytes_on_terminal(what: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() {
        let text = format!("{what} is not for a terminal");
        return Err(Failure::new(FailureKind::Usage, text)
            .hint("send it to a file with `>`, or to another program with `|`"));
    }
    Ok(())
}

/// Starts a bar on stderr, which goes away when it is dropped.
///
/// It is hidden if stderr is no terminal for drawing.
pub(crate) fn bar(length: u64) -> ProgressBar {
    drawn(Some(length), "{wide_bar} {percent:>3} %  {msg}")
}

/// Starts a bar that counts steps; without their number it only counts.
pub(crate) fn steps(length: Option<usize>) -> ProgressBar {
    let template = match length {
        Some(_) => "{wide_bar} {pos} of {len} steps  {msg}",
        None => "{spinner} {pos} steps  {msg}",
    };
    drawn(length.map(|length| length as u64), template)
}

/// Starts a counter of answers on stderr.
pub(crate) fn answers() -> ProgressBar {
    drawn(None, "{spinner} {pos} answers  {msg}")
}

/// Returns where bars are drawn: on a terminal that can, unless `--quiet` was given.
pub(crate) fn bar_target() -> ProgressDrawTarget {
    match Look::of_stderr() {
        Look::Boxed if !quiet() => ProgressDrawTarget::term_like(Box::new(stderr::Stderr::new())),
        _ => ProgressDrawTarget::hidden(),
    }
}

fn drawn(length: Option<u64>, template: &str) -> ProgressBar {
    let target = bar_target();
    let style = ProgressStyle::with_template(template).expect("the templates name keys that exist");
    ProgressBar::with_draw_target(length, target)
        .with_style(style)
        .with_finish(ProgressFinish::AndClear)
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::{Align, Cell, Look, Table, Tone, filled_to, visible, visible_below, visible_lines};

    fn example() -> Table {
        let mut table = Table::new(&[("name", Align::Left), ("max", Align::Right)]);
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
    fn nothing_that_steers_a_terminal_is_left() {
        let hostile = "a\u{1b}[31m\u{9b}2J\u{202e}b\u{2066}\u{7f}\r\n\tc";
        let names = r"a\u{1b}[31m\u{9b}2J\u{202e}b\u{2066}\u{7f}\u{d}";
        assert_eq!(visible(hostile), format!(r"{names}\u{{a}}\u{{9}}c"));
        assert_eq!(visible_lines(hostile), format!("{names}\n\tc"));
        assert_eq!(visible_below(hostile, 2), format!("{names}\n  \tc"));
        assert_eq!(visible("größe 形 שלום"), "größe 形 שלום");
        for look in [Look::Plain, Look::Boxed] {
            let mut table = Table::new(&[("name", Align::Left)]);
            table.row(["\u{1b}[31m\nred".to_owned()]);
            let drawn = table.draw(look);
            assert!(drawn.contains(r"\u{1b}[31m\u{a}red"), "{drawn:?}");
            assert!(!drawn.contains('\u{1b}'), "{drawn:?}");
        }
    }

    #[test]
    fn cells_are_broken_between_words() {
        let titles = ["calculator", "longest µs", "open, close µs"];
        let mut table = Table::new(&titles.map(|title| (title, Align::Left)));
        table.row(["PythonExecutorCalculator", "626", "6919"].map(str::to_owned));
        table.table.set_width(49);
        let drawn = table.draw(Look::Boxed);
        assert!(drawn.contains(" PythonExecutorCalculator "), "{drawn}");
        assert!(drawn.lines().all(|line| line.width() <= 49), "{drawn}");
    }

    #[test]
    fn lines_end_between_words() {
        let text = "Path: one → two → three\n  short line\n";
        assert_eq!(
            filled_to(text, 12),
            "Path: one →\n    two →\n    three\n  short line\n"
        );
        assert_eq!(filled_to(text, 80), text);
        assert_eq!(filled_to("", 80), "");
    }

    #[test]
    fn tones_are_colours_on_a_terminal_only() {
        let table = || {
            let mut table = Table::new(&[("state", Align::Left)]);
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
}
