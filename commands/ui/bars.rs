//! Bars and counters on stderr, removed when they are dropped.

use std::{
    io::{self, IsTerminal, Write},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle, TermLike};
use parking_lot::Mutex;

use super::{
    Look, quiet,
    text::{pace, rate},
};

/// Interval for drawing a bar.
pub(crate) const BAR_STEP: Duration = Duration::from_millis(100);

/// Starts a bar on stderr, which is removed when it is dropped.
///
/// It is hidden if stderr is no terminal for drawing.
pub(crate) fn bar(length: u64) -> ProgressBar {
    drawn(Some(length), "{wide_bar} {percent:>3} %  {msg}")
}

/// Starts a spinner with a message on stderr, which is removed when it is dropped.
pub(crate) fn waiting() -> ProgressBar {
    drawn(None, "{spinner} {msg}")
}

/// Starts a bar that counts steps; only a counter if their number is unknown.
pub(crate) fn steps(length: Option<usize>) -> ProgressBar {
    let template = match length {
        Some(_) => "{wide_bar} {pos} of {len} steps  {msg}",
        None => "{spinner} {pos} steps  {msg}",
    };
    drawn(length.map(|length| length as u64), template)
}

/// Current bar of a load.
static LOADING: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Bar of a load on stderr, removed when this is dropped, or by [`clear_loading`].
pub(crate) struct LoadingBar(());

/// Starts a bar that counts what is loaded, as [`steps`].
pub(crate) fn loading(length: Option<usize>) -> LoadingBar {
    let bar = steps(length);
    bar.set_message("loading");
    *LOADING.lock() = Some(bar);
    LoadingBar(())
}

impl LoadingBar {
    /// Shows how much is loaded, unless the bar was removed.
    pub(crate) fn show(&self, count: u64) {
        // Held, so that nothing is drawn once it is removed.
        if let Some(bar) = &*LOADING.lock() {
            bar.set_position(count);
        }
    }
}

impl Drop for LoadingBar {
    fn drop(&mut self) {
        clear_loading();
    }
}

/// Removes the bar of a load for good: somebody else draws there.
pub(crate) fn clear_loading() {
    if let Some(bar) = LOADING.lock().take() {
        bar.finish_and_clear();
    }
}

/// Items counted on stderr, with their rate.
#[derive(Debug)]
pub(crate) struct Counter {
    bar: ProgressBar,
    noun: &'static str,
    started: Instant,
}

impl Counter {
    /// Starts to count; hidden if each item comes as a line to stdout, or from stdin, and that is a
    /// terminal.
    pub(crate) fn start(
        noun: &'static str,
        total: Option<usize>,
        goes_to_stdout: bool,
        comes_from_stdin: bool,
    ) -> Self {
        let are_seen = (goes_to_stdout && io::stdout().is_terminal())
            || (comes_from_stdin && io::stdin().is_terminal());
        let bar = match (are_seen, total) {
            (true, _) => ProgressBar::hidden(),
            (false, Some(_)) => steps(total),
            (false, None) => drawn(None, &format!("{{spinner}} {{pos}} {noun}s  {{msg}}")),
        };
        Self {
            bar,
            noun,
            started: Instant::now(),
        }
    }

    /// Shows the number of items so far, with a text behind their rate.
    pub(crate) fn count(&self, number: usize, more: &str) {
        let rate = rate(number, self.noun, self.started.elapsed());
        self.bar.set_message(rate + more);
        self.bar.set_position(number as u64);
    }

    /// Returns a number of items with the time taken and the rate: `6 steps in 0.50 s, 12.0 steps/s`.
    pub(crate) fn pace(&self, number: usize) -> String {
        pace(number, self.noun, self.started.elapsed())
    }
}

/// Returns the draw target of bars: a terminal for drawing, unless `--quiet`.
pub(crate) fn bar_target() -> ProgressDrawTarget {
    match Look::of_stderr() {
        Look::Boxed if !quiet() => ProgressDrawTarget::term_like(Box::new(Stderr::new())),
        _ => ProgressDrawTarget::hidden(),
    }
}

pub(super) fn drawn(length: Option<u64>, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("the templates name keys that exist");
    ProgressBar::with_draw_target(length, bar_target())
        .with_style(style)
        .with_finish(ProgressFinish::AndClear)
}

/// Current foot.
static DRAWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Progress lines on stderr, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Foot(ProgressBar);

impl Foot {
    /// Creates an empty foot; `None` if nothing can be drawn, or is not wanted.
    pub(crate) fn new() -> Option<Self> {
        let bar = drawn(None, "{spinner} {msg}");
        if bar.is_hidden() {
            return None;
        }
        *DRAWN.lock() = Some(bar.clone());
        Some(Self(bar))
    }

    /// Replaces the lines.
    pub(crate) fn show(&self, lines: String) {
        self.0.set_message(lines);
        self.0.tick();
    }
}

impl Drop for Foot {
    fn drop(&mut self) {
        drop(DRAWN.lock().take());
        self.0.finish_and_clear();
    }
}

/// Removes the foot for good, if the process ends without running destructors.
pub(crate) fn clear() {
    if let Some(bar) = DRAWN.lock().take() {
        bar.finish_and_clear();
    }
}

/// Standard output above the foot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stdout;

impl Stdout {
    fn above<T>(write: impl FnOnce() -> T) -> T {
        let bar = DRAWN.lock().clone();
        match bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::above(|| io::stdout().write(bytes))
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        Self::above(|| io::stdout().write_all(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

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
