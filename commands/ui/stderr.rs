//! The terminal that bars are drawn on.

use std::io;

use console::Term;
use indicatif::TermLike;

/// Stderr, without the blanks that would fill the last line of a bar: after them the `^C` of whoever
/// interrupts would stand in a line of its own, and the bar above it would stay when it is cleared.
#[derive(Debug)]
pub(super) struct Stderr(Term);

impl Stderr {
    pub(super) fn new() -> Self {
        Self(Term::buffered_stderr())
    }
}

impl TermLike for Stderr {
    fn width(&self) -> u16 {
        self.0.size().1
    }

    fn height(&self) -> u16 {
        self.0.size().0
    }

    fn move_cursor_up(&self, lines: usize) -> io::Result<()> {
        self.0.move_cursor_up(lines)
    }

    fn move_cursor_down(&self, lines: usize) -> io::Result<()> {
        self.0.move_cursor_down(lines)
    }

    fn move_cursor_right(&self, columns: usize) -> io::Result<()> {
        self.0.move_cursor_right(columns)
    }

    fn move_cursor_left(&self, columns: usize) -> io::Result<()> {
        self.0.move_cursor_left(columns)
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.0.write_line(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        match text.bytes().all(|byte| byte == b' ') {
            true => Ok(()),
            false => self.0.write_str(text),
        }
    }

    fn clear_line(&self) -> io::Result<()> {
        self.0.clear_line()
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }
}
