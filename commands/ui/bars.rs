//! Bars and counters on stderr, removed when they are dropped.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

use super::{Look, quiet, stderr::Stderr};

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

/// Starts a counter of responses on stderr.
pub(crate) fn answers() -> ProgressBar {
    drawn(None, "{spinner} {pos} answers  {msg}")
}

/// Returns the draw target of bars: a terminal for drawing, unless `--quiet`.
pub(crate) fn bar_target() -> ProgressDrawTarget {
    match Look::of_stderr() {
        Look::Boxed if !quiet() => ProgressDrawTarget::term_like(Box::new(Stderr::new())),
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
