//! Progress of an installation: one line on a terminal, else a line per step.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use indicatif::{DecimalBytes, ProgressBar, ProgressStyle};

use crate::ui;

/// Interval between two lines about one download if nothing is drawn.
const PAUSE: Duration = Duration::from_secs(5);

/// Progress display of an installation.
pub(super) struct Progress {
    bar: ProgressBar,
    /// Time of the last line about the current step.
    reported: Cell<Instant>,
}

impl Progress {
    /// Creates the display with the first step.
    pub(super) fn start(step: &str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ui::bar_target());
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(120));
        }
        let reported = Cell::new(Instant::now());
        let progress = Self { bar, reported };
        progress.say(step);
        progress
    }

    /// Shows another step.
    pub(super) fn say(&self, step: &str) {
        if self.bar.is_hidden() {
            ui::note(step);
            self.reported.set(Instant::now());
            return;
        }
        self.bar.unset_length();
        self.bar.set_style(style("{spinner} {msg} {elapsed}"));
        self.bar.set_message(step.to_owned());
    }

    /// Shows the progress of the current step in bytes.
    pub(super) fn bytes(&self, done: u64, all: u64) {
        if self.bar.is_hidden() {
            if self.reported.get().elapsed() >= PAUSE {
                self.reported.set(Instant::now());
                let (done, all) = (DecimalBytes(done), DecimalBytes(all));
                ui::note(&format!("  {done} of {all}"));
            }
            return;
        }
        if self.bar.length() != Some(all) {
            self.bar.set_length(all);
            self.bar.set_style(style(
                "{spinner} {msg} {bar:24} {bytes} of {total_bytes} {bytes_per_sec}",
            ));
        }
        self.bar.set_position(done);
    }

    /// Removes the display.
    pub(super) fn finish(self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates above are valid")
}
