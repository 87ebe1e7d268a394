//! Runs that are repeated at each save, and what ends one early.

use std::{io, sync::Arc, time::Duration};

use ovms::{
    graph::{Fingerprint, GraphSource, Written},
    python,
    task::{self, Task},
};
use tokio::{
    runtime::Runtime,
    signal::unix::{Signal, SignalKind, signal},
    sync::Notify,
    time::sleep,
};
use tracing_subscriber::fmt::{
    format::Writer,
    time::{FormatTime, SystemTime},
};

use crate::{
    error::{Failure, FailureKind},
    ui,
};

/// Message of a run that Ctrl-C has ended.
const INTERRUPTED: &str = "interrupted";

/// Message of a run that a save has ended.
const SAVED: &str = "interrupted by a save; running again";

/// Time between two looks at the files.
const STEP: Duration = Duration::from_millis(100);

/// Time between two looks whether the debugger is left.
const DEBUGGER: Duration = Duration::from_millis(500);

/// Events that end a run before it has ended by itself.
pub(super) struct Stops {
    interrupts: Signal,
    saved: Arc<Notify>,
    /// Whether the last one was a save.
    is_saved: bool,
}

impl Stops {
    /// Makes those of all runs, so that what comes between two of them is heard as well.
    pub(super) fn new(runtime: &Runtime) -> io::Result<Self> {
        let _entered = runtime.enter();
        Ok(Self {
            interrupts: signal(SignalKind::interrupt())?,
            saved: Arc::default(),
            is_saved: false,
        })
    }

    /// Returns the failure of a run that the last one has ended, with the place where a handler was then.
    pub(super) fn ended(&self, place: Option<String>) -> Failure {
        let failure = Failure::interrupted(if self.is_saved { SAVED } else { INTERRUPTED });
        let place = place.map(|place| format!("the handler was at {place}"));
        place.into_iter().fold(failure, Failure::detail)
    }

    /// Waits for the next one; whoever gives up has lost none.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupts.recv() => self.is_saved = false,
            () = self.saved.notified() => self.is_saved = true,
        }
    }
}

/// Runs a graph, and again at each save, until Ctrl-C. A save ends a run that is not over.
pub(super) fn run(
    runtime: &Runtime,
    source: &Arc<GraphSource>,
    stops: &mut Stops,
    mut once: impl FnMut(&mut Stops) -> Result<(), Failure>,
) -> Result<(), Failure> {
    loop {
        let before = look(source);
        let (of_task, saved) = (Arc::clone(source), Arc::clone(&stops.saved));
        let watch = async move {
            is_saved(&of_task, before).await;
            // Whoever is at its prompt would lose it.
            while python::is_debugged().await {
                sleep(DEBUGGER).await;
            }
            saved.notify_one();
        };
        let _watch = Task::spawn_on(runtime.handle(), watch);
        stops.is_saved = false;
        if let Err(failure) = once(stops) {
            match failure.kind() {
                FailureKind::Quiet => return Err(failure),
                FailureKind::Interrupted if !stops.is_saved => return Err(failure),
                _ => {
                    let _ = failure.print();
                }
            }
        }
        if stops.is_saved {
            continue;
        }
        ui::note(&format!(
            "--- {}: waiting for the next save; Ctrl-C ends this ---",
            now()
        ));
        runtime.block_on(stops.next());
        if !stops.is_saved {
            return Err(Failure::interrupted(INTERRUPTED));
        }
    }
}

/// Waits until a file is another one, and then until it is written to its end.
async fn is_saved(source: &Arc<GraphSource>, before: (Fingerprint, Written)) {
    let mut last = before.clone();
    loop {
        sleep(STEP).await;
        let source = Arc::clone(source);
        let now = task::blocking("look at handlers", move || look(&source)).await;
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
