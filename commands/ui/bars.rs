//! Bars and counters on stderr, removed when they are dropped.

use std::{
    io::{self, IsTerminal},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

use super::{
    Look, quiet,
    stderr::Stderr,
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

/// Starts a bar that counts steps; only a counter if their number is unknown.
pub(crate) fn steps(length: Option<usize>) -> ProgressBar {
    let template = match length {
        Some(_) => "{wide_bar} {pos} of {len} steps  {msg}",
        None => "{spinner} {pos} steps  {msg}",
    };
    drawn(length.map(|length| length as u64), template)
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
