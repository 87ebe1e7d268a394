//! Runs that are repeated at each save.

use std::time::Duration;

use ovms::graph::{Fingerprint, GraphSource, Written};
use tokio::{runtime::Runtime, signal::unix::Signal, time::sleep};
use tracing_subscriber::fmt::{
    format::Writer,
    time::{FormatTime, SystemTime},
};

use super::INTERRUPTED;
use crate::{
    error::{Failure, FailureKind},
    ui,
};

/// Time between two looks at the files.
const STEP: Duration = Duration::from_millis(100);

/// Runs a graph, and again at each save, until Ctrl-C.
pub(super) fn run(
    runtime: &Runtime,
    source: &GraphSource,
    interrupts: &mut Signal,
    mut once: impl FnMut(&mut Signal) -> Result<(), Failure>,
) -> Result<(), Failure> {
    loop {
        let before = look(source);
        match once(interrupts) {
            Err(failure)
                if matches!(
                    failure.kind(),
                    FailureKind::Interrupted | FailureKind::Quiet
                ) =>
            {
                return Err(failure);
            }
            Err(failure) => {
                let _ = failure.print();
            }
            Ok(()) => {}
        }
        ui::note(&format!(
            "--- {}: waiting for the next save; Ctrl-C ends this ---",
            now()
        ));
        runtime.block_on(async {
            tokio::select! {
                () = saved(source, before) => Ok(()),
                _ = interrupts.recv() => Err(Failure::interrupted(INTERRUPTED)),
            }
        })?;
    }
}

/// Waits until a file is another one, and then until it is written to its end.
async fn saved(source: &GraphSource, before: (Fingerprint, Written)) {
    let mut last = before.clone();
    loop {
        sleep(STEP).await;
        let now = look(source);
        if now != before && now == last {
            return;
        }
        last = now;
    }
}

/// Reads the files, as the watcher of a server does.
fn look(source: &GraphSource) -> (Fingerprint, Written) {
    let files = Fingerprint::read(source);
    let written = files.written();
    (files, written)
}

/// Returns the time as the log has it.
fn now() -> String {
    let mut text = String::new();
    // A text takes everything.
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text
}
