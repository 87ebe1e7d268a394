//! Terminal for drawing bars.

use std::{
    io,
    sync::atomic::{AtomicUsize, Ordering},
};

use console::Term;
use indicatif::TermLike;

/// Columns of a `^C`, and of the cursor after it.
const INTERRUPT: u16 = 3;

/// Stderr without the blanks that would fill the last drawn line: after them the `^C` of an interrupt
/// would wrap to a line of its own, and some of it would stay when it is cleared. For the same reason
/// bars end before the right edge of the terminal.
#[derive(Debug)]
pub(super) struct Stderr {
    terminal: Term,
    /// Number of filled lines, if another one follows.
    ends: AtomicUsize,
}

impl Stderr {
    pub(super) fn new() -> Self {
        Self {
            terminal: Term::buffered_stderr(),
            ends: AtomicUsize::new(0),
        }
    }
}

impl TermLike for Stderr {
    fn width(&self) -> u16 {
        self.terminal.size().1.saturating_sub(INTERRUPT).max(1)
    }

    fn height(&self) -> u16 {
        self.terminal.size().0
    }

    fn move_cursor_up(&self, lines: usize) -> io::Result<()> {
        self.terminal.move_cursor_up(lines)
    }

    fn move_cursor_down(&self, lines: usize) -> io::Result<()> {
        self.terminal.move_cursor_down(lines)
    }

    fn move_cursor_right(&self, columns: usize) -> io::Result<()> {
        self.terminal.move_cursor_right(columns)
    }

    fn move_cursor_left(&self, columns: usize) -> io::Result<()> {
        self.terminal.move_cursor_left(columns)
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.terminal.write_line(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if text.bytes().all(|byte| byte == b' ') {
            self.ends.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        for _ in 0..self.ends.swap(0, Ordering::Relaxed) {
            self.terminal.write_line("")?;
        }
        self.terminal.write_str(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.terminal.clear_line()
    }

    fn flush(&self) -> io::Result<()> {
        self.ends.store(0, Ordering::Relaxed);
        self.terminal.flush()
    }
}
