//! Runs that are repeated at each save, and what ends one early.

use std::{
    io::{self, IsTerminal as _},
    sync::Arc,
    time::Duration,
};

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

/// Number of looks at a handler that is not at the prompt of the debugger until it counts as left, and the time between two.
const DEBUGGER: (usize, Duration) = (4, Duration::from_millis(500));

/// Events that end a run before it has ended by itself.
pub(super) struct Stops {
    interrupts: Signal,
    saved: Arc<Saves>,
    /// Indicates that the last one was a save.
    is_saved: bool,
}

/// Notices of the save after a run has begun.
#[derive(Default)]
struct Saves {
    /// Notified when there was one.
    seen: Notify,
    /// Notified when it may end the run.
    ends: Notify,
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

    /// Waits for the next one during a run; whoever gives up has lost none.
    pub(super) async fn next(&mut self) {
        let saves = Arc::clone(&self.saved);
        self.either(&saves.ends).await;
    }

    /// Waits for the next one after a run.
    async fn idle(&mut self) {
        let saves = Arc::clone(&self.saved);
        self.either(&saves.seen).await;
    }

    async fn either(&mut self, saved: &Notify) {
        tokio::select! {
            _ = self.interrupts.recv() => self.is_saved = false,
            () = saved.notified() => self.is_saved = true,
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
        let saves = Arc::<Saves>::default();
        stops.saved = Arc::clone(&saves);
        let of_task = Arc::clone(source);
        let has_terminal = io::stdin().is_terminal();
        let watch = async move {
            is_saved(&of_task, before).await;
            saves.seen.notify_one();
            // Whoever is at the prompt of the debugger would lose it, and a step between two prompts is short.
            let (most, pause) = DEBUGGER;
            let mut looks = if has_terminal { 0 } else { most };
            while looks < most {
                looks = if python::is_debugged().await {
                    0
                } else {
                    looks + 1
                };
                sleep(pause).await;
            }
            saves.ends.notify_one();
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
            "--- {}: waiting for the next save; Ctrl-C stops ---",
            now()
        ));
        runtime.block_on(stops.idle());
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
