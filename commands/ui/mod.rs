//! Terminal output: tables, notes, bars, and bytes on stdout.
//!
//! Data goes to stdout, all else to stderr. Box drawing and bars are for people at a terminal:
//! a pipe, `NO_COLOR`, or a dumb terminal turn them off, and each terminal has lines that fit it.
//! `--quiet` turns notes and bars off.

mod bars;
mod table;
mod text;

use std::{
    env,
    io::{self, IsTerminal, Write},
    os::fd::AsFd,
    sync::OnceLock,
};

use super::error::Failure;

pub(crate) use bars::{BAR_STEP, Counter, bar, bar_target, clear_loading, loading, waiting};
pub(crate) use table::{Cell, Table, Tone};
pub(crate) use text::{
    clipped, coloured, columns, counted, filled, image_columns, listed, quoted_names, wrapped,
};
pub(crate) use {bars::Foot, bars::Stdout, bars::clear as clear_foot};
pub(crate) use {
    text::shell_word, text::steers, text::visible, text::visible_below, text::visible_lines,
};

/// Placeholder in an empty cell.
pub(crate) const NOTHING: &str = "-";

/// Flag that is set by `--quiet`.
static QUIET: OnceLock<()> = OnceLock::new();

/// Turns notes and bars off for the rest of the process.
pub(crate) fn be_quiet() {
    let _ = QUIET.set(());
}

/// Returns whether notes and bars are off.
pub(crate) fn quiet() -> bool {
    QUIET.get().is_some()
}

/// Returns whether stdout and stderr go to one place: terminals, or the same file, as with `2>&1`.
pub(crate) fn outputs_are_one() -> bool {
    let (out, err) = (io::stdout(), io::stderr());
    let place = |output: &dyn AsFd| {
        let stat = rustix::fs::fstat(output.as_fd()).ok()?;
        Some((stat.st_dev, stat.st_ino))
    };
    let is_one = place(&out).is_some_and(|out| place(&err) == Some(out));
    is_one || (out.is_terminal() && err.is_terminal())
}

/// Style of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// Cells with lines around them, fitted to the width of the terminal.
    Boxed,
    /// Columns with blanks between them, fitted to the width of the terminal.
    Bare,
    /// Columns with blanks between them, as wide as they are.
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

    /// Returns a message as this look has it: with colours for a terminal.
    pub(crate) fn message(self, text: &str) -> String {
        match self {
            Self::Boxed => coloured(text),
            Self::Bare | Self::Plain => text.to_owned(),
        }
    }

    fn of(is_terminal: bool) -> Self {
        let is_dumb = env::var_os("TERM").is_some_and(|name| name == "dumb");
        let no_colour = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        match (is_terminal, is_dumb || no_colour) {
            (true, false) => Self::Boxed,
            (true, true) => Self::Bare,
            (false, _) => Self::Plain,
        }
    }
}

/// Output flag of all subcommands that print facts, for use in programs.
#[derive(Debug, Clone, Copy, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t = OutputFormat::Table, value_name = "FORMAT")]
    output: OutputFormat,
}

/// Format of stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OutputFormat {
    /// Text for people
    #[value(aliases = ["text", "lines"])]
    Table,
    /// The same as one JSON object
    Json,
}

impl OutputArgs {
    /// Returns the format of stdout.
    pub(crate) fn output(self) -> OutputFormat {
        self.output
    }

    /// Returns whether the format is for programs.
    pub(crate) fn is_json(self) -> bool {
        self.output == OutputFormat::Json
    }
}

/// Writes a value to stdout, as one line.
pub(crate) fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    print(format!("{value}\n"))
}

/// Writes bytes to stdout.
pub(crate) fn print(bytes: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(bytes.as_ref());
    let written = written.and_then(|()| stdout.flush());
    written.map_err(|error| Failure::of_output(&error))
}

/// Writes a note of one or more lines to stderr; nothing with `--quiet`.
pub(crate) fn note(text: &str) {
    if !quiet() {
        warn(text);
    }
}

/// Writes an important message to stderr, such as a warning or an error of one of many.
pub(crate) fn warn(text: &str) {
    // If nobody reads stderr, there is nobody to report to.
    let text = visible_lines(text);
    let _ = writeln!(io::stderr().lock(), "{}", Look::of_stderr().message(&text));
}

/// Writes data to stderr as it is, where stdout has another form of it.
pub(crate) fn print_aside(text: &str) {
    // If nobody reads stderr, there is nobody to report to.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Refuses to write binary data to a terminal.
pub(crate) fn refuse_bytes_on_terminal(what: &str) -> Result<(), Failure> {
    if !io::stdout().is_terminal() {
        return Ok(());
    }
    let failure = Failure::usage(format!("{what} is not for a terminal"));
    Err(failure.hint("send it to a file with `>`, or to another program with `|`"))
}
