//! Lines at the foot of the terminal, below other output.
//!
//! Other lines are meanwhile written through [`Stdout`], which removes the foot during each
//! write.

use std::{
    io::{self, Write},
    sync::{Mutex, MutexGuard, PoisonError},
};

use indicatif::ProgressBar;

use super::bars;

/// Current foot.
static DRAWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

fn drawn() -> MutexGuard<'static, Option<ProgressBar>> {
    DRAWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Progress lines on stderr, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Foot(ProgressBar);

impl Foot {
    /// Creates an empty foot; `None` if nothing can be drawn, or is not wanted.
    pub(crate) fn new() -> Option<Self> {
        let bar = bars::drawn(None, "{spinner} {msg}");
        if bar.is_hidden() {
            return None;
        }
        *drawn() = Some(bar.clone());
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
        drop(drawn().take());
        self.0.finish_and_clear();
    }
}

/// Removes the foot for good, if the process ends without running destructors.
pub(crate) fn clear() {
    if let Some(bar) = drawn().take() {
        bar.finish_and_clear();
    }
}

/// Standard output above the foot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stdout;

impl Stdout {
    fn above<T>(write: impl FnOnce() -> T) -> T {
        let bar = drawn().clone();
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
